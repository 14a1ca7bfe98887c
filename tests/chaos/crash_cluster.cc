#include "tests/chaos/crash_cluster.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/version.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_map.h"
#include "common/rpc/token.h"
#include "controller/store/state_store.h"
#include "tests/support/cluster.h"
#include "tests/support/lasting_port.h"
#include "tests/support/model_invariants.h"
#include "tests/support/status_matchers.h"

namespace muster::testing {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(20);
constexpr size_t kLogTailBytes = 4000;

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A file of one zeroed page, mapped and shared with whoever maps it too.
CrashPage* MakePage(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ::ftruncate(fd, sizeof(CrashPage)) != 0) return nullptr;
  void* mapped = ::mmap(nullptr, sizeof(CrashPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  return mapped == MAP_FAILED ? nullptr : static_cast<CrashPage*>(mapped);
}

std::string Seconds(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Milliseconds(duration), "ms");
}

}  // namespace

CrashCluster::CrashCluster(const CrashTiming& timing, Victim victim)
    : timing_(timing), victim_(victim), page_(MakePage(dir_ / "page")) {
  EXPECT_NE(page_, nullptr);
  for (const char* key : {"grpc_address", "worker_address", "http_address"})
    addresses_[key] = LastingAddress();
}

CrashCluster::~CrashCluster() {
  if (::testing::Test::HasFailure()) PrintLogs();
  workers_.clear();
  controller_.reset();
  ::munmap(page_, sizeof(CrashPage));
  for (const std::string& process : ProcessesMentioning(dir_.path())) {
    ::kill(std::atoi(process.c_str()), SIGKILL);
  }
}

Environment CrashCluster::CounterOf(Victim program) const {
  if (program != victim_) return {};
  const std::map<Victim, std::string> names = {{Victim::kController, "musterd"},
                                               {Victim::kAgent, "muster-worker"},
                                               {Victim::kTrainer, "muster-trainer"}};
  return {{"LD_PRELOAD", CRASH_COUNTER},
          {kCrashPageVariable, dir_ / "page"},
          {kCrashProgramVariable, names.at(program)}};
}

void CrashCluster::StartController() {
  controller_ = std::make_unique<Subprocess>(
      std::vector<std::string>{
          BinDir() + "/musterd", "--data-dir", dir_ / "controller", "--listen",
          addresses_["grpc_address"], "--worker-listen", addresses_["worker_address"],
          "--http-listen", addresses_["http_address"], "--heartbeat-interval",
          Seconds(timing_.heartbeat), "--suspect-after", Seconds(timing_.suspect), "--lost-after",
          Seconds(timing_.lost), "--startup-grace", Seconds(timing_.grace),
          // A sweep kills the same worker again and again.
          "--quarantine-after", "0"},
      CounterOf(Victim::kController), dir_ / "musterd.log");
  nlohmann::json endpoints;
  ASSERT_TRUE(WaitUntil(kPatience, [&] {
    endpoints = nlohmann::json::parse(ReadAll(dir_ / "controller/endpoints.json"), nullptr, false);
    return endpoints.is_object() && endpoints.value("pid", 0) == controller_->pid();
  })) << "musterd did not start";
  token_ = std::string(absl::StripAsciiWhitespace(ReadAll(dir_ / "controller/token")));
  stub_ = v1::JobService::NewStub(MakeChannel({.address = addresses_["grpc_address"]}));
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return Workers().ok(); })) << "musterd does not answer";
}

void CrashCluster::StopController() {
  controller_->Signal(SIGTERM);
  ASSERT_TRUE(controller_->Wait(kPatience));
  EXPECT_EQ(controller_->exit_code(), 0);
}

void CrashCluster::Arm(uint32_t kill_kind, uint64_t kill_at) {
  page_->killed = 0;
  page_->calls = 0;
  for (auto& of_kind : page_->of_kind) of_kind = 0;
  page_->kill_kind = kill_kind;
  page_->kill_at = kill_at;
  page_->armed = 1;
}

