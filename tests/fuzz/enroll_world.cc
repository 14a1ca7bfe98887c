#include "tests/fuzz/enroll_world.h"

#include <google/protobuf/stubs/logging.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/fs/file_system.h"
#include "common/metrics/metric_names.h"
#include "common/protocol/join_token.h"
#include "common/tls/certificate_authority.h"
#include "controller/api/enroll_service.h"
#include "controller/setup/setup_command.h"
#include "tests/fuzz/fake_calls.h"
#include "tests/fuzz/message_builder.h"

namespace muster::testing {
namespace {

namespace mc = ::muster::controller;

constexpr char kPeoplesToken[] = "builtin";

[[noreturn]] void BrokenEnrollment(const std::string& what) {
  ::fprintf(stderr, "BROKEN: %s\n", what.c_str());
  ::abort();
}

// On memory where there is some.
std::string EnrollFolder() {
  for (const char* root : {"/dev/shm", "/tmp"}) {
    std::string pattern = std::string(root) + "/muster-enroll-XXXXXX";
    if (::mkdtemp(pattern.data()) != nullptr) return pattern;
  }
  BrokenEnrollment("no folder for the database");
}

std::string TextOf(mc::Enroller& enroller) {
  std::string text;
  const auto tokens = enroller.Tokens();
  if (!tokens.ok()) BrokenEnrollment(tokens.status().ToString());
  for (const mc::JoinTokenRow& token : *tokens) {
    if (token.uses > token.max_uses) {
      BrokenEnrollment(absl::StrCat("join token ", token.id, " counts ", token.uses, " of ",
                                    token.max_uses, " uses"));
    }
    absl::StrAppend(&text, token.id, ":", token.uses, token.revoked, ";");
  }
  const auto certificates = enroller.Certificates();
  if (!certificates.ok()) BrokenEnrollment(certificates.status().ToString());
  for (const mc::Enroller::Held& held : *certificates) {
    absl::StrAppend(&text, held.row.name, "=", held.row.serial, held.revoked.has_value(), ";");
  }
  return text;
}

}  // namespace

class EnrollWorld::World {
 public:
  World() : folder_(EnrollFolder()) {
    google::protobuf::SetLogHandler(nullptr);  // bad text is what this is about
    const char* argv[] = {"musterd", "init", "--data-dir", folder_.c_str()};
    const auto made = mc::RunSetupCommand(4, argv, PosixFileSystem(), clock_.Now());
    if (!made.ok()) BrokenEnrollment(made.status().ToString());
    for (std::string& request : requests_) {
      request = *MakeSigningRequest(*MakePrivateKey());
    }
    Open();
  }
  ~World() {
    Close();
    std::filesystem::remove_all(folder_);
  }

  void Step(FuzzInput& input) {
    if (input.Chance(8)) clock_.Advance(absl::Seconds(input.Byte()));
    using S = mc::EnrollService;
    const std::vector<std::function<void()>> calls = {
        [&] { CreateToken(input); },
        [&] { Call(*service_, input, "ListJoinTokens", &S::ListJoinTokens); },
        [&] { Call(*service_, input, "RevokeJoinToken", &S::RevokeJoinToken); },
        [&] { Call(*service_, input, "ListCertificates", &S::ListCertificates); },
        [&] { Call(*service_, input, "RevokeCertificate", &S::RevokeCertificate); },
        [&] { Call(*service_, input, "GetAuthority", &S::GetAuthority); },
        [&] { Enroll(input); },
        [&] { Call(*renewal_, input, "Renew", &mc::RenewService::Renew); },
    };
    calls[input.Below(static_cast<uint32_t>(calls.size()))]();
  }

  void Finish() {
    const std::string before = TextOf(*enroller_);
    Close();
    Open();
    if (TextOf(*enroller_) != before) BrokenEnrollment("something else came back from the disk");
  }

  const std::set<std::string>& called() const { return called_; }

 private:
  static const char* ServiceOf(const mc::EnrollService&) { return "EnrollService."; }
  static const char* ServiceOf(const mc::RenewService&) { return "RenewService."; }

