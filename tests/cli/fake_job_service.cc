#include "tests/cli/fake_job_service.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/version.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_map.h"
#include "common/rpc/token.h"

namespace muster::cli::testing {
namespace {

bool IsTerminal(v1::JobState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED || state == v1::CANCELLED;
}

}  // namespace

v1::GetJobResponse MakeJob(uint64_t id, const std::string& name, v1::JobState state) {
  v1::GetJobResponse job;
  v1::JobSummary& summary = *job.mutable_summary();
  summary.set_id(id);
  summary.set_name(name);
  summary.set_project("default");
  summary.set_state(state);
  summary.set_ranks(1);
  summary.set_submitted_ms(1'700'000'000'000);
  job.mutable_spec()->set_name(name);
  return job;
}

FakeJobService::~FakeJobService() { Stop(); }

void FakeJobService::Start() {
  {
    MutexLock lock(mutex_);
    stopping_ = false;
  }
  grpc::ServerBuilder builder;
  AllowClientPings(builder);
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", port_), grpc::InsecureServerCredentials(),
                           &port_);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  MUSTER_CHECK(server_ != nullptr, "a test server finds a port");
}

void FakeJobService::Stop() {
  if (server_ == nullptr) return;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  // Without grace: a test may stop it from within what reads a stream, and then nobody answers the
  // ping by which an orderly shutdown asks whether the client has heard.
  server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
}

std::string FakeJobService::address() const { return absl::StrCat("127.0.0.1:", port_); }

void FakeJobService::PutJobWhenEventsAreCut(v1::GetJobResponse job) {
  MutexLock lock(mutex_);
  job_at_cut_ = std::move(job);
}

void FakeJobService::PutJob(v1::GetJobResponse job) {
  MutexLock lock(mutex_);
  jobs_[job.summary().id()] = std::move(job);
  ++version_;
  changed_.NotifyAll();
}

void FakeJobService::PutWorker(v1::WorkerInfo worker) {
  MutexLock lock(mutex_);
  workers_[worker.name()] = std::move(worker);
}

void FakeJobService::SetWorkersPage(size_t most) {
  MutexLock lock(mutex_);
  workers_page_ = most;
}

void FakeJobService::PutLog(uint64_t job, v1::StreamLogsResponse chunk) {
  MutexLock lock(mutex_);
  logs_[job].push_back(std::move(chunk));
}

void FakeJobService::PutMetric(uint64_t job, v1::MetricPoint point) {
  MutexLock lock(mutex_);
  metrics_[job].push_back(std::move(point));
}

void FakeJobService::PutLedger(uint64_t job, v1::Ledger total) {
  MutexLock lock(mutex_);
  ledgers_[job] = std::move(total);
}

void FakeJobService::CutLogsOff(int calls, std::vector<v1::StreamLogsResponse> meanwhile) {
  MutexLock lock(mutex_);
  log_cuts_ = calls;
  written_meanwhile_ = std::move(meanwhile);
}

void FakeJobService::SetCutEnd(const absl::Status& status) {
  MutexLock lock(mutex_);
  cut_end_ = status;
}

void FakeJobService::SetEventsEnd(const absl::Status& status) {
  MutexLock lock(mutex_);
  events_end_ = status;
}

void FakeJobService::FailSubmits(std::vector<absl::Status> statuses) {
  MutexLock lock(mutex_);
  submit_failures_ = std::move(statuses);
}

void FakeJobService::SetVerdict(v1::CheckpointState state, const std::string& message) {
  MutexLock lock(mutex_);
  verdict_ = state;
  verdict_message_ = message;
}

void FakeJobService::BeOlder() {
  MutexLock lock(mutex_);
  older_ = true;
}

std::vector<v1::SubmitRequest> FakeJobService::submits() {
  MutexLock lock(mutex_);
  return submits_;
}

void FakeJobService::FailChanges(std::vector<absl::Status> statuses) {
  MutexLock lock(mutex_);
  change_failures_ = std::move(statuses);
}