CrashCluster::Calls CrashCluster::Disarm() {
  page_->armed = 0;
  Calls calls{.all = page_->calls};
  for (size_t kind = 0; kind < kCrashCallCount; ++kind) calls.of_kind[kind] = page_->of_kind[kind];
  return calls;
}

void CrashCluster::Revive() {
  if (victim_ == Victim::kTrainer) return;
  const std::string agent = "worker-1";
  Subprocess& dead = victim_ == Victim::kController ? *controller_ : *workers_.at(agent);
  ASSERT_TRUE(dead.Wait(kPatience));
  EXPECT_EQ(dead.exit_code(), 128 + SIGKILL);
  if (victim_ == Victim::kController) {
    AuditDatabase();
    StartController();
  } else {
    StartWorker(agent, slots_.at(agent));
  }
}

size_t CrashCluster::AuditDatabase() {
  // A copy: whoever opens a database recovers it, and that is the next controller's part.
  const std::string copy = dir_ / "audit";
  std::filesystem::remove_all(copy);
  std::filesystem::create_directories(copy);
  for (const char* file : {"state.db", "state.db-wal"}) {
    std::error_code missing;
    std::filesystem::copy_file(dir_ / (std::string("controller/") + file), copy + "/" + file,
                               missing);
  }
  auto store = controller::StateStore::Open({.path = copy + "/state.db"});
  EXPECT_OK(store);
  if (!store.ok()) return 0;
  EXPECT_OK((*store)->CheckIntegrity());
  const auto snapshot = (*store)->Load(/*term=*/1, absl::ZeroDuration(), absl::UnixEpoch());
  EXPECT_OK(snapshot);
  if (!snapshot.ok()) return 0;
  const std::vector<std::string> faults = ModelFaults(*snapshot);
  EXPECT_TRUE(faults.empty()) << absl::StrJoin(faults, "\n");
  return snapshot->outbox.size();
}

void CrashCluster::StartWorker(const std::string& name, int slots) {
  slots_[name] = slots;
  Environment environment;
  if (name == "worker-1") {
    environment = CounterOf(Victim::kAgent);
    environment.merge(CounterOf(Victim::kTrainer));  // its ranks have its environment
  }
  workers_[name] = std::make_unique<Subprocess>(
      std::vector<std::string>{BinDir() + "/muster-worker", "--controller",
                               addresses_["worker_address"], "--token-file",
                               dir_ / "controller/token", "--name", name, "--data-dir", dir_ / name,
                               "--slots", absl::StrCat(slots), "--trainer",
                               BinDir() + (with_trainer() ? "/muster-trainer" : "/fake_trainer")},
      environment, dir_ / (name + ".log"));
  ASSERT_TRUE(WaitUntil(kPatience,
                        [&] {
                          const auto workers = Workers();
                          if (!workers.ok()) return false;
                          for (const v1::WorkerInfo& worker : *workers) {
                            if (worker.name() == name) return worker.state() == "ready";
                          }
                          return false;
                        }))
      << name << " did not come";
}

void CrashCluster::KillWorker(const std::string& name) { workers_.at(name).reset(); }

std::vector<std::string> CrashCluster::RankProcesses(uint64_t job, uint32_t attempt) const {
  std::vector<std::string> found;
  const std::string of_attempt = attempt == 0 ? "" : absl::StrCat("a", attempt, ".");
  for (const auto& [name, worker] : workers_) {
    for (std::string& process :
         ProcessesMentioning(absl::StrCat(dir_ / name, "/ranks/job-", job, ".", of_attempt))) {
      found.push_back(std::move(process));
    }
  }
  return found;
}

void CrashCluster::Prepare(grpc::ClientContext& context) const {
  context.set_deadline(absl::ToChronoTime(Now() + kCallTimeout));
  AddToken(context, token_);
}

