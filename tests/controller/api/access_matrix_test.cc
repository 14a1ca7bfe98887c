// The real handlers by callers of every role: what the table of methods says is what happens, of
// others' jobs too, and what was denied is on record.
#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <initializer_list>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/version.h"
#include "controller/access/access_rules.h"
#include "controller/api/admin_service.h"
#include "controller/api/enroll_service.h"
#include "controller/api/page_service.h"
#include "controller/api/upload_service.h"
#include "muster/v1/access_service.pb.h"
#include "muster/v1/exec_service.pb.h"
#include "tests/controller/api/api_fixture.h"
#include "tests/controller/api/initialised_enroller.h"
#include "tests/support/declared_services.h"
#include "tests/support/subprocess.h"

namespace muster::controller {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr Role kAllRoles[] = {Role::kNone, Role::kViewer, Role::kUser, Role::kOperator,
                              Role::kAdmin};
// A JobRef of id 1 as field 1, as all requests have it that name a job.
const std::string kJobOne("\x0a\x02\x08\x01", 4);

class AccessMatrixTest : public ApiFixture {
 protected:
  AccessMatrixTest() {
    auto opened = AccessControl::Open({.path = dir_ / "access.db"}, kToken, clock_);
    EXPECT_OK(opened);
    control_ = *std::move(opened);
  }
  AccessControl* access() override { return control_.get(); }
  void TearDown() override {
    ApiFixture::TearDown();
    control_->Stop();
  }

  // A user with the role in the project, whose token is "of-NAME".
  void AddCaller(const std::string& name, const std::string& project, Role role) {
    std::promise<absl::Status> ended;
    control_->Change(
        [&](AccessTables& tables, AccessControl::Touched& touched) {
          if (const auto added = AddUser(tables, name, clock_.Now()); !added.ok()) {
            return added.status();
          }
          if (role != Role::kNone) {
            if (absl::Status given = GrantRole(tables, name, project, role); !given.ok()) {
              return given;
            }
          }
          Token token{.id = 0, .user = name, .name = "t", .hash = TokenHash("of-" + name)};
          token.created = clock_.Now();
          touched.users.push_back(name);
          const auto id = AddUserToken(tables, token, clock_.Now(), touched.tokens);
          if (id.ok()) touched.tokens.push_back(*id);
          return id.status();
        },
        {}, [&](const absl::Status& status) { ended.set_value(status); });
    ASSERT_OK(ended.get_future().get());
  }
  void PutJob(const std::string& project, const std::string& owner) {
    auto job = std::make_shared<Job>();
    job->id = 1;
    auto settings = std::make_shared<JobSettings>();
    settings->name = "digits";
    settings->project = project;
    settings->checkpoint_root = "/ckpt";
    job->settings = settings;
    job->owner = owner;
    job->state = JobState::kSucceeded;
    engine_.Publish([&](Snapshot& s) { s.jobs.Put(1, job); });
  }
  std::vector<AuditRow> Denials() { return Rows({.denied = true, .most = 1000}); }
  std::vector<AuditRow> Rows(const AuditQuery& query) {
    std::promise<std::vector<AuditRow>> rows;
    control_->ReadAudit(query, [&](absl::StatusOr<AuditPage> page) {
      rows.set_value(page.ok() ? page->rows : std::vector<AuditRow>());
    });
    return rows.get_future().get();
  }
  static bool IsDenied(const absl::Status& status) {
    return absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status);
  }

  std::unique_ptr<AccessControl> control_;
};

// With all services of the people's port, as controller/server.cc has them.
class EveryServiceTest : public AccessMatrixTest {
 protected:
  void RegisterMore(grpc::ServerBuilder& builder) override {
    ASSERT_OK_AND_ASSIGN(enroller_, OpenEnrollerIn(dir_ / "controller", clock_));
    enroll_thread_ = std::make_unique<EnrollThread>(*enroller_);
    enroll_ =
        std::make_unique<EnrollService>(*enroll_thread_, *gate_, clock_, EnrollServiceOptions());
    UploadStore::Options uploads;
    uploads.folder = dir_ / "uploads";
    uploads.max_bytes = 1 << 20;
    uploads.referred = [] { return std::map<std::string, absl::Duration>(); };
    ASSERT_OK_AND_ASSIGN(upload_store_,
                         UploadStore::Open(std::move(uploads), PosixFileSystem(), clock_));
    upload_thread_ = std::make_unique<UploadThread>(*upload_store_, clock_);
    uploads_ =
        std::make_unique<UploadService>(*upload_thread_, *gate_, UploadService::Side::kPeople);
    pages_ = std::make_unique<PageService>(engine_, reader(), *gate_);
    admin_ = std::make_unique<AdminService>(nullptr, engine_, *gate_);
    for (grpc::Service* service : std::initializer_list<grpc::Service*>{
             enroll_.get(), uploads_.get(), pages_.get(), admin_.get()}) {
      builder.RegisterService(service);
    }
  }