absl::Status FakeJobService::NextChangeLocked() {
  if (change_failures_.empty()) return absl::OkStatus();
  const absl::Status next = change_failures_.front();
  change_failures_.erase(change_failures_.begin());
  return next;
}

std::vector<v1::CancelJobRequest> FakeJobService::cancels() {
  MutexLock lock(mutex_);
  return cancels_;
}

std::vector<v1::StreamLogsRequest> FakeJobService::log_requests() {
  MutexLock lock(mutex_);
  return log_requests_;
}

std::vector<v1::ControlCheckpointRequest> FakeJobService::checkpoint_controls() {
  MutexLock lock(mutex_);
  return checkpoint_controls_;
}

std::vector<v1::ControlJobRequest> FakeJobService::controls() {
  MutexLock lock(mutex_);
  return controls_;
}

std::vector<v1::UpdateJobRequest> FakeJobService::updates() {
  MutexLock lock(mutex_);
  return updates_;
}

std::vector<v1::CordonWorkerRequest> FakeJobService::cordons() {
  MutexLock lock(mutex_);
  return cordons_;
}

std::vector<v1::ForgetWorkerRequest> FakeJobService::forgets() {
  MutexLock lock(mutex_);
  return forgets_;
}

std::vector<v1::SetProjectRequest> FakeJobService::project_sets() {
  MutexLock lock(mutex_);
  return project_sets_;
}

v1::ListJobsRequest FakeJobService::last_list() {
  MutexLock lock(mutex_);
  return last_list_;
}

void FakeJobService::PutProject(v1::ProjectInfo project) {
  MutexLock lock(mutex_);
  projects_[project.name()] = std::move(project);
}

void FakeJobService::PutEvent(v1::JobEvent event) {
  MutexLock lock(mutex_);
  events_.push_back(std::move(event));
}

int FakeJobService::lists() {
  MutexLock lock(mutex_);
  return lists_;
}

absl::StatusOr<v1::GetJobResponse> FakeJobService::FindLocked(const v1::JobRef& ref) {
  for (auto it = jobs_.rbegin(); it != jobs_.rend(); ++it) {
    if (ref.has_task()) {
      const v1::JobSummary& job = it->second.summary();
      const bool meant =
          job.array_id() == ref.task().array_id() && job.array_index() == ref.task().index();
      if (meant) return it->second;
      continue;
    }
    if (ref.has_id() ? it->first == ref.id() : it->second.summary().name() == ref.name())
      return it->second;
  }
  return absl::NotFoundError(
      absl::StrCat("job ", ref.has_id() ? absl::StrCat(ref.id()) : ref.name(), ": no such job"));
}

grpc::Status FakeJobService::GetVersion(grpc::ServerContext* context, const v1::GetVersionRequest*,
                                        v1::GetVersionResponse* response) {
  if (const absl::Status status = CheckToken(*context, kToken); !status.ok()) return ToGrpc(status);
  response->set_version("9.9.9");
  response->set_protocol_version(kProtocolVersion);
  response->set_term(4);
  return grpc::Status::OK;
}

grpc::Status FakeJobService::Submit(grpc::ServerContext* context, const v1::SubmitRequest* request,
                                    v1::SubmitResponse* response) {
  if (const absl::Status status = CheckToken(*context, kToken); !status.ok()) return ToGrpc(status);
  MutexLock lock(mutex_);
  submits_.push_back(*request);
  if (!submit_failures_.empty()) {
    const absl::Status failure = submit_failures_.front();
    submit_failures_.erase(submit_failures_.begin());
    if (absl::IsDeadlineExceeded(failure)) {
      keys_.emplace(request->idempotency_key(), request->spec().SerializeAsString());
    }
    return ToGrpc(failure);
  }
  const std::string spec = request->spec().SerializeAsString();
  if (!request->dry_run()) {
    const auto [known, is_new] = keys_.emplace(request->idempotency_key(), spec);
    if (known->second != spec) {
      return ToGrpc(absl::AlreadyExistsError(
          "job 7 was submitted with the same idempotency key and another spec"));
    }
    response->set_already_existed(!is_new);
  }
  *response->mutable_resolved_spec() = request->spec();
  if (const std::string& from = request->spec().checkpoint().resume_from();
      !from.empty() && from != "auto") {
    response->mutable_resume_from()->set_job_id(3);
    response->mutable_resume_from()->set_job_name("first");
    response->mutable_resume_from()->add_steps(500);
  }
  if (request->dry_run()) {
    response->set_forecast("would start now on worker-1");
    v1::Outlook::Place* place = response->mutable_outlook()->add_places();
    place->set_worker("worker-1");
    place->add_slots(0);
    response->mutable_outlook()->set_ranks(1);
  } else {
    response->set_job_id(7);
    if (request->spec().scheduling().has_array()) response->set_jobs(3);
  }
  return grpc::Status::OK;
}