bool CrashCluster::IsAway(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

absl::StatusOr<v1::SubmitResponse> CrashCluster::Submit(const Job& job) {
  v1::SubmitRequest request;
  request.set_protocol_version(kProtocolVersion);
  request.set_idempotency_key(job.name);
  request.set_owner("ann");
  v1::JobSpec& spec = *request.mutable_spec();
  spec.set_name(job.name);
  spec.mutable_ranks()->set_min(job.ranks);
  spec.mutable_placement()->set_wait_for_capacity(true);
  spec.mutable_restart()->mutable_backoff()->set_nanos(100'000'000);
  spec.mutable_train()->mutable_model()->mutable_mlp();
  spec.mutable_train()->mutable_data()->mutable_synthetic();
  spec.mutable_train()->set_batch_size(32);
  spec.mutable_train()->set_steps(job.steps);
  if (job.save_every > 0) {
    spec.mutable_checkpoint()->set_every_steps(job.save_every);
    spec.mutable_checkpoint()->set_every_epochs(0);
  }
  for (size_t i = 0; i < job.script.size(); ++i) {
    (*spec.mutable_tags())[absl::StrFormat("do-%02d", i)] = job.script[i];
  }
  grpc::ClientContext context;
  Prepare(context);
  v1::SubmitResponse response;
  const grpc::Status status = stub_->Submit(&context, request, &response);
  if (!status.ok()) return FromGrpc(status);
  newest_job_ = std::max(newest_job_, response.job_id());
  return response;
}

absl::Status CrashCluster::Cancel(uint64_t job) {
  grpc::ClientContext context;
  Prepare(context);
  v1::CancelJobRequest request;
  request.mutable_job()->set_id(job);
  v1::CancelJobResponse response;
  return FromGrpc(stub_->CancelJob(&context, request, &response));
}

absl::StatusOr<v1::GetJobResponse> CrashCluster::Get(uint64_t job) {
  grpc::ClientContext context;
  Prepare(context);
  v1::GetJobRequest request;
  request.mutable_job()->set_id(job);
  v1::GetJobResponse response;
  const grpc::Status status = stub_->GetJob(&context, request, &response);
  if (!status.ok()) return FromGrpc(status);
  return response;
}

absl::StatusOr<int> CrashCluster::Count(const std::string& name) {
  v1::ListJobsRequest request;
  request.set_page_size(1000);
  int count = 0;
  do {
    grpc::ClientContext context;
    Prepare(context);
    v1::ListJobsResponse response;
    const grpc::Status status = stub_->ListJobs(&context, request, &response);
    if (!status.ok()) return FromGrpc(status);
    for (const v1::JobSummary& job : response.jobs()) count += job.name() == name ? 1 : 0;
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return count;
}

absl::StatusOr<std::vector<v1::WorkerInfo>> CrashCluster::Workers() {
  grpc::ClientContext context;
  Prepare(context);
  v1::ListWorkersResponse response;
  const grpc::Status status = stub_->ListWorkers(&context, {}, &response);
  if (!status.ok()) return FromGrpc(status);
  return std::vector<v1::WorkerInfo>(response.workers().begin(), response.workers().end());
}

bool CrashCluster::Watch(uint64_t job, const std::function<bool(const v1::JobSummary&)>& done) {
  // The controller's own stream tells of its death as well; of another's the page does.
  if (victim_ != Victim::kController) {
    bool reached = false;
    EXPECT_TRUE(WaitUntil(kPatience, [&] {
      const auto answer = Get(job);
      reached = answer.ok() && done(answer->summary());
      return reached || killed();
    }));
    return reached;
  }
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(Now() + kPatience));
  AddToken(context, token_);
  v1::WatchJobRequest request;
  request.mutable_job()->set_id(job);
  const auto reader = stub_->WatchJob(&context, request);
  v1::WatchJobResponse response;
  bool reached = false;
  while (!reached && reader->Read(&response)) reached = done(response.summary());
  context.TryCancel();
  while (reader->Read(&response)) {
  }
  reader->Finish();
  return reached;
}

void CrashCluster::Touch(const std::string& path) const { std::ofstream file(path); }

void CrashCluster::PrintLogs() const {
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    if (entry.path().extension() != ".log") continue;
    std::string text = ReadAll(entry.path());
    if (text.size() > kLogTailBytes) text = "..." + text.substr(text.size() - kLogTailBytes);
    std::cerr << "---- " << entry.path().string() << "\n" << text << "\n";
  }
}

}  // namespace muster::testing