  std::unique_ptr<Enroller> enroller_;
  std::unique_ptr<EnrollThread> enroll_thread_;
  std::unique_ptr<EnrollService> enroll_;
  std::unique_ptr<UploadStore> upload_store_;
  std::unique_ptr<UploadThread> upload_thread_;
  std::unique_ptr<UploadService> uploads_;
  std::unique_ptr<PageService> pages_;
  std::unique_ptr<AdminService> admin_;
};

TEST_F(EveryServiceTest, EveryMethodByEveryRole) {
  for (const Role role : kAllRoles) AddCaller(absl::StrCat("all-", NameOf(role)), "*", role);
  int cells = 0;
  std::set<std::string> for_agents;
  for (const google::protobuf::ServiceDescriptor* service : muster::testing::DeclaredServices()) {
    for (int i = 0; i < service->method_count(); ++i) {
      const std::string method = absl::StrCat(service->name(), "/", service->method(i)->name());
      const std::string path = "/muster.v1." + method;
      const MethodRole* row = FindMethodRole(method);
      ASSERT_NE(row, nullptr) << method;
      for (const Role role : kAllRoles) {
        const std::string caller = absl::StrCat("of-all-", NameOf(role));
        const std::string cell = absl::StrCat(method, " by ", NameOf(role));
        ++cells;
        // Asked before any handler hears of the call, on the people's port.
        const absl::Status headers = gate_->CheckPersonHeaders(path, "Bearer " + caller);
        if (row->scope == Scope::kNobody) {
          EXPECT_THAT(headers, StatusIs(absl::StatusCode::kUnimplemented)) << cell;
          for_agents.insert(method);
          continue;
        }
        const bool may = row->scope == Scope::kSelf || role >= row->least;
        EXPECT_EQ(headers.ok(), may) << cell;
        if (method == "AccessService/RevokeToken") continue;  // of others' it is an admin's
        const absl::Status status = CallAny(path, caller);
        EXPECT_EQ(IsDenied(status), !may) << cell << ": " << status;
        EXPECT_FALSE(absl::IsUnimplemented(status))
            << cell << ": register its service above, as controller/server.cc does";
      }
      EXPECT_TRUE(row->scope == Scope::kNobody || IsDenied(CallAny(path, ""))) << method;
      EXPECT_THAT(gate_->CheckPersonHeaders(path, ""), Not(IsOk())) << method;
    }
  }
  EXPECT_GT(cells, 5 * 50);
  // Those that no person may call: agents do on their own port, and a machine that joins.
  EXPECT_THAT(for_agents,
              UnorderedElementsAre("UploadService/Fetch", "WorkerService/Control",
                                   "WorkerService/Bulk", "WorkerService/Exec", "RenewService/Renew",
                                   "EnrollService/GetAuthority", "EnrollService/Enroll"));
  for (const MethodRole& row : AllMethodRoles()) {
    const bool joins =
        row.method == "EnrollService/GetAuthority" || row.method == "EnrollService/Enroll";
    EXPECT_EQ(EnrollService::IsOpen(absl::StrCat("/muster.v1.", row.method)), joins) << row.method;
  }
  EXPECT_THAT(gate_->CheckPersonHeaders("/muster.v1.JobService/DropAll", "Bearer of-all-admin"),
              StatusIs(absl::StatusCode::kUnimplemented));
  EXPECT_FALSE(Denials().empty());
}