grpc::Status FakeJobService::ListJobs(grpc::ServerContext* context,
                                      const v1::ListJobsRequest* request,
                                      v1::ListJobsResponse* response) {
  if (const absl::Status status = CheckToken(*context, kToken); !status.ok()) return ToGrpc(status);
  MutexLock lock(mutex_);
  ++lists_;
  last_list_ = *request;
  uint64_t before = UINT64_MAX;
  if (!request->page_token().empty() && !absl::SimpleAtoi(request->page_token(), &before)) {
    return ToGrpc(absl::InvalidArgumentError("page_token"));
  }
  for (auto it = jobs_.rbegin(); it != jobs_.rend(); ++it) {
    const v1::JobSummary& job = it->second.summary();
    const auto& states = request->states();
    const bool wanted =
        states.empty() || std::find(states.begin(), states.end(), job.state()) != states.end();
    if (job.id() >= before || !wanted) continue;
    if (static_cast<uint32_t>(response->jobs_size()) == request->page_size()) {
      response->set_next_page_token(absl::StrCat(response->jobs().rbegin()->id()));
      break;
    }
    *response->add_jobs() = job;
  }
  return grpc::Status::OK;
}

grpc::Status FakeJobService::GetJob(grpc::ServerContext* context, const v1::GetJobRequest* request,
                                    v1::GetJobResponse* response) {
  if (const absl::Status status = CheckToken(*context, kToken); !status.ok()) return ToGrpc(status);
  MutexLock lock(mutex_);
  auto job = FindLocked(request->job());
  if (!job.ok()) return ToGrpc(job.status());
  *response = *std::move(job);
  return grpc::Status::OK;
}

grpc::Status FakeJobService::ExplainJob(grpc::ServerContext*, const v1::ExplainJobRequest* request,
                                        v1::ExplainJobResponse* response) {
  MutexLock lock(mutex_);
  auto job = FindLocked(request->job());
  if (!job.ok()) return ToGrpc(job.status());
  *response->mutable_summary() = job->summary();
  v1::Blocker* blocker = response->mutable_outlook()->add_blockers();
  blocker->set_kind(v1::Blocker::SLOTS);
  blocker->set_message("pool default has too few free CPU slots");
  blocker->set_needed("2 CPU slots");
  blocker->set_available("1 of 4 free");
  return grpc::Status::OK;
}

grpc::Status FakeJobService::CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                                       v1::CancelJobResponse* response) {
  MutexLock lock(mutex_);
  cancels_.push_back(*request);
  if (const absl::Status failure = NextChangeLocked(); !failure.ok()) return ToGrpc(failure);
  auto job = FindLocked(request->job());
  if (!job.ok()) return ToGrpc(job.status());
  if (IsTerminal(job->summary().state())) {
    return ToGrpc(
        absl::FailedPreconditionError(absl::StrCat("job ", job->summary().id(), ": it has ended")));
  }
  job->mutable_summary()->set_state(v1::STOPPING);
  *response->mutable_summary() = job->summary();
  jobs_[job->summary().id()] = *std::move(job);
  ++version_;
  changed_.NotifyAll();
  return grpc::Status::OK;
}

