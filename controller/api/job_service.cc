#include "controller/api/job_service.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/spec/packed_spec.h"
#include "controller/api/calls/known_jobs.h"
#include "controller/api/calls/post_event.h"
#include "controller/api/calls/submit_check.h"
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
constexpr uint32_t kMaxTailLines = 1'000'000;
constexpr uint32_t kMaxTailEvents = 100'000;
// Answers about all jobs, which may take seconds of the API's threads.
constexpr int kMostGoodputs = 2;

// One that was offered and refused, or never finished, has never been there.
bool WasEverThere(const Checkpoint& checkpoint) {
  return checkpoint.state != CheckpointState::kDeleted || !checkpoint.path.empty();
}

absl::Status NoSuchCheckpoint(uint64_t id) {
  return absl::NotFoundError(
      absl::StrCat("checkpoint ", id, ": no such checkpoint; `muster ckpt ls JOB` lists them"));
}

// Those below `below` (0: all), newest first; the id below which the next page goes on, 0: none.
uint64_t FillCheckpoints(const Snapshot& snapshot, const Job& job, uint64_t below, size_t bytes,
                         google::protobuf::RepeatedPtrField<v1::CheckpointInfo>* out) {
  PageBytes page(bytes);
  for (auto id = job.checkpoints.rbegin(); id != job.checkpoints.rend(); ++id) {
    const Checkpoint* checkpoint = snapshot.FindCheckpoint(*id);
    if (checkpoint == nullptr || (below != 0 && *id >= below)) continue;
    if (!WasEverThere(*checkpoint)) continue;
    v1::CheckpointInfo info = ToProto(*checkpoint);
    if (!page.Take(info.ByteSizeLong())) return *id + 1;
    *out->Add() = std::move(info);
  }
  return 0;
}

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

// Workers above the id that the token names.
absl::Status FillWorkers(const Snapshot& snapshot, const v1::ListWorkersRequest& request,
                         v1::ListWorkersResponse& response) {
  MUSTER_ASSIGN_OR_RETURN(const uint64_t after, IdOfToken(request.page_token(), /*first=*/0));
  PageBytes page;
  for (uint64_t id = after; id < snapshot.workers.last_id();) {
    const Worker* worker = snapshot.workers.Find(++id);
    if (worker == nullptr) continue;
    v1::WorkerInfo info = ToProto(*worker);
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
                       std::string checkpoint_root, HasUpload has_upload)
    : engine_(engine),
      metrics_(metrics),
      gate_(gate),
      clock_(clock),
      checkpoint_root_(std::move(checkpoint_root)),
      has_upload_(std::move(has_upload)),
      pump_(clock),
      watch_(gate.patience()) {}

grpc::ServerUnaryReactor* JobService::GetVersion(grpc::CallbackServerContext* context,
                                                 const v1::GetVersionRequest*,
                                                 v1::GetVersionResponse* response) {
  auto* call = new UnaryCall(gate_, "GetVersion");
  const absl::Status allowed = gate_.Check(*context);
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
  absl::Status status = gate_.Check(*context);
  absl::StatusOr<SubmitJob> event;
  if (status.ok()) {
    v1::JobSpec& spec = *response->mutable_resolved_spec();
    spec = request->spec();
    event = CheckSubmit(*request, spec, checkpoint_root_);
    status = event.status();
  }
  KnownJobs jobs(engine_);
  if (status.ok()) status = jobs.LoadReferred(*event);
  if (!status.ok()) {
    call->Done(status);
    return call;
  }
  if (request->dry_run()) {
    const absl::StatusOr<Explanation> forecast = engine_.Forecast(jobs.snapshot(), *event);
    status = forecast.status();
    if (forecast.ok()) {
      status = FillResume(jobs, forecast->resume_from, *response);
      response->set_forecast(forecast->forecast);
      *response->mutable_outlook() = ToProto(jobs.snapshot(), *forecast);
    }
    call->Done(status);
    return call;
  }
  const std::string& upload = event->settings->upload;
  if (!upload.empty() && !(has_upload_ && has_upload_(upload))) {
    call->Done(absl::NotFoundError(absl::StrCat("command.upload: ", upload,
                                                " is not there, or not any more: send the folder "
                                                "with `muster submit --upload DIR`")));
    return call;
  }
  PostAndAnswer(engine_, jobs, std::move(event), call, [this, response](const EventResult& result) {
    const std::shared_ptr<const Snapshot> snapshot = engine_.snapshot();
    const Job* job = snapshot->FindJob(result.job_id);
    if (job != nullptr && !job->settings->resume_from.empty()) {
      *response->mutable_resume_from() = ResumeSourceOf(*snapshot, job->settings->resume_from);
    }
    response->set_job_id(result.job_id);
    response->set_jobs(result.jobs);
    response->set_already_existed(result.already_existed);
  });
  return call;
}

grpc::ServerBidiReactor<v1::SubmitJobsRequest, v1::SubmitJobsResponse>* JobService::SubmitJobs(
    grpc::CallbackServerContext* context) {
  absl::Status allowed = gate_.Check(*context);
  auto stream =
      std::make_shared<SubmitStream>(gate_, engine_, checkpoint_root_, gate_.CallerOf(*context));
  if (allowed.ok()) allowed = KeepUntilStop(stream);
  return SubmitStream::Begin(std::move(stream), *context, watch_, allowed);
}

absl::Status JobService::KeepUntilStop(const std::shared_ptr<SubmitStream>& stream) {
  MutexLock lock(mutex_);
  if (stopping_) return Stopping();
  // Those that are gone are looked for only when there might be too many.
  if (submit_streams_.size() >= kMaxSubmitStreams) {
    std::erase_if(submit_streams_, [](const auto& weak) { return weak.expired(); });
  }
  if (submit_streams_.size() >= kMaxSubmitStreams) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kMaxSubmitStreams, " streams of submits are open already"));
  }
  submit_streams_.push_back(stream);
  return absl::OkStatus();
}

