#include "tests/fuzz/uploads_world.h"

#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/metrics/metric_families.h"
#include "common/metrics/metric_names.h"
#include "common/os/sha256.h"
#include "controller/api/upload_service.h"
#include "tests/fuzz/fake_calls.h"
#include "tests/fuzz/memory_file_system.h"
#include "tests/fuzz/message_builder.h"

namespace muster::testing {
namespace {

namespace mc = ::muster::controller;

constexpr char kToken[] = "secret";
constexpr char kFolder[] = "/uploads";
constexpr uint64_t kMaxBytes = 2000;

[[noreturn]] void Broken(const std::string& what) {
  ::fprintf(stderr, "BROKEN: %s\n", what.c_str());
  ::abort();
}

}  // namespace

class UploadsWorld::World {
 public:
  World() {
    auto store =
        mc::UploadStore::Open({.folder = kFolder,
                               .max_bytes = kMaxBytes,
                               .referred = [] { return std::map<std::string, absl::Duration>(); }},
                              fs_, clock_);
    if (!store.ok()) Broken("the store does not open");
    store_ = *std::move(store);
    thread_ = std::make_unique<mc::UploadThread>(*store_, clock_);
    people_ =
        std::make_unique<mc::UploadService>(*thread_, gate_, mc::UploadService::Side::kPeople);
    agents_ =
        std::make_unique<mc::UploadService>(*thread_, gate_, mc::UploadService::Side::kAgents);
  }

  const std::set<std::string>& called() const { return called_; }

  void Step(FuzzInput& input) {
    switch (input.Below(8)) {
      case 0:
      case 1:
        return Begin(input);
      case 2:
      case 3:
      case 4:
        return Send(input);
      case 5:
        if (!uploads_.empty()) End(input.Below(static_cast<uint32_t>(uploads_.size())));
        return;
      case 6:
        return Ask(input);
      default:
        clock_.Advance(absl::Minutes(input.Byte()));
    }
  }

  void Finish() {
    while (!uploads_.empty()) End(0);
    Await([&] { return board_.open() == 0; });
    thread_.reset();  // what it still has to remove, it removes
    if (store_->total_bytes() > kMaxBytes) Broken("more is kept than may be");
    uint64_t bytes = 0;
    for (const auto& [path, content] : fs_.files()) {
      if (path != absl::StrCat(kFolder, "/", Sha256Hex(content)))
        Broken("a file that is not what it is called: " + path);
      bytes += content.size();
    }
    if (bytes != store_->total_bytes()) Broken("the store does not know what it has");
  }

 private:
  using Upload = FakeReader<v1::UploadRequest, v1::UploadResponse>;
  using Find = FakeUnary<v1::FindUploadRequest, v1::FindUploadResponse>;
  using Fetch = FakeWriter<v1::FetchUploadRequest, v1::FetchUploadResponse>;

  struct Sending {
    std::shared_ptr<Upload> call;
    std::string hash, rest;  // what is left of what it wants to send
    bool honest = true;      // it says what it sends
  };

  template <typename Condition>
  void Await(const Condition& condition) {
    if (!board_.DeliverUntil(condition)) Broken("a call never ends");
  }
  std::string Token(FuzzInput& input) {
    return absl::StrCat("Bearer ", input.Chance(248) ? kToken : "another");
  }
  static std::string SomeContent(FuzzInput& input) {
    return std::string(input.Below(8) * 100, static_cast<char>('a' + input.Below(3)));
  }

  void Begin(FuzzInput& input) {
    if (uploads_.size() >= 10) return;
    Sending& sending = uploads_.emplace_back();
    const std::string token = Token(input);
    sending.call = std::make_shared<Upload>(board_, token);
    mc::UploadService& service = input.Chance(240) ? *people_ : *agents_;
    called_.insert("Upload");
    sending.call->Bind(service.Upload(sending.call->context(), &sending.call->response));
    sending.rest = SomeContent(input);
    sending.hash = Sha256Hex(sending.rest);
    v1::UploadRequest first;
    first.set_sha256(sending.hash);
    first.set_bytes(sending.rest.size());
    if (input.Chance(48)) {
      FillMessage(input, first);
      sending.honest = false;
    }
    Say(sending, first);
  }

  void Say(Sending& sending, const v1::UploadRequest& request) {
    Await([&] { return sending.call->listens() || sending.call->finished(); });
    sending.call->Say(request);
  }

  void Send(FuzzInput& input) {
    if (uploads_.empty()) return;
    Sending& sending = uploads_[input.Below(static_cast<uint32_t>(uploads_.size()))];
    v1::UploadRequest piece;
    const size_t size = std::min<size_t>(input.Byte(), sending.rest.size());
    piece.set_data(sending.rest.substr(0, size));
    sending.rest.erase(0, size);
    if (input.Chance(16)) {
      *piece.mutable_data() += "more";
      sending.honest = false;
    }
    Say(sending, piece);
  }

  void End(uint32_t index) {
    const Sending sending = uploads_[index];
    uploads_.erase(uploads_.begin() + index);
    // An honest one sends all that it has.
    if (sending.honest && !sending.rest.empty() && index % 2 == 0) {
      v1::UploadRequest piece;
      piece.set_data(sending.rest);
      Sending last = sending;
      Say(last, piece);
    }
    Await([&] { return sending.call->listens() || sending.call->finished(); });
    sending.call->HangUp();
    Await([&] { return sending.call->finished(); });
  }

  void Ask(FuzzInput& input) {
    const std::string content = SomeContent(input);
    const std::string hash = input.Chance(240) ? Sha256Hex(content) : input.Bytes(64);
    auto find = std::make_shared<Find>(board_, absl::StrCat("Bearer ", kToken));
    find->request.set_sha256(hash);
    called_.insert("Find");
    find->Bind(people_->Find(find->context(), &find->request, &find->response));
    Await([&] { return find->finished(); });
    auto fetch = std::make_shared<Fetch>(board_, absl::StrCat("Bearer ", kToken));
    std::string got;
    fetch->on_message = [&got](const v1::FetchUploadResponse& piece) { got += piece.data(); };
    fetch->request.set_sha256(hash);
    called_.insert("Fetch");
    fetch->Bind(agents_->Fetch(fetch->context(), &fetch->request));
    Await([&] { return fetch->finished(); });
    if (find->response.found() != fetch->ok()) Broken("found, but not to be had");
    if (fetch->ok() && Sha256Hex(got) != hash) Broken("another archive came back");
  }

  MemoryFileSystem fs_;
  SimulatedClock clock_;
  MetricFamilies families_{metric::kControllerDroppedTotal};
  mc::CallGate gate_{kToken, families_, clock_};
  CallBoard board_;
  std::unique_ptr<mc::UploadStore> store_;
  std::unique_ptr<mc::UploadThread> thread_;
  std::unique_ptr<mc::UploadService> people_, agents_;
  std::vector<Sending> uploads_;
  std::set<std::string> called_;
};

UploadsWorld::UploadsWorld() : world_(std::make_unique<World>()) {}
UploadsWorld::~UploadsWorld() = default;
void UploadsWorld::Step(FuzzInput& input) { world_->Step(input); }
void UploadsWorld::Finish() { world_->Finish(); }
const std::set<std::string>& UploadsWorld::called() const { return world_->called(); }

}  // namespace muster::testing