  void Open() {
    mc::EnrollerOptions options;
    options.data_dir = folder_;
    options.tls = {folder_ + "/tls/ca.pem", folder_ + "/tls/server.pem",
                   folder_ + "/tls/server.key"};
    options.on_fatal = [](const absl::Status& status) { BrokenEnrollment(status.ToString()); };
    auto opened = mc::Enroller::Open(std::move(options), PosixFileSystem(), clock_);
    if (!opened.ok()) BrokenEnrollment(opened.status().ToString());
    enroller_ = *std::move(opened);
    thread_ = std::make_unique<mc::EnrollThread>(*enroller_);
    service_ =
        std::make_unique<mc::EnrollService>(*thread_, people_, clock_, mc::EnrollServiceOptions());
    renewal_ = std::make_unique<mc::RenewService>(*thread_, agents_);
  }
  void Close() {
    service_.reset();
    renewal_.reset();
    thread_.reset();
    enroller_.reset();
  }

  void CreateToken(FuzzInput& input) {
    const auto call = Call(*service_, input, "CreateJoinToken", &mc::EnrollService::CreateJoinToken,
                           [&](v1::CreateJoinTokenRequest& request) {
                             request.set_max_uses(1 + input.Below(3));
                             request.set_lifetime_ms(1000 * (1 + input.Byte()));
                             request.set_may_replace(input.Chance(64));
                           });
    if (call->response.text().empty()) return;
    const auto token = ParseJoinToken(call->response.text());
    if (!token.ok()) BrokenEnrollment("a join token cannot be read: " + call->response.text());
    secrets_[token->id] = token->secret;
  }

  void Enroll(FuzzInput& input) {
    std::string id, secret;
    const auto call = Call(*service_, input, "Enroll", &mc::EnrollService::Enroll,
                           [&](v1::EnrollRequest& request) {
                             if (!secrets_.empty()) {
                               auto known = secrets_.begin();
                               std::advance(known, input.Below(secrets_.size()));
                               request.set_token_id(known->first);
                               request.set_secret(input.Chance(64) ? "guess" : known->second);
                             }
                             request.set_name(absl::StrCat("node-", input.Below(3)));
                             request.set_request(requests_[input.Below(std::size(requests_))]);
                           });
    if (call->response.certificate().empty()) return;
    const auto known = secrets_.find(call->request.token_id());
    if (known == secrets_.end() || known->second != call->request.secret()) {
      BrokenEnrollment("a machine without a token's secret got a certificate");
    }
  }

  template <typename Service, typename Request, typename Response>
  std::shared_ptr<FakeUnary<Request, Response>> Call(
      Service& service, FuzzInput& input, const std::string& name,
      grpc::ServerUnaryReactor* (Service::*handler)(grpc::CallbackServerContext*, const Request*,
                                                    Response*),
      const std::type_identity_t<std::function<void(Request&)>>& frame = nullptr) {
    auto call = std::make_shared<FakeUnary<Request, Response>>(
        board_, absl::StrCat("Bearer ", input.Chance(16) ? "nobody" : kPeoplesToken));
    if (frame != nullptr) frame(call->request);
    if constexpr (requires { call->request.set_id(""); }) {
      if (!secrets_.empty()) call->request.set_id(secrets_.begin()->first);
    }
    if constexpr (std::is_same_v<Request, v1::RevokeCertificateRequest>) {
      call->request.set_name(absl::StrCat("node-", input.Below(3)));
    }
    if (input.Chance(48)) FillMessage(input, call->request);
    if (!Travels(call->request)) call->request.Clear();  // gRPC would refuse it
    called_.insert(ServiceOf(service) + name);
    call->Bind((service.*handler)(call->context(), &call->request, &call->response));
    if (!board_.DeliverUntil([&] { return call->finished(); })) {
      BrokenEnrollment(name + " is not answered");
    }
    return call;
  }

  const std::string folder_;
  SimulatedClock clock_;
  MetricFamilies families_{metric::kControllerDroppedTotal};
  CallBoard board_;
  mc::CallGate people_{kPeoplesToken, families_, clock_};
  mc::CallGate agents_{std::nullopt, families_, clock_};
  std::unique_ptr<mc::Enroller> enroller_;
  std::unique_ptr<mc::EnrollThread> thread_;
  std::unique_ptr<mc::EnrollService> service_;
  std::unique_ptr<mc::RenewService> renewal_;
  std::string requests_[3];                     // of three machines
  std::map<std::string, std::string> secrets_;  // of all join tokens, by id
  std::set<std::string> called_;
};

EnrollWorld::EnrollWorld() : world_(std::make_unique<World>()) {}
EnrollWorld::~EnrollWorld() = default;
void EnrollWorld::Step(FuzzInput& input) { world_->Step(input); }
void EnrollWorld::Finish() { world_->Finish(); }
const std::set<std::string>& EnrollWorld::called() const { return world_->called(); }

}  // namespace muster::testing
