#include "controller/api/upload_service.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/rpc/status_map.h"

namespace muster::controller {
namespace {

constexpr size_t kMaxPieceBytes = 1 << 20;
// An upload's time is looked at so often, at least.
constexpr absl::Duration kCheckEvery = absl::Seconds(1);

// One archive from a client. Reads the next piece when the last one is written.
class UploadCall final : public grpc::ServerReadReactor<v1::UploadRequest>,
                         private UploadThread::Timed {
 public:
  UploadCall(UploadThread& upload_thread, CallGate& gate, const MayUseUpload& may_use,
             v1::UploadResponse& response)
      : upload_thread_(upload_thread), gate_(gate), may_use_(may_use), response_(response) {
    gate_.StreamOpened("Upload");
  }

  void Begin(absl::StatusOr<Caller> allowed) {
    if (!allowed.ok()) return End(allowed.status());
    caller_ = *std::move(allowed);
    upload_thread_.Enqueue([this] {
      upload_thread_.Watch(*this);
      began_ = upload_thread_.Now();
      Read();
    });
  }

 private:
  void Read() {
    read_at_ = upload_thread_.Now();
    reading_ = true;
    StartRead(&message_);
  }
  void OnReadDone(bool ok) override {
    // Cleared here, on gRPC's thread: the upload thread may be busy with the disk, and that time
    // must not count against the peer.
    reading_ = false;
    upload_thread_.Enqueue([this, ok] {
      if (ended_) return;  // it took too long
      ok ? Take() : End(Commit());
    });
  }
  void OnDone() override {
    gate_.StreamClosed("Upload", code_);
    // The upload thread removes what is half written.
    upload_thread_.Enqueue([this] {
      upload_thread_.Forget(*this);
      delete this;
    });
  }
  void CheckDeadline(absl::Duration now) override {
    const UploadPatience& patience = upload_thread_.patience();
    const bool silent = reading_ && now - read_at_ > patience.piece;
    if (ended_) return;
    if (const absl::Status allowed = gate_.CheckAgain(caller_, ""); !allowed.ok()) {
      incoming_.reset();
      return End(allowed);
    }
    if (!silent && now - began_ <= patience.whole) return;
    incoming_.reset();  // its place is another's from now on
    End(absl::DeadlineExceededError(
        silent ? absl::StrCat("upload: nothing came for ", HumanDuration(patience.piece))
               : absl::StrCat("upload: not done after ", HumanDuration(patience.whole))));
  }

  void Take() {
    const absl::Status taken = TakeMessage();
    taken.ok() && !response_.already_existed() ? Read() : End(taken);
  }
  absl::Status TakeMessage() {
    if (incoming_ == nullptr) {
      const bool may_use = may_use_ == nullptr || may_use_(caller_, message_.sha256());
      if (may_use && upload_thread_.store().Find(message_.sha256())) {
        response_.set_already_existed(true);  // the rest need not come
        return absl::OkStatus();
      }
      place_ = upload_thread_.shares().Take(caller_.Share());
      if (place_ == nullptr) {
        return absl::ResourceExhaustedError(absl::StrCat(
            "upload: ", upload_thread_.shares().share(), " of yours are under way, of ",
            UploadStore::kMaxIncoming, " in all: wait until one has ended"));
      }
      MUSTER_ASSIGN_OR_RETURN(incoming_,
                              upload_thread_.store().Begin(message_.sha256(), message_.bytes(),
                                                           caller_.principal->user));
    }
    if (message_.data().size() > kMaxPieceBytes) {
      return absl::InvalidArgumentError("upload: a piece is larger than 1 MiB");
    }
    return incoming_->Append(message_.data());
  }
  absl::Status Commit() {
    if (incoming_ == nullptr) return absl::InvalidArgumentError("upload: nothing came");
    return incoming_->Commit();
  }
  void End(const absl::Status& status) {
    ended_ = true;
    place_.reset();
    code_ = status.code();
    Finish(ToGrpc(status));
  }

  UploadThread& upload_thread_;
  CallGate& gate_;
  const MayUseUpload& may_use_;
  v1::UploadResponse& response_;
  Caller caller_;
  absl::Duration began_;
  absl::Duration read_at_;             // when the next piece was waited for
  std::atomic<bool> reading_ = false;  // a read is under way
  bool ended_ = false;
  v1::UploadRequest message_;
  CallerShares::Place place_;
  std::unique_ptr<UploadStore::Incoming> incoming_;
  absl::StatusCode code_ = absl::StatusCode::kOk;
};

// One archive to an agent. Reads the next piece when the last one has left.
class FetchCall final : public grpc::ServerWriteReactor<v1::FetchUploadResponse>,
                        private UploadThread::Timed {
 public:
  // `context`: of the call; it is there until Finish.
  FetchCall(UploadThread& upload_thread, CallGate& gate, grpc::CallbackServerContext& context,
            std::string sha256)
      : upload_thread_(upload_thread),
        gate_(gate),
        context_(context),
        sha256_(std::move(sha256)),
        archive_(upload_thread.store(), sha256_) {
    gate_.StreamOpened("FetchUpload");
  }

  // `may_fetch` may be null.
  void Begin(const absl::Status& allowed, const MayFetchUpload& may_fetch) {
    if (!allowed.ok()) return End(allowed);
    const PeerNames agent = PeerNamesOf(context_);
    place_ = upload_thread_.fetch_shares().Take(absl::StrCat(
        agent.has_value() ? absl::StrJoin(*agent, " ") : "", "@", HostOfPeer(context_.peer())));
    if (place_ == nullptr) {
      return End(absl::ResourceExhaustedError(
          absl::StrCat("fetch: ", UploadThread::kMostFetches, " of this agent's are under way")));
    }
    upload_thread_.Enqueue([this, agent, &may_fetch] {
      upload_thread_.Watch(*this);
      began_ = upload_thread_.Now();
      const absl::Status may = may_fetch == nullptr ? absl::OkStatus() : may_fetch(agent, sha256_);
      may.ok() ? Next() : End(may);
    });
  }

 private:
  void Next() {
    absl::StatusOr<std::string> piece = archive_.Next();
    if (!piece.ok() || piece->empty()) return End(piece.status());
    *message_.mutable_data() = *std::move(piece);
    write_began_ = upload_thread_.Now();
    writing_ = true;
    StartWrite(&message_);
  }
  void OnWriteDone(bool ok) override {
    writing_ = false;  // here, on gRPC's thread, as in UploadCall
    upload_thread_.Enqueue([this, ok] {
      ok ? Next() : End(absl::CancelledError("the agent went away, or does not read"));
    });
  }
  void OnDone() override {
    gate_.StreamClosed("FetchUpload", code_);
    upload_thread_.Enqueue([this] {
      upload_thread_.Forget(*this);
      delete this;
    });
  }
  // A status would wait behind the piece that is not read.
  void CheckDeadline(absl::Duration now) override {
    const UploadPatience& patience = upload_thread_.patience();
    const bool is_late = now - write_began_ > patience.piece || now - began_ > patience.whole;
    if (writing_ && is_late) context_.TryCancel();
  }
  void End(const absl::Status& status) {
    place_.reset();
    code_ = status.code();
    Finish(ToGrpc(status));
  }

  UploadThread& upload_thread_;
  CallGate& gate_;
  grpc::CallbackServerContext& context_;
  const std::string sha256_;
  CallerShares::Place place_;
  UploadStore::Outgoing archive_;
  absl::Duration began_;
  absl::Duration write_began_;
  std::atomic<bool> writing_ = false;  // a write is under way
  v1::FetchUploadResponse message_;
  absl::StatusCode code_ = absl::StatusCode::kOk;
};

}  // namespace

UploadThread::UploadThread(UploadStore& store, Clock& clock, UploadPatience patience)
    : store_(store), clock_(clock), patience_(patience), thread_([this] { Run(); }) {}

UploadThread::~UploadThread() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  thread_.join();
}