// What the controller tells the agent of a worker.
class ExecLink final : public WorkerLink {
 public:
  void Send(const Assignment& assignment) override {
    if (std::holds_alternative<ExecAssignment>(assignment.body)) ++execs;
  }
  void Close(const absl::Status&) override {}
  std::atomic<int> execs = 0;
};

TEST_F(AccessMatrixTest, AProgramBesideARankIsForWhoMayControlTheJob) {
  PutJob("vision", "bob");
  engine_.Publish([](Snapshot& s) {
    auto job = std::make_shared<Job>(*s.FindJob(1));
    job->state = JobState::kRunning;
    auto attempt = std::make_shared<Attempt>();
    attempt->job_id = 1;
    attempt->number = 1;
    attempt->ranks.resize(1);
    attempt->ranks[0].worker = "w1";
    attempt->ranks[0].incarnation = "life";
    attempt->ranks[0].state = RankState::kRunning;
    job->current = attempt;
    s.jobs.Put(1, job);
    auto worker = std::make_shared<Worker>();
    worker->name = "w1";
    worker->facts.allows_commands = true;
    s.workers.Put(1, worker);
    s.worker_ids = std::make_shared<const std::map<std::string, uint64_t>>(
        std::map<std::string, uint64_t>{{"w1", 1}});
  });
  const auto link = std::make_shared<ExecLink>();
  engine_.Connect({}, link, [](const EventResult&) {});
  AddCaller("bob", "vision", Role::kUser);
  AddCaller("vera", "vision", Role::kViewer);
  AddCaller("anna", "vision", Role::kUser);
  AddCaller("carl", "vision", Role::kOperator);
  AddCaller("eve", "speech", Role::kAdmin);
  const auto stub = v1::ExecService::NewStub(channel_);
  v1::ExecRequest start;
  start.mutable_start()->mutable_job()->set_id(1);
  start.mutable_start()->add_argv("sh");
  const auto status_of = [&](const std::string& user) {
    grpc::ClientContext context;
    AddToken(context, "of-" + user);
    const auto stream = stub->Exec(&context);
    stream->Write(start);
    v1::ExecOutput output;
    EXPECT_FALSE(stream->Read(&output)) << user;
    return FromGrpc(stream->Finish());
  };
  EXPECT_THAT(status_of("vera"),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("needs role user")));
  EXPECT_THAT(status_of("anna"),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       HasSubstr("job 1 of bob: needs role operator in project vision")));
  // Who has no role where the job is does not hear that it is there.
  EXPECT_THAT(status_of("eve"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(link->execs, 0);
  for (const std::string user : {"vera", "anna", "eve"}) {
    const std::vector<AuditRow> rows = Rows({.user = user});
    ASSERT_EQ(rows.size(), 1u) << user;
    EXPECT_EQ(rows[0].entry.method, "ExecService/Exec") << user;
    EXPECT_EQ(rows[0].entry.outcome, "PERMISSION_DENIED") << user;
    EXPECT_EQ(rows[0].entry.object, user == "vera" ? "" : "job 1") << user;
  }
  int allowed = 0;
  for (const std::string user : {"bob", "carl"}) {
    grpc::ClientContext context;
    AddToken(context, "of-" + user);
    const auto stream = stub->Exec(&context);
    stream->Write(start);
    ++allowed;
    EXPECT_TRUE(muster::testing::WaitUntil(absl::Minutes(1), [&] {
      return link->execs == allowed;
    })) << user;
    context.TryCancel();
    EXPECT_THAT(FromGrpc(stream->Finish()), StatusIs(absl::StatusCode::kCancelled)) << user;
    const std::vector<AuditRow> rows = Rows({.user = user});
    ASSERT_EQ(rows.size(), 1u) << user;
    EXPECT_EQ(rows[0].entry.outcome, "OK") << user;
    EXPECT_THAT(rows[0].entry.object, HasSubstr("job 1")) << user;
  }
}

TEST_F(AccessMatrixTest, AJobIsForThoseOfItsProject) {
  const std::map<std::string, Role> reads = {
      {"GetJob", Role::kViewer},       {"WatchJob", Role::kViewer},
      {"StreamEvents", Role::kViewer}, {"StreamLogs", Role::kViewer},
      {"QueryMetrics", Role::kViewer}, {"ListCheckpoints", Role::kViewer},
      {"ExplainJob", Role::kViewer},   {"GetGoodput", Role::kViewer},
      {"CancelJob", Role::kOperator},  {"ControlJob", Role::kOperator},
      {"UpdateJob", Role::kOperator}};
  PutJob("vision", "bob");
  for (const Role role : kAllRoles) {
    AddCaller(absl::StrCat("v-", NameOf(role)), "vision", role);
    AddCaller(absl::StrCat("s-", NameOf(role)), "speech", role);
  }
  AddCaller("bob", "vision", Role::kUser);
  for (const auto& [method, least] : reads) {
    const std::string path = "/muster.v1.JobService/" + method;
    for (const Role role : kAllRoles) {
      const absl::Status here = CallAny(path, absl::StrCat("of-v-", NameOf(role)), kJobOne);
      EXPECT_EQ(IsDenied(here), role < least) << method << " by " << NameOf(role) << ": " << here;
      // Who has a role for the method, but none where the job is, does not hear that it is there.
      const absl::Status elsewhere = CallAny(path, absl::StrCat("of-s-", NameOf(role)), kJobOne);
      const bool enough = role >= FindMethodRole("JobService/" + method)->least;
      EXPECT_EQ(absl::IsNotFound(elsewhere), enough) << method << " by " << NameOf(role);
      EXPECT_EQ(IsDenied(elsewhere), !enough) << method << " by " << NameOf(role);
    }
    EXPECT_FALSE(IsDenied(CallAny(path, "of-bob", kJobOne))) << method;  // it is his
  }
  auto checkpoint = std::make_shared<Checkpoint>();
  checkpoint->id = 5;
  checkpoint->job_id = 1;
  engine_.Publish([&](Snapshot& s) { s.checkpoints.Put(5, checkpoint); });
  v1::ControlCheckpointRequest pin;
  pin.set_checkpoint_id(5);
  pin.set_verb(v1::ControlCheckpointRequest::PIN);
  const auto pin_by = [&](const std::string& token) {
    return CallAny("/muster.v1.JobService/ControlCheckpoint", token, pin.SerializeAsString());
  };
  EXPECT_TRUE(IsDenied(pin_by("of-v-user")));
  EXPECT_TRUE(absl::IsNotFound(pin_by("of-s-admin"))) << "it does not hear that it is there";
  EXPECT_OK(pin_by("of-v-operator"));
  EXPECT_OK(pin_by("of-bob"));
  EXPECT_THAT(CallAny("/muster.v1.JobService/CancelJob", "of-v-user", kJobOne),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("job 1 of bob: needs role operator in project vision"),
                             HasSubstr("muster user grant v-user vision operator"))));
  bool found = false;
  for (const AuditRow& row : Denials()) {
    found = found || (row.entry.user == "v-user" && row.entry.method == "JobService/CancelJob" &&
                      row.entry.project == "vision" && row.entry.object == "job 1");
  }
  EXPECT_TRUE(found);
}

