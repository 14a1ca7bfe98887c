#include "controller/api/job_service.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/spec/packed_spec.h"
#include "controller/api/calls/known_jobs.h"
#include "controller/api/calls/post_event.h"
#include "controller/api/calls/referred_jobs.h"
#include "controller/api/calls/submit_check.h"
#include "controller/api/convert/checkpoints_answer.h"
#include "controller/api/convert/convert.h"
#include "controller/api/convert/explain_answer.h"
#include "controller/api/convert/goodput_answer.h"
#include "controller/api/convert/jobs_answer.h"
#include "controller/api/convert/pages.h"
#include "controller/api/streams/event_stream.h"
#include "controller/api/streams/job_streams.h"
#include "controller/api/streams/log_stream.h"

namespace muster::controller {
namespace {

constexpr uint32_t kMaxPointPage = 10000;
constexpr int kMaxMetricNames = 64;
constexpr uint32_t kMaxTailEvents = 100'000;
constexpr size_t kMaxSubmitStreams = 256;
constexpr size_t kMaxSubmitStreamsOfCaller = kMaxSubmitStreams / 4;
// Answers about all jobs, which may take seconds of the API's threads.
constexpr int kMostGoodputs = 2;

// The newest of `all` (oldest first) within so many bytes, oldest first; false: not all of them.
template <typename Message>
bool FillNewest(std::vector<Message> all, size_t bytes,
                google::protobuf::RepeatedPtrField<Message>* out) {
  PageBytes page(bytes);
  size_t first = all.size();
  while (first > 0 && page.Take(all[first - 1].ByteSizeLong())) --first;
  for (size_t i = first; i < all.size(); ++i) *out->Add() = std::move(all[i]);
  return first == 0;
}

bool FillEvents(const Job& job, size_t bytes,
                google::protobuf::RepeatedPtrField<v1::JobEvent>* out) {
  constexpr size_t kMost = 10'000;  // no more are looked at
  const size_t first = job.events.size() - std::min(job.events.size(), kMost);
  std::vector<v1::JobEvent> events;
  for (size_t i = first; i < job.events.size(); ++i) events.push_back(ToProto(*job.events[i]));
  return FillNewest(std::move(events), bytes, out) && first == 0;
}

// For the record of a submit: "job 42", or "jobs 42 to 51" of an array.
std::string JobsText(const EventResult& submitted) {
  const uint64_t first = submitted.job_id;
  const absl::string_view before = submitted.already_existed ? ", submitted before" : "";
  if (submitted.jobs <= 1) return absl::StrCat("job ", first, before);
  return absl::StrCat("jobs ", first, " to ", first + submitted.jobs - 1, before);
}

// For Submit and GetJob: what the job begins from, if that is another one's and not forgotten.
template <typename Response>
absl::Status FillResume(KnownJobs& jobs, const std::vector<uint64_t>& resume_from,
                        Response& response) {
  for (uint64_t id : resume_from) {
    MUSTER_ASSIGN_OR_RETURN(const Checkpoint* source, jobs.FindCheckpoint(id));
    if (source == nullptr) return absl::OkStatus();
  }
  if (!resume_from.empty()) {
    *response.mutable_resume_from() = ResumeSourceOf(jobs.snapshot(), resume_from);
  }
  return absl::OkStatus();
}

// Who is ahead, and who is waited for, without the names of what may not be read.
void HideNames(const Snapshot& snapshot, const MayRead& may_read, v1::Outlook& outlook) {
  if (may_read == nullptr) return;
  for (v1::Outlook::Ahead& ahead : *outlook.mutable_ahead()) {
    if (may_read(ahead.project())) continue;
    ahead.clear_name();
    ahead.clear_project();
  }
  for (v1::Outlook::End& end : *outlook.mutable_rests_on()) {
    const Job* job = snapshot.FindJob(end.job_id());
    if (job == nullptr || !may_read(job->settings->project)) end.clear_name();
  }
}

// Takes out what is of jobs that may not be read, or that are not in memory any more.
void HideJobs(const Snapshot& snapshot, const MayRead& may_read, v1::WorkerInfo& info) {
  if (may_read == nullptr) return;
  const auto hidden = [&](uint64_t id) {
    const Job* job = snapshot.FindJob(id);
    return job == nullptr || !may_read(job->settings->project);
  };
  auto& ids = *info.mutable_job_ids();
  ids.erase(std::remove_if(ids.begin(), ids.end(), hidden), ids.end());
  auto& failures = *info.mutable_failures();
  failures.erase(std::remove_if(failures.begin(), failures.end(),
                                [&](const v1::WorkerInfo::WorkerFailure& failure) {
                                  return hidden(failure.job_id());
                                }),
                 failures.end());
}

void AddHolders(const Snapshot& snapshot, const MayRead& may_read, const Worker& worker,
                v1::WorkerInfo& info) {
  for (const auto& [slot, holder] : worker.pulse.holders) {
    v1::WorkerInfo::Holder& row = *info.add_holders();
    row.set_slot(slot);
    const Job* job = snapshot.FindJob(holder.job_id);
    if (may_read != nullptr && (job == nullptr || !may_read(job->settings->project))) continue;
    row.set_job_id(holder.job_id);
    row.set_attempt(holder.attempt);
    row.set_rank(holder.rank);
    if (job == nullptr) continue;
    row.set_job_name(job->settings->name);
    row.set_owner(job->owner);
  }
}

// Workers above the id that the token names.
absl::Status FillWorkers(const Snapshot& snapshot, const v1::ListWorkersRequest& request,
                         const MayRead& may_read, v1::ListWorkersResponse& response) {
  MUSTER_ASSIGN_OR_RETURN(const uint64_t after, IdOfToken(request.page_token(), /*first=*/0));
  PageBytes page;
  for (uint64_t id = after; id < snapshot.workers.last_id();) {
    const Worker* worker = snapshot.workers.Find(++id);
    if (worker == nullptr) continue;
    v1::WorkerInfo info = ToProto(*worker);
    HideJobs(snapshot, may_read, info);
    AddHolders(snapshot, may_read, *worker, info);
    if (!page.Take(info.ByteSizeLong())) {
      response.set_next_page_token(absl::StrCat(id - 1));
      break;
    }
    *response.add_workers() = std::move(info);
  }
  return absl::OkStatus();
}

absl::StatusOr<PointQuery> QueryOf(const v1::QueryMetricsRequest& request, uint64_t job_id) {
  if (request.names_size() > kMaxMetricNames) {
    return absl::InvalidArgumentError(
        absl::StrCat("names: more than ", kMaxMetricNames, " metrics at a time"));
  }
  if (request.max_points() > kMaxPointPage) {
    return absl::InvalidArgumentError(absl::StrCat("max_points: at most ", kMaxPointPage));
  }
  if (request.from_step() < 0 || request.to_step() < 0) {
    return absl::InvalidArgumentError("from_step, to_step: must not be negative");
  }
  PointQuery query;
  query.job_id = job_id;
  query.rank = request.rank();
  query.names.assign(request.names().begin(), request.names().end());
  query.from_step = request.from_step();
  query.to_step = request.to_step();
  query.page_size =
      request.page_size() == 0 ? kMaxPointPage : std::min(request.page_size(), kMaxPointPage);
  query.page_token = request.page_token();
  query.max_points = request.max_points();
  return query;
}

}  // namespace

JobService::JobService(Engine& engine, MetricsReader& metrics, CallGate& gate, Clock& clock,
                       std::string checkpoint_root, HasUpload has_upload,
                       WorkersToCome workers_to_come)
    : engine_(engine),
      metrics_(metrics),
      gate_(gate),
      clock_(clock),
      checkpoint_root_(std::move(checkpoint_root)),
      has_upload_(std::move(has_upload)),
      workers_to_come_(std::move(workers_to_come)),
      pump_(clock),
      watch_(gate.patience()),
      submit_streams_(
          {.all = kMaxSubmitStreams,
           .of_caller = kMaxSubmitStreamsOfCaller,
           .all_taken =
               absl::StrCat(kMaxSubmitStreams, " streams of submits are open already: try again"),
           .of_caller_taken = absl::StrCat(
               kMaxSubmitStreamsOfCaller, " streams of submits of yours are open already, of ",
               kMaxSubmitStreams, " in all: end some of them, or submit over one of these")}) {}

grpc::ServerUnaryReactor* JobService::GetVersion(grpc::CallbackServerContext* context,
                                                 const v1::GetVersionRequest*,
                                                 v1::GetVersionResponse* response) {
  auto* call = new UnaryCall(gate_, "GetVersion");
  const absl::Status allowed = call->Enter(*context, "JobService/GetVersion");
  if (allowed.ok()) {
    response->set_version(Version());
    response->set_protocol_version(kProtocolVersion);
    response->set_term(engine_.snapshot()->term);
  }
  call->Done(allowed);
  return call;
}

grpc::ServerUnaryReactor* JobService::Submit(grpc::CallbackServerContext* context,
                                             const v1::SubmitRequest* request,
                                             v1::SubmitResponse* response) {
  auto* call = new UnaryCall(gate_, "Submit");
  absl::Status status = call->Enter(*context, "JobService/Submit");
  absl::StatusOr<SubmitJob> event;
  if (status.ok()) {
    v1::JobSpec& spec = *response->mutable_resolved_spec();
    spec = request->spec();
    event = CheckSubmit(*request, spec, checkpoint_root_);
    status = event.status();
    if (status.ok()) LetWaitFor(workers_to_come_, *event);
  }
  if (status.ok()) {
    event->owner = call->caller().NameOr(event->owner);
    status = gate_.CheckProject(call->caller(), event->settings->project);
  }
  KnownJobs jobs(engine_, gate_.ReadsOf(call->caller()));
  if (status.ok()) status = LoadReadable(gate_, call->caller(), jobs, *event);
  if (!status.ok()) {
    call->Done(status);
    return call;
  }
  if (request->dry_run()) {
    call->NeedsNoRecord();
    absl::StatusOr<Explanation> forecast = engine_.Forecast(jobs.snapshot(), *event);
    status = forecast.status();
    if (forecast.ok()) {
      AddHints(event->settings->needs, *forecast);
      status = FillResume(jobs, forecast->resume_from, *response);
      response->set_forecast(forecast->forecast);
      *response->mutable_outlook() = ToProto(jobs.snapshot(), *forecast);
      HideNames(jobs.snapshot(), gate_.ReadsOf(call->caller()), *response->mutable_outlook());
    }
    call->Done(status);
    return call;
  }
  const std::string& upload = event->settings->upload;
  if (!upload.empty() && !(has_upload_ && has_upload_(upload, &call->caller()))) {
    call->Done(absl::NotFoundError(absl::StrCat("command.upload: ", upload,
                                                " is not there, or not any more: send the folder "
                                                "with `muster submit --upload DIR`")));
    return call;
  }
  const std::string project = event->settings->project;
  PostAndAnswer(engine_, jobs, std::move(event), call,
                [this, call, project, response](const EventResult& result) {
                  const std::shared_ptr<const Snapshot> snapshot = engine_.snapshot();
                  const Job* job = snapshot->FindJob(result.job_id);
                  if (job != nullptr && !job->settings->resume_from.empty()) {
                    *response->mutable_resume_from() =
                        ResumeSourceOf(*snapshot, job->settings->resume_from);
                  }
                  response->set_job_id(result.job_id);
                  response->set_jobs(result.jobs);
                  response->set_already_existed(result.already_existed);
                  call->Changes(project, JobsText(result));
                });
  return call;
}

grpc::ServerBidiReactor<v1::SubmitJobsRequest, v1::SubmitJobsResponse>* JobService::SubmitJobs(
    grpc::CallbackServerContext* context) {
  absl::StatusOr<Caller> caller = gate_.Enter(*context, "JobService/SubmitJobs");
  absl::Status allowed = caller.status();
  const std::string share = caller.ok() ? caller->Share() : "";
  auto stream = std::make_shared<SubmitStream>(gate_, engine_, checkpoint_root_, workers_to_come_,
                                               caller.ok() ? *std::move(caller) : Caller());
  if (allowed.ok()) allowed = submit_streams_.Keep(stream, share);
  return SubmitStream::Begin(std::move(stream), *context, watch_, allowed);
}

void JobService::Stop() {
  pump_.Stop();
  watch_.Stop();
  submit_streams_.Stop();
}

grpc::ServerUnaryReactor* JobService::ListJobs(grpc::CallbackServerContext* context,
                                               const v1::ListJobsRequest* request,
                                               v1::ListJobsResponse* response) {
  auto* call = new UnaryCall(gate_, "ListJobs");
  absl::Status status = call->Enter(*context, "JobService/ListJobs");
  if (status.ok())
    status = FillJobs(*engine_.snapshot(), engine_.history(), *request,
                      gate_.ReadsOf(call->caller()), *response);
  call->Done(status);
  return call;
}

grpc::ServerUnaryReactor* JobService::GetJob(grpc::CallbackServerContext* context,
                                             const v1::GetJobRequest* request,
                                             v1::GetJobResponse* response) {
  auto* call = new UnaryCall(gate_, "GetJob");
  absl::Status status = call->Enter(*context, "JobService/GetJob");
  if (status.ok()) status = FillJob(call->caller(), *request, *response);
  call->Done(status);
  return call;
}

absl::StatusOr<const Job*> JobService::FindFor(const Caller& caller, KnownJobs& jobs,
                                               const v1::JobRef& ref) {
  MUSTER_ASSIGN_OR_RETURN(const Job* job, jobs.Find(ref));
  MUSTER_RETURN_IF_ERROR(gate_.CheckJob(caller, *job, jobs.NoSuchJob(ref)));
  return job;
}

absl::Status JobService::FillJob(const Caller& caller, const v1::GetJobRequest& request,
                                 v1::GetJobResponse& response) {
  KnownJobs jobs(engine_, gate_.ReadsOf(caller));
  MUSTER_ASSIGN_OR_RETURN(const Job* job, FindFor(caller, jobs, request.job()));
  MUSTER_RETURN_IF_ERROR(FillResume(jobs, job->settings->resume_from, response));
  const Snapshot& snapshot = jobs.snapshot();
  *response.mutable_spec() = SpecOf(*job->settings);
  if (!job->settings->written_spec.empty()) {
    *response.mutable_written_spec() = UnpackSpec(job->settings->written_spec);
  }
  for (v1::RestartBudget& budget : BudgetsOf(*job)) *response.add_budgets() = std::move(budget);
  const v1::Artifacts& artifacts = response.spec().train().artifacts();
  if (artifacts.tensorboard() || artifacts.confusion() ||
      artifacts.reconstructions_every_steps() > 0) {
    response.set_artifact_folder(absl::StrCat(job->checkpoint_folder(), "/artifacts"));
  }
  *response.mutable_summary() = ToProto(*job);
  // A quarter of a page each: attempts of a large gang are long, too.
  constexpr size_t kPart = kMaxPageBytes / 4;
  const bool all_attempts = FillNewest(AttemptsOf(*job), kPart, response.mutable_attempts());
  const bool all_checkpoints =
      FillCheckpoints(snapshot, *job, 0, kPart, response.mutable_checkpoints()) == 0;
  const bool all_events = FillEvents(*job, kPart, response.mutable_events());
  response.set_shortened(!all_attempts || !all_checkpoints || !all_events);
  return absl::OkStatus();
}

std::function<absl::Status()> JobService::StillAllowed(const Caller& caller,
                                                       const std::string& project) {
  return [this, caller, project] { return gate_.CheckAgain(caller, project); };
}

grpc::ServerWriteReactor<v1::WatchJobResponse>* JobService::WatchJob(
    grpc::CallbackServerContext* context, const v1::WatchJobRequest* request) {
  const absl::StatusOr<Caller> caller = gate_.Enter(*context, "JobService/WatchJob");
  absl::Status status = caller.status();
  std::string project;
  uint64_t id = 0;
  if (status.ok()) {
    KnownJobs jobs(engine_, gate_.ReadsOf(*caller));
    const absl::StatusOr<const Job*> job = FindFor(*caller, jobs, request->job());
    status = job.status();
    if (job.ok()) id = (*job)->id;
    if (job.ok()) project = (*job)->settings->project;
  }
  auto watch = std::make_shared<JobWatch>(gate_, engine_, id);
  if (status.ok()) watch->EndUnless(StillAllowed(*caller, project));
  auto* reactor = JobWatch::Handover(watch, *context, watch_);
  if (status.ok()) {
    pump_.Add(std::move(watch), caller->Share());
  } else {
    watch->End(status);
  }
  return reactor;
}

grpc::ServerWriteReactor<v1::StreamEventsResponse>* JobService::StreamEvents(
    grpc::CallbackServerContext* context, const v1::StreamEventsRequest* request) {
  const absl::StatusOr<Caller> caller = gate_.Enter(*context, "JobService/StreamEvents");
  absl::Status status = caller.status();
  std::string project;
  if (status.ok() && request->tail() > kMaxTailEvents) {
    status = absl::InvalidArgumentError(absl::StrCat("tail: at most ", kMaxTailEvents, " events"));
  }
  EventStreamRequest wanted{.after_sequence = request->after_sequence(),
                            .tail = request->tail(),
                            .follow = request->follow()};
  if (status.ok() && request->has_job()) {
    KnownJobs jobs(engine_, gate_.ReadsOf(*caller));
    const absl::StatusOr<const Job*> job = FindFor(*caller, jobs, request->job());
    status = job.status();
    if (job.ok()) wanted.job_id = (*job)->id;
    if (job.ok()) project = (*job)->settings->project;
  }
  if (status.ok() && !request->has_job()) wanted.may_read = gate_.ReadsOf(*caller);
  auto stream = std::make_shared<EventStream>(gate_, engine_, wanted);
  if (status.ok()) stream->EndUnless(StillAllowed(*caller, project));
  auto* reactor = EventStream::Handover(stream, *context, watch_);
  if (status.ok()) {
    pump_.Add(std::move(stream), caller->Share());
  } else {
    stream->End(status);
  }
  return reactor;
}

grpc::ServerWriteReactor<v1::StreamLogsResponse>* JobService::StreamLogs(
    grpc::CallbackServerContext* context, const v1::StreamLogsRequest* request) {
  const absl::StatusOr<Caller> caller = gate_.Enter(*context, "JobService/StreamLogs");
  absl::Status status = caller.status();
  std::string project;
  LogQuery wanted;
  if (status.ok()) status = LogStream::ParseRequest(*request, wanted);
  if (status.ok()) {
    KnownJobs jobs(engine_, gate_.ReadsOf(*caller));
    const absl::StatusOr<const Job*> job = FindFor(*caller, jobs, request->job());
    status = job.status();
    if (job.ok()) wanted.job_id = (*job)->id;
    if (job.ok()) project = (*job)->settings->project;
  }
  auto stream = std::make_shared<LogStream>(gate_, engine_, metrics_, clock_, wanted);
  if (status.ok()) stream->EndUnless(StillAllowed(*caller, project));
  auto* reactor = LogStream::Handover(stream, *context, watch_);
  if (status.ok()) {
    pump_.Add(std::move(stream), caller->Share());
  } else {
    stream->End(status);
  }
  return reactor;
}

grpc::ServerUnaryReactor* JobService::QueryMetrics(grpc::CallbackServerContext* context,
                                                   const v1::QueryMetricsRequest* request,
                                                   v1::QueryMetricsResponse* response) {
  auto* call = new UnaryCall(gate_, "QueryMetrics");
  absl::Status status = call->Enter(*context, "JobService/QueryMetrics");
  absl::StatusOr<PointQuery> query;
  if (status.ok()) {
    KnownJobs jobs(engine_, gate_.ReadsOf(call->caller()));
    const absl::StatusOr<const Job*> job = FindFor(call->caller(), jobs, request->job());
    status = job.status();
    if (job.ok()) {
      query = QueryOf(*request, (*job)->id);
      status = query.status();
    }
  }
  if (!status.ok()) {
    call->Done(status);
    return call;
  }
  metrics_.ReadPoints(*std::move(query), [call, response](absl::StatusOr<PointPage> page) {
    if (page.ok()) {
      for (const Point& point : page->points) {
        v1::MetricPoint* out = response->add_points();
        out->set_name(point.name);
        out->set_step(point.step);
        out->set_time_ms(point.time_ms);
        out->set_value(point.value);
      }
      response->set_next_page_token(page->next_page_token);
    }
    call->Done(page.status());
  });
  return call;
}

grpc::ServerUnaryReactor* JobService::ListWorkers(grpc::CallbackServerContext* context,
                                                  const v1::ListWorkersRequest* request,
                                                  v1::ListWorkersResponse* response) {
  auto* call = new UnaryCall(gate_, "ListWorkers");
  absl::Status status = call->Enter(*context, "JobService/ListWorkers");
  if (status.ok()) {
    status = FillWorkers(*engine_.snapshot(), *request, gate_.ReadsOf(call->caller()), *response);
  }
  call->Done(status);
  return call;
}

grpc::ServerUnaryReactor* JobService::GetGoodput(grpc::CallbackServerContext* context,
                                                 const v1::GetGoodputRequest* request,
                                                 v1::GetGoodputResponse* response) {
  auto* call = new UnaryCall(gate_, "GetGoodput");
  absl::Status status = call->Enter(*context, "JobService/GetGoodput");
  KnownJobs jobs(engine_, gate_.ReadsOf(call->caller()));
  const absl::Duration now = clock_.SinceBoot();
  if (status.ok() && request->has_job()) {
    const absl::StatusOr<const Job*> job = FindFor(call->caller(), jobs, request->job());
    status = job.status();
    if (job.ok()) *response = AnswerGoodput(jobs.snapshot(), now, **job);
  } else if (status.ok()) {
    const int others = goodputs_++;
    const absl::Cleanup done = [this] { --goodputs_; };
    absl::StatusOr<v1::GetGoodputResponse> answer = absl::UnavailableError(
        "others are asking for the goodput of all jobs at this moment: ask again");
    if (others < kMostGoodputs)
      answer = AnswerGoodput(jobs.snapshot(), engine_.history(), now, *request,
                             gate_.ReadsOf(call->caller()));
    status = answer.status();
    if (answer.ok()) *response = *std::move(answer);
  }
  call->Done(status);
  return call;
}

grpc::ServerUnaryReactor* JobService::ExplainJob(grpc::CallbackServerContext* context,
                                                 const v1::ExplainJobRequest* request,
                                                 v1::ExplainJobResponse* response) {
  auto* call = new UnaryCall(gate_, "ExplainJob");
  absl::Status status = call->Enter(*context, "JobService/ExplainJob");
  if (status.ok()) status = FillExplanation(call->caller(), *request, *response);
  call->Done(status);
  return call;
}

void JobService::AddHints(const JobNeeds& needs, Explanation& explanation) const {
  if (explanation.blockers.empty() || !workers_to_come_.hints) return;
  for (Blocker& hint : workers_to_come_.hints(needs)) {
    explanation.blockers.push_back(std::move(hint));
  }
}

absl::Status JobService::FillExplanation(const Caller& caller, const v1::ExplainJobRequest& request,
                                         v1::ExplainJobResponse& response) {
  KnownJobs jobs(engine_, gate_.ReadsOf(caller));
  MUSTER_ASSIGN_OR_RETURN(const Job* job, FindFor(caller, jobs, request.job()));
  *response.mutable_summary() = ToProto(*job);
  MUSTER_ASSIGN_OR_RETURN(Explanation explanation, engine_.Explain(jobs.snapshot(), job->id));
  AddHints(job->settings->needs, explanation);
  *response.mutable_outlook() = ToProto(jobs.snapshot(), explanation);
  HideNames(jobs.snapshot(), gate_.ReadsOf(caller), *response.mutable_outlook());
  return absl::OkStatus();
}

}  // namespace muster::controller