grpc::Status FakeJobService::ControlJob(grpc::ServerContext*, const v1::ControlJobRequest* request,
                                        v1::ControlJobResponse* response) {
  MutexLock lock(mutex_);
  controls_.push_back(*request);
  if (const absl::Status failure = NextChangeLocked(); !failure.ok()) return ToGrpc(failure);
  auto job = FindLocked(request->job());
  if (!job.ok()) return ToGrpc(job.status());
  if (request->verb() == v1::ControlJobRequest::HOLD) job->mutable_summary()->set_held(true);
  *response->mutable_summary() = job->summary();
  response->set_jobs(request->whole_array() ? 3 : 1);
  return grpc::Status::OK;
}

grpc::Status FakeJobService::UpdateJob(grpc::ServerContext*, const v1::UpdateJobRequest* request,
                                       v1::UpdateJobResponse* response) {
  MutexLock lock(mutex_);
  updates_.push_back(*request);
  if (const absl::Status failure = NextChangeLocked(); !failure.ok()) return ToGrpc(failure);
  const auto job = FindLocked(request->job());
  if (!job.ok()) return ToGrpc(job.status());
  *response->mutable_summary() = job->summary();
  response->set_jobs(1);
  return grpc::Status::OK;
}

grpc::Status FakeJobService::CordonWorker(grpc::ServerContext*,
                                          const v1::CordonWorkerRequest* request,
                                          v1::CordonWorkerResponse* response) {
  MutexLock lock(mutex_);
  cordons_.push_back(*request);
  const auto worker = workers_.find(request->worker());
  if (worker == workers_.end()) {
    return ToGrpc(absl::NotFoundError(absl::StrCat("worker ", request->worker(), ": unknown")));
  }
  worker->second.set_state(request->cordoned() ? "drained" : "ready");
  *response->mutable_worker() = worker->second;
  return grpc::Status::OK;
}

grpc::Status FakeJobService::ForgetWorker(grpc::ServerContext*,
                                          const v1::ForgetWorkerRequest* request,
                                          v1::ForgetWorkerResponse*) {
  MutexLock lock(mutex_);
  forgets_.push_back(*request);
  const bool known = workers_.erase(request->worker()) > 0;
  if (const absl::Status failure = NextChangeLocked(); !failure.ok()) return ToGrpc(failure);
  if (!known) {
    return ToGrpc(absl::NotFoundError(absl::StrCat("worker ", request->worker(), ": unknown")));
  }
  return grpc::Status::OK;
}

grpc::Status FakeJobService::ListProjects(grpc::ServerContext*, const v1::ListProjectsRequest*,
                                          v1::ListProjectsResponse* response) {
  MutexLock lock(mutex_);
  for (const auto& [name, project] : projects_) *response->add_projects() = project;
  return grpc::Status::OK;
}

grpc::Status FakeJobService::SetProject(grpc::ServerContext*, const v1::SetProjectRequest* request,
                                        v1::SetProjectResponse* response) {
  MutexLock lock(mutex_);
  project_sets_.push_back(*request);
  *response->mutable_project() = projects_[request->project()];
  response->mutable_project()->set_name(request->project());
  return grpc::Status::OK;
}

grpc::Status FakeJobService::StreamEvents(grpc::ServerContext*,
                                          const v1::StreamEventsRequest* request,
                                          grpc::ServerWriter<v1::StreamEventsResponse>* writer) {
  MutexLock lock(mutex_);
  uint64_t job_id = request->job().id();
  if (request->job().has_name()) {
    const auto job = FindLocked(request->job());
    if (!job.ok()) return ToGrpc(job.status());
    job_id = job->summary().id();
  }
  for (const v1::JobEvent& event : events_) {
    if (event.sequence() <= request->after_sequence()) continue;
    if (request->has_job() && job_id != event.job_id()) continue;
    v1::StreamEventsResponse response;
    *response.add_events() = event;
    writer->Write(response);
    if (!request->follow() || std::exchange(cut_off_, true)) continue;
    if (job_at_cut_.has_value()) jobs_[job_at_cut_->summary().id()] = *job_at_cut_;
    return ToGrpc(cut_end_);
  }
  return request->follow() ? ToGrpc(events_end_) : grpc::Status::OK;
}