v1::SubmitRequest SubmitTo(const std::string& project) {
  v1::SubmitRequest request;
  request.set_protocol_version(kProtocolVersion);
  v1::JobSpec* spec = request.mutable_spec();
  spec->set_name("mine");
  if (!project.empty()) spec->set_project(project);
  spec->mutable_train()->mutable_model()->mutable_mlp();
  spec->mutable_train()->mutable_data()->mutable_synthetic();
  spec->mutable_train()->set_batch_size(32);
  spec->mutable_train()->set_steps(100);
  return request;
}

// Whoever has no role in its project cannot tell a job that is there from one that is not, nor
// learns of what project or whose it is.
TEST_F(AccessMatrixTest, AJobThatOneMayNotReadIsAsOneThatIsNotThere) {
  PutJob("secret", "bob");
  engine_.Publish([](Snapshot& s) {
    for (uint64_t id = 2; id <= 4; ++id) {
      auto job = MakeJob(id, "known");
      auto settings = std::make_shared<JobSettings>(*job->settings);
      settings->project = "vision";
      job->settings = settings;
      if (id != 3) s.jobs.Put(id, job);  // 3 was forgotten
    }
    auto checkpoint = std::make_shared<Checkpoint>();
    checkpoint->id = 1;
    checkpoint->job_id = 1;
    checkpoint->path = "step-1";
    s.checkpoints.Put(1, checkpoint);
  });
  AddCaller("eve", "vision", Role::kAdmin);
  const auto said = [&](const std::string& method, const google::protobuf::Message& request,
                        uint64_t id) {
    const absl::Status status =
        CallAny("/muster.v1.JobService/" + method, "of-eve", request.SerializeAsString());
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound)) << method << " of " << id;
    return absl::StrReplaceAll(status.message(), {{absl::StrCat(" ", id), " ID"}});
  };
  const auto of_job = [&](const std::string& method, uint64_t id) {
    v1::GetJobRequest request;  // as all that name a job
    request.mutable_job()->set_id(id);
    return said(method, request, id);
  };
  for (const std::string method : {"GetJob", "WatchJob", "StreamLogs", "ListCheckpoints",
                                   "ExplainJob", "CancelJob", "ControlJob", "UpdateJob"}) {
    const std::string hidden = of_job(method, 1);
    EXPECT_EQ(hidden, of_job(method, 3)) << method;
    EXPECT_EQ(hidden, of_job(method, 99)) << method;
  }
  for (const std::string method : {"GetCheckpoint", "VerifyCheckpoint"}) {
    v1::GetCheckpointRequest request;  // the other has the id in the same place
    request.set_checkpoint_id(1);
    const std::string hidden = said(method, request, 1);
    request.set_checkpoint_id(99);
    EXPECT_EQ(hidden, said(method, request, 99)) << method;
  }
  const auto after = [&](uint64_t id) {
    v1::SubmitRequest request = SubmitTo("vision");
    request.mutable_spec()->mutable_scheduling()->add_after(absl::StrCat(id));
    return said("Submit", request, id);
  };
  EXPECT_EQ(after(1), after(3));
  EXPECT_EQ(after(1), after(99));
  const auto from = [&](uint64_t id) {
    v1::SubmitRequest request = SubmitTo("vision");
    request.mutable_spec()->mutable_checkpoint()->set_resume_from(absl::StrCat(id));
    return said("Submit", request, id);
  };
  EXPECT_EQ(from(1), from(3));
  EXPECT_EQ(from(1), from(99));
  EXPECT_TRUE(engine_.events().empty());
  std::set<std::string> recorded;
  for (const AuditRow& row : Denials()) {
    if (row.entry.project == "secret" && row.entry.object == "job 1") {
      EXPECT_THAT(row.entry.detail, HasSubstr("in project secret; you (eve) have none there"));
      recorded.insert(row.entry.method);
    }
  }
  EXPECT_EQ(recorded.size(), 11u);
}

