#include "tests/fuzz/access_world.h"

#include <google/protobuf/stubs/logging.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <future>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/metrics/metric_names.h"
#include "controller/access/access_rules.h"
#include "controller/api/access_service.h"
#include "tests/fuzz/fake_calls.h"
#include "tests/fuzz/message_builder.h"

namespace muster::testing {
namespace {

namespace mc = ::muster::controller;

constexpr char kBuiltinToken[] = "builtin";

[[noreturn]] void BrokenAccess(const std::string& what) {
  ::fprintf(stderr, "BROKEN: %s\n", what.c_str());
  ::abort();
}

// On memory where there is some.
std::string AccessFolder() {
  for (const char* root : {"/dev/shm", "/tmp"}) {
    std::string pattern = std::string(root) + "/muster-access-XXXXXX";
    if (::mkdtemp(pattern.data()) != nullptr) return pattern;
  }
  BrokenAccess("no folder for the database");
}

std::string TextOf(const mc::AccessTables& tables) {
  std::string text = absl::StrCat(tables.last_token, ";");
  for (const auto& [name, user] : tables.users) {
    absl::StrAppend(&text, name, ":");
    for (const auto& [project, role] : user.grants) {
      absl::StrAppend(&text, project, "=", static_cast<int>(role), ",");
    }
  }
  for (const std::string& name : tables.removed) absl::StrAppend(&text, "not ", name, ";");
  for (const auto& [id, token] : tables.tokens) {
    absl::StrAppend(&text, id, token.user, token.name, token.hash, absl::FormatTime(token.revoked),
                    ";");
  }
  return text;
}

// Others may have made them one.
bool IsAdmin(const mc::AccessTables& tables, const std::string& name) {
  const auto user = tables.users.find(name);
  if (user == tables.users.end()) return false;
  for (const auto& [project, role] : user->second.grants) {
    if (role == mc::Role::kAdmin) return true;
  }
  return false;
}

// Names that are there are likelier than chance.
std::string SomeUser(FuzzInput& input) {
  constexpr const char* kNames[] = {"anna", "bob", "carl", "admin", ""};
  return kNames[input.Below(5)];
}

template <typename Request>
void Frame(FuzzInput& input, Request& request) {
  if constexpr (requires { request.set_user(""); }) request.set_user(SomeUser(input));
  if constexpr (requires { request.set_project(""); }) {
    request.set_project(input.Chance(64) ? "*" : "vision");
  }
  if constexpr (requires { request.set_role(v1::USER); }) {
    request.set_role(static_cast<v1::Role>(input.Below(6)));
  }
  if constexpr (requires { request.set_lifetime_ms(1); }) request.set_lifetime_ms(input.Byte());
  if constexpr (requires { request.set_name(""); }) request.set_name("laptop");
  if constexpr (requires { request.set_id(1); }) request.set_id(input.Below(6));
}

}  // namespace

class AccessWorld::World {
 public:
  World() : folder_(AccessFolder()) {
    google::protobuf::SetLogHandler(nullptr);  // bad text is what this is about
    Open();
    // One of each kind: who may do nothing, a user, the admin of a project, and one of all.
    Set([this](mc::AccessTables& tables, mc::AccessControl::Touched& touched) {
      int number = 0;
      for (const char* name : {"anna", "bob", "carl", "dora"}) {
        if (!mc::AddUser(tables, name, clock_.Now()).ok()) BrokenAccess("a user is not added");
        touched.users.push_back(name);
        mc::Token token{
            .id = 0, .user = name, .name = "t", .hash = mc::TokenHash(absl::StrCat("t", number++))};
        token.created = clock_.Now();
        touched.tokens.push_back(*mc::AddUserToken(tables, token, clock_.Now(), touched.tokens));
      }
      (void)mc::GrantRole(tables, "bob", "vision", mc::Role::kUser);
      (void)mc::GrantRole(tables, "carl", "vision", mc::Role::kAdmin);
      (void)mc::GrantRole(tables, "dora", "*", mc::Role::kAdmin);
      return absl::OkStatus();
    });
  }
  ~World() {
    service_.reset();
    gate_.reset();
    access_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Step(FuzzInput& input) {
    if (input.Chance(8)) clock_.Advance(absl::Milliseconds(input.Byte()));
    using S = mc::AccessService;
    const std::vector<std::function<void()>> calls = {
        [&] { Call(input, "WhoAmI", &S::WhoAmI); },
        [&] { Call(input, "ListUsers", &S::ListUsers); },
        [&] { Call(input, "AddUser", &S::AddUser); },
        [&] { Call(input, "RemoveUser", &S::RemoveUser); },
        [&] { Call(input, "GrantRole", &S::GrantRole); },
        [&] { Call(input, "RevokeRole", &S::RevokeRole); },
        [&] { Call(input, "CreateToken", &S::CreateToken); },
        [&] { Call(input, "ListTokens", &S::ListTokens); },
        [&] { Call(input, "RevokeToken", &S::RevokeToken); },
        [&] { Call(input, "ListAudit", &S::ListAudit); },
        [&] { Call(input, "VerifyAudit", &S::VerifyAudit); },
    };
    calls[input.Below(static_cast<uint32_t>(calls.size()))]();
  }

  void Finish() {
    const std::string before = TextOf(*access_->tables());
    service_.reset();
    gate_.reset();
    access_.reset();
    Open();
    if (TextOf(*access_->tables()) != before) BrokenAccess("other tables came back from the disk");
    std::promise<absl::Status> verdict;
    access_->VerifyAudit({}, [&](const absl::StatusOr<mc::AuditVerdict>& answer) {
      verdict.set_value(answer.status());
    });
    const absl::Status whole = verdict.get_future().get();
    if (!whole.ok()) BrokenAccess(whole.ToString());
  }

  const std::set<std::string>& called() const { return called_; }

 private:
  void Open() {
    mc::AccessOptions options;
    options.path = folder_ + "/access.db";
    options.on_fatal = [](const absl::Status& status) { BrokenAccess(status.ToString()); };
    auto opened = mc::AccessControl::Open(std::move(options), kBuiltinToken, clock_);
    if (!opened.ok()) BrokenAccess(opened.status().ToString());
    access_ = *std::move(opened);
    gate_ = std::make_unique<mc::CallGate>(kBuiltinToken, families_, clock_, mc::RateLimit(),
                                           mc::StreamPatience(), access_.get());
    service_ = std::make_unique<mc::AccessService>(*access_, *gate_, "id");
  }
  void Set(mc::AccessControl::Edit edit) {
    std::promise<absl::Status> ended;
    access_->Change(std::move(edit), {.time = clock_.Now(), .outcome = "OK"},
                    [&](const absl::Status& status) { ended.set_value(status); });
    if (!ended.get_future().get().ok()) BrokenAccess("a change is refused");
  }

  template <typename Request, typename Response>
  void Call(FuzzInput& input, const std::string& name,
            grpc::ServerUnaryReactor* (mc::AccessService::*handler)(grpc::CallbackServerContext*,
                                                                    const Request*, Response*)) {
    // t0 to t3 are those of the four users; t4 is nobody's.
    const uint32_t who = input.Below(6);
    const bool may_nothing = who == 1 || who == 4;  // nor has anything but a token of their own
    const std::string token = who == 5 ? std::string(kBuiltinToken) : absl::StrCat("t", who);
    auto call = std::make_shared<FakeUnary<Request, Response>>(board_, "Bearer " + token);
    Frame(input, call->request);
    if (input.Chance(48)) FillMessage(input, call->request);
    if (!Travels(call->request)) call->request.Clear();  // gRPC would refuse it
    called_.insert(name);
    const std::shared_ptr<const mc::AccessTables> tables = access_->tables();
    const std::string before = TextOf(*tables);
    call->Bind((service_.get()->*handler)(call->context(), &call->request, &call->response));
    if (!board_.DeliverUntil([&] { return call->finished(); })) {
      BrokenAccess(name + " is not answered");
    }
    const bool changed = TextOf(*access_->tables()) != before;
    if (changed && may_nothing && name != "RevokeToken" && !IsAdmin(*tables, "bob")) {
      BrokenAccess(absl::StrCat(name, " by one who may not changed something"));
    }
  }

  const std::string folder_;
  SimulatedClock clock_;
  MetricFamilies families_{metric::kControllerDroppedTotal};
  CallBoard board_;
  std::unique_ptr<mc::AccessControl> access_;
  std::unique_ptr<mc::CallGate> gate_;
  std::unique_ptr<mc::AccessService> service_;
  std::set<std::string> called_;
};

AccessWorld::AccessWorld() : world_(std::make_unique<World>()) {}
AccessWorld::~AccessWorld() = default;
void AccessWorld::Step(FuzzInput& input) { world_->Step(input); }
void AccessWorld::Finish() { world_->Finish(); }
const std::set<std::string>& AccessWorld::called() const { return world_->called(); }

}  // namespace muster::testing