void JobService::Stop() {
  pump_.Stop();
  watch_.Stop();
  std::vector<std::weak_ptr<SubmitStream>> streams;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    streams.swap(submit_streams_);
  }
  for (const auto& weak : streams) {
    if (const auto stream = weak.lock()) stream->Close(Stopping());
  }
}

grpc::ServerUnaryReactor* JobService::ListJobs(grpc::CallbackServerContext* context,
                                               const v1::ListJobsRequest* request,
                                               v1::ListJobsResponse* response) {
  auto* call = new UnaryCall(gate_, "ListJobs");
  absl::Status status = gate_.Check(*context);
  if (status.ok()) status = FillJobs(*engine_.snapshot(), engine_.history(), *request, *response);
  call->Done(status);
  return call;
}

grpc::ServerUnaryReactor* JobService::GetJob(grpc::CallbackServerContext* context,
                                             const v1::GetJobRequest* request,
                                             v1::GetJobResponse* response) {
  auto* call = new UnaryCall(gate_, "GetJob");
  absl::Status status = gate_.Check(*context);
  if (status.ok()) status = FillJob(*request, *response);
  call->Done(status);
  return call;
}

absl::Status JobService::FillJob(const v1::GetJobRequest& request, v1::GetJobResponse& response) {
  KnownJobs jobs(engine_);
  MUSTER_ASSIGN_OR_RETURN(const Job* job, jobs.Find(request.job()));
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

grpc::ServerWriteReactor<v1::WatchJobResponse>* JobService::WatchJob(
    grpc::CallbackServerContext* context, const v1::WatchJobRequest* request) {
  absl::Status status = gate_.Check(*context);
  uint64_t id = 0;
  if (status.ok()) {
    KnownJobs jobs(engine_);
    const absl::StatusOr<const Job*> job = jobs.Find(request->job());
    status = job.status();
    if (job.ok()) id = (*job)->id;
  }
  auto watch = std::make_shared<JobWatch>(gate_, engine_, id);
  auto* reactor = JobWatch::Handover(watch, *context, watch_);
  if (status.ok()) {
    pump_.Add(std::move(watch));
  } else {
    watch->End(status);
  }
  return reactor;
}

grpc::ServerWriteReactor<v1::StreamEventsResponse>* JobService::StreamEvents(
    grpc::CallbackServerContext* context, const v1::StreamEventsRequest* request) {
  absl::Status status = gate_.Check(*context);
  if (status.ok() && request->tail() > kMaxTailEvents) {
    status = absl::InvalidArgumentError(absl::StrCat("tail: at most ", kMaxTailEvents, " events"));
  }
  EventStreamRequest wanted{.after_sequence = request->after_sequence(),
                            .tail = request->tail(),
                            .follow = request->follow()};
  if (status.ok() && request->has_job()) {
    KnownJobs jobs(engine_);
    const absl::StatusOr<const Job*> job = jobs.Find(request->job());
    status = job.status();
    if (job.ok()) wanted.job_id = (*job)->id;
  }
  auto stream = std::make_shared<EventStream>(gate_, engine_, wanted);
  auto* reactor = EventStream::Handover(stream, *context, watch_);
  if (status.ok()) {
    pump_.Add(std::move(stream));
  } else {
    stream->End(status);
  }
  return reactor;
}

grpc::ServerWriteReactor<v1::StreamLogsResponse>* JobService::StreamLogs(
    grpc::CallbackServerContext* context, const v1::StreamLogsRequest* request) {
  absl::Status status = gate_.Check(*context);
  LogQuery wanted;
  wanted.follow = request->follow();
  wanted.tail_lines = std::min(request->tail(), kMaxTailLines);
  if (request->has_rank()) wanted.rank = request->rank();
  if (request->has_attempt()) wanted.attempt = request->attempt();
  if (status.ok()) {
    KnownJobs jobs(engine_);
    const absl::StatusOr<const Job*> job = jobs.Find(request->job());
    status = job.status();
    if (job.ok()) wanted.job_id = (*job)->id;
  }
  auto stream = std::make_shared<LogStream>(gate_, engine_, metrics_, clock_, wanted);
  auto* reactor = LogStream::Handover(stream, *context, watch_);
  if (status.ok()) {
    pump_.Add(std::move(stream));
  } else {
    stream->End(status);
  }
  return reactor;
}

grpc::ServerUnaryReactor* JobService::QueryMetrics(grpc::CallbackServerContext* context,
                                                   const v1::QueryMetricsRequest* request,
                                                   v1::QueryMetricsResponse* response) {
  auto* call = new UnaryCall(gate_, "QueryMetrics");
  absl::Status status = gate_.Check(*context);
  absl::StatusOr<PointQuery> query;
  if (status.ok()) {
    KnownJobs jobs(engine_);
    const absl::StatusOr<const Job*> job = jobs.Find(request->job());
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

grpc::ServerUnaryReactor* JobService::ListCheckpoints(grpc::CallbackServerContext* context,
                                                      const v1::ListCheckpointsRequest* request,
                                                      v1::ListCheckpointsResponse* response) {
  auto* call = new UnaryCall(gate_, "ListCheckpoints");
  absl::Status status = gate_.Check(*context);
  if (status.ok()) {
    KnownJobs jobs(engine_);
    const absl::StatusOr<const Job*> job = jobs.Find(request->job());
    status = job.status();
    absl::StatusOr<uint64_t> below = IdOfToken(request->page_token(), /*first=*/0);
    if (status.ok()) status = below.status();
    if (status.ok()) {
      const uint64_t next = FillCheckpoints(jobs.snapshot(), **job, *below, kMaxPageBytes,
                                            response->mutable_checkpoints());
      if (next != 0) response->set_next_page_token(absl::StrCat(next));
    }
  }
  call->Done(status);
  return call;
}

grpc::ServerUnaryReactor* JobService::GetCheckpoint(grpc::CallbackServerContext* context,
                                                    const v1::GetCheckpointRequest* request,
                                                    v1::GetCheckpointResponse* response) {
  auto* call = new UnaryCall(gate_, "GetCheckpoint");
  absl::Status status = gate_.Check(*context);
  if (status.ok()) {
    KnownJobs jobs(engine_);
    const absl::StatusOr<const Checkpoint*> checkpoint =
        jobs.FindCheckpoint(request->checkpoint_id());
    status = checkpoint.status();
    if (checkpoint.ok() && *checkpoint != nullptr && WasEverThere(**checkpoint)) {
      *response->mutable_checkpoint() = ToProto(**checkpoint);
    } else if (status.ok()) {
      status = NoSuchCheckpoint(request->checkpoint_id());
    }
  }
  call->Done(status);
  return call;
}

grpc::ServerUnaryReactor* JobService::VerifyCheckpoint(grpc::CallbackServerContext* context,
                                                       const v1::VerifyCheckpointRequest* request,
                                                       v1::VerifyCheckpointResponse* response) {
  auto* call = new UnaryCall(gate_, "VerifyCheckpoint");
  absl::Status status = gate_.Check(*context);
  KnownJobs jobs(engine_);
  const Checkpoint* checkpoint = nullptr;
  if (status.ok()) {
    const absl::StatusOr<const Checkpoint*> found = jobs.FindCheckpoint(request->checkpoint_id());
    status = found.status();
    if (found.ok()) checkpoint = *found;
  }
  if (status.ok() && checkpoint == nullptr) status = NoSuchCheckpoint(request->checkpoint_id());
  absl::StatusOr<RestoreList> restore;
  if (status.ok()) {
    restore = jobs.WhatToRestore();
    status = restore.status();
  }
  if (!status.ok()) {
    call->Done(status);
    return call;
  }
  auto wait =
      std::make_shared<VerificationWait>(call, context, clock_, engine_, *checkpoint, response);
  std::vector<Engine::Posted> post;
  post.push_back({.event = RequestVerify{checkpoint->id},
                  .done =
                      [this, call, wait](const EventResult& result) {
                        if (result.status.ok()) {
                          pump_.Add(wait);
                        } else {
                          call->Done(result.status);
                        }
                      },
                  .restore = *std::move(restore)});
  engine_.PostAll(std::move(post));
  return call;
}

grpc::ServerUnaryReactor* JobService::ListWorkers(grpc::CallbackServerContext* context,
                                                  const v1::ListWorkersRequest* request,
                                                  v1::ListWorkersResponse* response) {
  auto* call = new UnaryCall(gate_, "ListWorkers");
  absl::Status status = gate_.Check(*context);
  if (status.ok()) status = FillWorkers(*engine_.snapshot(), *request, *response);
  call->Done(status);
  return call;
}

grpc::ServerUnaryReactor* JobService::GetGoodput(grpc::CallbackServerContext* context,
                                                 const v1::GetGoodputRequest* request,
                                                 v1::GetGoodputResponse* response) {
  auto* call = new UnaryCall(gate_, "GetGoodput");
  absl::Status status = gate_.Check(*context);
  KnownJobs jobs(engine_);
  const absl::Duration now = clock_.SinceBoot();
  if (status.ok() && request->has_job()) {
    const absl::StatusOr<const Job*> job = jobs.Find(request->job());
    status = job.status();
    if (job.ok()) *response = AnswerGoodput(jobs.snapshot(), now, **job);
  } else if (status.ok()) {
    const int others = goodputs_++;
    const absl::Cleanup done = [this] { --goodputs_; };
    absl::StatusOr<v1::GetGoodputResponse> answer = absl::UnavailableError(
        "others are asking for the goodput of all jobs at this moment: ask again");
    if (others < kMostGoodputs)
      answer = AnswerGoodput(jobs.snapshot(), engine_.history(), now, *request);
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
  absl::Status status = gate_.Check(*context);
  if (status.ok()) status = FillExplanation(*request, *response);
  call->Done(status);
  return call;
}

absl::Status JobService::FillExplanation(const v1::ExplainJobRequest& request,
                                         v1::ExplainJobResponse& response) {
  KnownJobs jobs(engine_);
  MUSTER_ASSIGN_OR_RETURN(const Job* job, jobs.Find(request.job()));
  *response.mutable_summary() = ToProto(*job);
  MUSTER_ASSIGN_OR_RETURN(const Explanation explanation, engine_.Explain(jobs.snapshot(), job->id));
  *response.mutable_outlook() = ToProto(jobs.snapshot(), explanation);
  return absl::OkStatus();
}

}  // namespace muster::controller