// Its first answer was lost, and perhaps the row with it.
TEST_F(AccessMatrixTest, ARepeatedSubmitIsOnRecord) {
  AddCaller("anna", "vision", Role::kUser);
  engine_.on_event = [](const Event&) { return EventResult{.job_id = 7, .already_existed = true}; };
  ASSERT_OK(
      CallAny("/muster.v1.JobService/Submit", "of-anna", SubmitTo("vision").SerializeAsString()));
  v1::SubmitJobsRequest streamed;
  *streamed.add_submits() = SubmitTo("vision");
  ASSERT_OK(CallAny("/muster.v1.JobService/SubmitJobs", "of-anna", streamed.SerializeAsString()));
  const std::vector<AuditRow> rows = Rows({.user = "anna"});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].entry.object, "job 7, submitted before");
  EXPECT_EQ(rows[0].entry.object, "1 jobs from 7 to 7, 1 submitted before");
}

TEST_F(AccessMatrixTest, AStreamedSubmitIsOnRecordWithItsProject) {
  AddCaller("anna", "default", Role::kUser);
  v1::SubmitJobsRequest message;
  *message.add_submits() = SubmitTo("");
  *message.add_submits() = SubmitTo("default");
  ASSERT_OK(CallAny("/muster.v1.JobService/SubmitJobs", "of-anna", message.SerializeAsString()));
  const std::vector<AuditRow> rows = Rows({.user = "anna"});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].entry.project, "default");
}