void UploadThread::Enqueue(std::function<void()> work) {
  MutexLock lock(mutex_);
  work_.push_back(std::move(work));
  wake_.NotifyAll();
}

void UploadThread::Run() {
  while (true) {
    std::function<void()> next;
    {
      MutexLock lock(mutex_);
      if (work_.empty() && !stopping_) {
        timed_.empty() ? wake_.Wait(mutex_)
                       : (void)wake_.WaitFor(mutex_, std::min(kCheckEvery, patience_.piece));
      }
      if (work_.empty() && stopping_) return;
      if (!work_.empty()) {
        next = std::move(work_.front());
        work_.pop_front();
      }
    }
    if (next != nullptr) next();
    CheckDeadlines();
  }
}

void UploadThread::CheckDeadlines() {
  const absl::Duration now = Now();
  if (now - checked_at_ < std::min(kCheckEvery, patience_.piece)) return;
  checked_at_ = now;
  for (Timed* timed : timed_) timed->CheckDeadline(now);
}

absl::StatusOr<Caller> UploadService::Allow(grpc::CallbackServerContext& context, Side side,
                                            absl::string_view method) {
  Caller caller;
  if (side_ == Side::kPeople && side == Side::kPeople) {
    return gate_.Enter(context, absl::StrCat("UploadService/", method));
  }
  MUSTER_RETURN_IF_ERROR(gate_.Check(context));
  if (side == side_) return caller;
  return absl::UnimplementedError(side == Side::kPeople ? "uploads go to the people's port"
                                                        : "fetches go to the agents' port");
}

grpc::ServerUnaryReactor* UploadService::Find(grpc::CallbackServerContext* context,
                                              const v1::FindUploadRequest* request,
                                              v1::FindUploadResponse* response) {
  auto* call = new UnaryCall(gate_, "FindUpload");
  const absl::StatusOr<Caller> allowed = Allow(*context, Side::kPeople, "Find");
  if (allowed.ok() && (may_use_ == nullptr || may_use_(*allowed, request->sha256()))) {
    response->set_found(upload_thread_.store().Find(request->sha256()));
  }
  call->Done(allowed.status());
  return call;
}

grpc::ServerReadReactor<v1::UploadRequest>* UploadService::Upload(
    grpc::CallbackServerContext* context, v1::UploadResponse* response) {
  auto* call = new UploadCall(upload_thread_, gate_, may_use_, *response);
  call->Begin(Allow(*context, Side::kPeople, "Upload"));
  return call;
}

grpc::ServerWriteReactor<v1::FetchUploadResponse>* UploadService::Fetch(
    grpc::CallbackServerContext* context, const v1::FetchUploadRequest* request) {
  auto* call = new FetchCall(upload_thread_, gate_, *context, request->sha256());
  call->Begin(Allow(*context, Side::kAgents, "Fetch").status(), may_fetch_);
  return call;
}

}  // namespace muster::controller