grpc::Status FakeJobService::WatchJob(grpc::ServerContext* context,
                                      const v1::WatchJobRequest* request,
                                      grpc::ServerWriter<v1::WatchJobResponse>* writer) {
  int sent = -1;
  v1::JobRef ref = request->job();
  while (true) {
    v1::WatchJobResponse response;
    {
      MutexLock lock(mutex_);
      while (version_ == sent && !stopping_ && !context->IsCancelled()) {
        changed_.WaitFor(mutex_, absl::Milliseconds(20));
      }
      if (stopping_) return ToGrpc(absl::UnavailableError("stopping"));
      if (context->IsCancelled()) return grpc::Status::CANCELLED;
      sent = version_;
      auto job = FindLocked(ref);
      if (!job.ok()) return ToGrpc(job.status());
      ref.set_id(job->summary().id());  // a name means the job that had it at the start
      *response.mutable_summary() = job->summary();
    }
    writer->Write(response);
    if (IsTerminal(response.summary().state())) return grpc::Status::OK;
  }
}

grpc::Status FakeJobService::StreamLogs(grpc::ServerContext* context,
                                        const v1::StreamLogsRequest* request,
                                        grpc::ServerWriter<v1::StreamLogsResponse>* writer) {
  MutexLock lock(mutex_);
  log_requests_.push_back(*request);
  const uint64_t id = request->job().id();
  const size_t stored = logs_[id].size();
  size_t next = request->tail() == 0 || request->tail() > stored ? 0 : stored - request->tail();
  while (true) {
    const auto job = FindLocked(request->job());
    if (!job.ok()) return ToGrpc(job.status());
    for (; next < logs_[id].size(); ++next) {
      const v1::StreamLogsResponse& chunk = logs_[id][next];
      if (request->has_rank() && chunk.rank() != request->rank()) continue;
      if (request->has_attempt() && chunk.attempt() != request->attempt()) continue;
      writer->Write(chunk);
    }
    if (log_cuts_ > 0) {
      --log_cuts_;
      for (v1::StreamLogsResponse& chunk : std::exchange(written_meanwhile_, {})) {
        logs_[id].push_back(std::move(chunk));
      }
      return ToGrpc(cut_end_);
    }
    if (!request->follow() || IsTerminal(job->summary().state())) return grpc::Status::OK;
    if (stopping_) return ToGrpc(absl::UnavailableError("stopping"));
    if (context->IsCancelled()) return grpc::Status::CANCELLED;
    changed_.WaitFor(mutex_, absl::Milliseconds(20));
  }
}

grpc::Status FakeJobService::QueryMetrics(grpc::ServerContext*,
                                          const v1::QueryMetricsRequest* request,
                                          v1::QueryMetricsResponse* response) {
  MutexLock lock(mutex_);
  const auto job = FindLocked(request->job());
  if (!job.ok()) return ToGrpc(job.status());
  // Two points a page, so that clients have to turn pages.
  constexpr size_t kPage = 2;
  size_t from = 0;
  if (!request->page_token().empty() && !absl::SimpleAtoi(request->page_token(), &from)) {
    return ToGrpc(absl::InvalidArgumentError("page_token"));
  }
  std::vector<v1::MetricPoint> points;
  for (const v1::MetricPoint& point : metrics_[job->summary().id()]) {
    const auto& names = request->names();
    if (names.empty() || std::find(names.begin(), names.end(), point.name()) != names.end())
      points.push_back(point);
  }
  for (size_t i = from; i < std::min(points.size(), from + kPage); ++i)
    *response->add_points() = points[i];
  if (from + kPage < points.size()) response->set_next_page_token(absl::StrCat(from + kPage));
  return grpc::Status::OK;
}

grpc::Status FakeJobService::GetGoodput(grpc::ServerContext*, const v1::GetGoodputRequest* request,
                                        v1::GetGoodputResponse* response) {
  MutexLock lock(mutex_);
  const auto job = FindLocked(request->job());
  if (!job.ok()) return ToGrpc(job.status());
  *response->mutable_total() = ledgers_[job->summary().id()];
  return grpc::Status::OK;
}