TEST_F(AccessMatrixTest, AnOpenStreamOfSubmitsFollowsTheRoles) {
  AddCaller("anna", "vision", Role::kUser);
  const auto change = [&](const std::function<absl::Status(AccessTables&)>& edit) {
    std::promise<absl::Status> ended;
    control_->Change(
        [&](AccessTables& tables, AccessControl::Touched& touched) {
          touched.users.push_back("anna");
          return edit(tables);
        },
        {}, [&](const absl::Status& status) { ended.set_value(status); });
    ASSERT_OK(ended.get_future().get());
  };
  change([](AccessTables& tables) { return GrantRole(tables, "anna", "speech", Role::kUser); });
  PutJob("vision", "bob");
  grpc::ClientContext context;
  AddToken(context, "of-anna");
  const auto stream = stub_->SubmitJobs(&context);
  v1::SubmitJobsRequest message;
  *message.add_submits() = SubmitTo("vision");
  *message.add_submits() = SubmitTo("speech");
  *message.add_submits() = SubmitTo("speech");
  message.mutable_submits(2)->mutable_spec()->mutable_scheduling()->add_after("1");
  v1::SubmitJobsResponse response;
  const auto codes = [&] {
    EXPECT_TRUE(stream->Write(message));
    EXPECT_TRUE(stream->Read(&response));
    std::vector<int> all;
    for (const v1::SubmitOutcome& outcome : response.outcomes()) all.push_back(outcome.code());
    return all;
  };
  EXPECT_THAT(codes(), ElementsAre(0, 0, 0));
  change([](AccessTables& tables) { return RevokeRole(tables, "anna", "vision"); });
  EXPECT_THAT(codes(), ElementsAre(grpc::PERMISSION_DENIED, 0, grpc::NOT_FOUND));
  change([](AccessTables& tables) { return GrantRole(tables, "anna", "vision", Role::kUser); });
  EXPECT_THAT(codes(), ElementsAre(0, 0, 0));
  change([](AccessTables& tables) {
    return RevokeRole(tables, "anna", "vision").ok() ? RevokeRole(tables, "anna", "speech")
                                                     : absl::InternalError("no role");
  });
  stream->Write(message);
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(FromGrpc(stream->Finish()), StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST_F(AccessMatrixTest, ListsHoldWhatOneMayRead) {
  PutJob("vision", "bob");
  AddCaller("anna", "vision", Role::kViewer);
  AddCaller("eve", "speech", Role::kAdmin);
  const auto count = [&](const std::string& token) {
    grpc::ClientContext context;
    AddToken(context, token);
    v1::ListJobsResponse response;
    EXPECT_OK(FromGrpc(stub_->ListJobs(&context, v1::ListJobsRequest(), &response)));
    return response.jobs_size();
  };
  EXPECT_EQ(count("of-anna"), 1);
  EXPECT_EQ(count("of-eve"), 0);
  EXPECT_EQ(count(kToken), 1);
  // A name stands for nothing that one may not read.
  v1::GetJobRequest by_name;
  by_name.mutable_job()->set_name("digits");
  EXPECT_THAT(CallAny("/muster.v1.JobService/GetJob", "of-eve", by_name.SerializeAsString()),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(AccessMatrixTest, WhoHoldsASlotIsToldToThoseWhoMayReadTheJob) {
  PutJob("vision", "bob");
  AddCaller("anna", "vision", Role::kViewer);
  AddCaller("eve", "speech", Role::kAdmin);
  engine_.Publish([](Snapshot& s) {
    auto worker = std::make_shared<Worker>();
    worker->id = 1;
    worker->name = "w1";
    worker->facts.slots = {{0, SlotKind::kCpu, "cpu"}, {1, SlotKind::kCpu, "cpu"}};
    worker->pulse.holders[1] = {.job_id = 1, .attempt = 2, .rank = 3};
    s.workers.Put(1, worker);
  });
  const auto holder = [&](const std::string& token) {
    grpc::ClientContext context;
    AddToken(context, token);
    v1::ListWorkersResponse response;
    EXPECT_OK(FromGrpc(stub_->ListWorkers(&context, v1::ListWorkersRequest(), &response)));
    EXPECT_EQ(response.workers(0).holders_size(), 1);
    return response.workers(0).holders(0);
  };
  const v1::WorkerInfo::Holder seen = holder("of-anna");
  EXPECT_EQ(seen.slot(), 1u);
  EXPECT_EQ(seen.job_id(), 1u);
  EXPECT_EQ(seen.job_name(), "digits");
  EXPECT_EQ(seen.owner(), "bob");
  EXPECT_EQ(seen.attempt(), 2u);
  EXPECT_EQ(seen.rank(), 3u);
  v1::WorkerInfo::Holder slot_alone;
  slot_alone.set_slot(1);
  EXPECT_EQ(holder("of-eve").SerializeAsString(), slot_alone.SerializeAsString());
}

TEST_F(AccessMatrixTest, AJobIsTheCallersWhateverTheRequestSays) {
  PutJob("vision", "bob");
  AddCaller("anna", "vision", Role::kOperator);
  v1::CancelJobRequest cancel;
  cancel.mutable_job()->set_id(1);
  cancel.set_user("bob");
  ASSERT_OK(CallAny("/muster.v1.JobService/CancelJob", "of-anna", cancel.SerializeAsString()));
  ASSERT_EQ(engine_.events().size(), 1u);
  EXPECT_EQ(std::get<controller::CancelJob>(engine_.events()[0]).actor, "user:anna");
  ASSERT_OK(CallAny("/muster.v1.JobService/CancelJob", kToken, cancel.SerializeAsString()));
  EXPECT_EQ(std::get<controller::CancelJob>(engine_.events()[1]).actor, "user:bob");
}

TEST_F(AccessMatrixTest, ATokenThatWasRevokedIsRevokedAgainWithoutAWrite) {
  AddCaller("anna", "vision", Role::kViewer);
  v1::RevokeTokenRequest revoke;
  revoke.set_id(1);
  ASSERT_OK(CallAny("/muster.v1.AccessService/RevokeToken", kToken, revoke.SerializeAsString()));
  // From here on nothing can be written.
  control_->Stop();
  EXPECT_OK(CallAny("/muster.v1.AccessService/RevokeToken", kToken, revoke.SerializeAsString()));
  revoke.set_id(2);
  EXPECT_THAT(CallAny("/muster.v1.AccessService/RevokeToken", kToken, revoke.SerializeAsString()),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(AccessMatrixTest, NobodyTakesAllStreamsOfSubmits) {
  AddCaller("anna", "vision", Role::kUser);
  AddCaller("bob", "vision", Role::kUser);
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<v1::SubmitJobsRequest, v1::SubmitJobsResponse>> stream;
  };
  std::vector<std::unique_ptr<Call>> calls;
  const auto begin = [&](const std::string& token) -> Call& {
    calls.push_back(std::make_unique<Call>());
    AddToken(calls.back()->context, token);
    calls.back()->stream = stub_->SubmitJobs(&calls.back()->context);
    return *calls.back();
  };
  // What one stream says is heard once it stands.
  const auto stands = [](Call& call) {
    v1::SubmitJobsRequest nonsense;
    nonsense.add_submits();
    v1::SubmitJobsResponse refused;
    return call.stream->Write(nonsense) && call.stream->Read(&refused);
  };
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(stands(begin("of-anna"))) << i;
  EXPECT_THAT(FromGrpc(begin("of-anna").stream->Finish()),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("64 streams of submits of yours are open already, of 256")));
  EXPECT_TRUE(stands(begin("of-bob")));
  for (const auto& call : calls) call->context.TryCancel();
}

TEST_F(AccessMatrixTest, AnOpenStreamEndsWithItsToken) {
  AddCaller("anna", "vision", Role::kViewer);
  grpc::ClientContext context;
  AddToken(context, "of-anna");
  v1::StreamEventsRequest follow;
  follow.set_follow(true);
  const auto reader = stub_->StreamEvents(&context, follow);
  std::promise<absl::Status> ended;
  control_->Change(
      [&](AccessTables& tables, AccessControl::Touched& touched) {
        touched.tokens.push_back(1);
        return RevokeToken(tables, 1, clock_.Now()).status();
      },
      {}, [&](const absl::Status& status) { ended.set_value(status); });
  ASSERT_OK(ended.get_future().get());
  v1::StreamEventsResponse response;
  while (reader->Read(&response)) {
  }
  EXPECT_THAT(FromGrpc(reader->Finish()),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("revoked")));
}

}  // namespace
}  // namespace muster::controller