grpc::Status FakeJobService::ListCheckpoints(grpc::ServerContext*,
                                             const v1::ListCheckpointsRequest* request,
                                             v1::ListCheckpointsResponse* response) {
  MutexLock lock(mutex_);
  const auto job = FindLocked(request->job());
  if (!job.ok()) return ToGrpc(job.status());
  *response->mutable_checkpoints() = job->checkpoints();
  return grpc::Status::OK;
}

grpc::Status FakeJobService::GetCheckpoint(grpc::ServerContext* context,
                                           const v1::GetCheckpointRequest* request,
                                           v1::GetCheckpointResponse* response) {
  if (const absl::Status status = CheckToken(*context, kToken); !status.ok()) return ToGrpc(status);
  MutexLock lock(mutex_);
  if (older_) return {grpc::StatusCode::UNIMPLEMENTED, ""};
  for (const auto& [id, job] : jobs_) {
    for (const v1::CheckpointInfo& checkpoint : job.checkpoints()) {
      if (checkpoint.id() == request->checkpoint_id()) *response->mutable_checkpoint() = checkpoint;
    }
  }
  if (response->has_checkpoint()) return grpc::Status::OK;
  return ToGrpc(absl::NotFoundError(absl::StrCat("checkpoint ", request->checkpoint_id())));
}

grpc::Status FakeJobService::VerifyCheckpoint(grpc::ServerContext*,
                                              const v1::VerifyCheckpointRequest* request,
                                              v1::VerifyCheckpointResponse* response) {
  MutexLock lock(mutex_);
  response->mutable_checkpoint()->set_id(request->checkpoint_id());
  response->mutable_checkpoint()->set_state(verdict_);
  response->mutable_checkpoint()->set_message(verdict_message_);
  return grpc::Status::OK;
}

grpc::Status FakeJobService::ControlCheckpoint(grpc::ServerContext*,
                                               const v1::ControlCheckpointRequest* request,
                                               v1::ControlCheckpointResponse* response) {
  using Request = v1::ControlCheckpointRequest;
  MutexLock lock(mutex_);
  checkpoint_controls_.push_back(*request);
  if (const absl::Status failure = NextChangeLocked(); !failure.ok()) return ToGrpc(failure);
  for (auto& [id, job] : jobs_) {
    for (v1::CheckpointInfo& checkpoint : *job.mutable_checkpoints()) {
      if (checkpoint.id() != request->checkpoint_id()) continue;
      const std::string actor = absl::StrCat("user:", request->user());
      const bool stays = !checkpoint.pinned_by().empty() || checkpoint.path() == "needed";
      if (request->verb() == Request::REMOVE && stays) {
        return ToGrpc(
            absl::FailedPreconditionError(absl::StrCat("checkpoint ", checkpoint.id(), " stays")));
      }
      if (request->verb() == Request::REMOVE) checkpoint.set_removed_by(actor);
      if (request->verb() == Request::PIN) checkpoint.set_pinned_by(actor);
      if (request->verb() == Request::UNPIN) checkpoint.clear_pinned_by();
      *response->mutable_checkpoint() = checkpoint;
      return grpc::Status::OK;
    }
  }
  return ToGrpc(absl::NotFoundError(absl::StrCat("checkpoint ", request->checkpoint_id())));
}

grpc::Status FakeJobService::ListWorkers(grpc::ServerContext* context,
                                         const v1::ListWorkersRequest* request,
                                         v1::ListWorkersResponse* response) {
  if (const absl::Status status = CheckToken(*context, kToken); !status.ok()) return ToGrpc(status);
  MutexLock lock(mutex_);
  // A page begins after the name that its token holds.
  for (auto it = workers_.upper_bound(request->page_token()); it != workers_.end(); ++it) {
    const auto taken = static_cast<size_t>(response->workers_size());
    if (workers_page_ != 0 && taken == workers_page_) {
      response->set_next_page_token(std::prev(it)->first);
      break;
    }
    *response->add_workers() = it->second;
  }
  return grpc::Status::OK;
}

}  // namespace muster::cli::testing
