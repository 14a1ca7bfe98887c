#include "controller/api/job_service.h"

#include <algorithm>
#include <bitset>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
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
#include "controller/api/convert/pages.h"
#include "controller/api/streams/event_stream.h"
#include "controller/api/streams/job_streams.h"
#include "controller/api/streams/log_stream.h"

namespace muster::controller {
namespace {

constexpr uint32_t kDefaultJobPage = 100;
constexpr uint32_t kMaxJobPage = 1000;
// Jobs that one page looks at. A page that few match may hold less than asked for, and a token.
constexpr uint32_t kMaxJobsSeen = 20'000;
constexpr int kMaxTags = 16;  // in a filter of jobs
constexpr uint32_t kMaxPointPage = 10000;
constexpr int kMaxMetricNames = 64;
constexpr uint32_t kMaxTailLines = 1'000'000;

// Whether the job ended in the span that the request asks for, if it asks for one.
bool EndedWithin(const v1::ListJobsRequest& request, const Job& job) {
  const int64_t finished = ToMillis(job.finished);
  if (request.finished_from_ms() != 0 && finished < request.finished_from_ms()) return false;
  return request.finished_before_ms() == 0 ||
         (finished != 0 && finished < request.finished_before_ms());
}

bool HasTags(const Job& job, const v1::ListJobsRequest& request) {
  const std::map<std::string, std::string>& tags = job.settings->tags;
  return std::all_of(request.tags().begin(), request.tags().end(), [&tags](const auto& wanted) {
    const auto it = tags.find(wanted.first);
    return it != tags.end() && it->second == wanted.second;
  });
}

using StateSet = std::bitset<v1::JobState_ARRAYSIZE>;

// Those that the request names; all when it names none.
absl::StatusOr<StateSet> StatesOf(const v1::ListJobsRequest& request) {
  if (request.states_size() == 0) return StateSet().set();
  if (request.states_size() > v1::JobState_ARRAYSIZE) {
    return absl::InvalidArgumentError(
        absl::StrCat("states: at most ", v1::JobState_ARRAYSIZE, ", each once"));
  }
  StateSet states;
  for (const int state : request.states()) {
    if (v1::JobState_IsValid(state)) states.set(static_cast<size_t>(state));
  }
  return states;
}

// The id that a page's token names; `first` without one.
absl::StatusOr<uint64_t> IdOfToken(const std::string& token, uint64_t first) {
  uint64_t id = first;
  if (!token.empty() && !absl::SimpleAtoi(token, &id)) {
    return absl::InvalidArgumentError("page_token: not one that this controller gave");
  }
  return id;
}

// The jobs that a request for these states has to look at, newest first. Where no state of ended
// jobs is asked for, only the list of those that have not ended is walked, which is far shorter.
class Candidates {
 public:
  Candidates(const Snapshot& snapshot, const StateSet& states)
      : snapshot_(snapshot),
        only_active_(!states.test(v1::SUCCEEDED) && !states.test(v1::FAILED) &&
                     !states.test(v1::CANCELLED)) {}

  // The newest one below `id`; 0: there is none.
  uint64_t Below(uint64_t id) const {
    if (!only_active_) return snapshot_.jobs.PreviousId(id);
    const std::vector<uint64_t>& active = *snapshot_.active_jobs;
    const auto next = std::lower_bound(active.begin(), active.end(), id);
    return next == active.begin() ? 0 : *(next - 1);
  }

 private:
  const Snapshot& snapshot_;
  const bool only_active_;
};

// Ids of archived jobs that a request for jobs asks for, newest first, a page of the walk at a
// time.
class ArchivedCandidates {
 public:
  // `first`: the id that the walk begins with. `most` are wanted at a time. None are found where no
  // ended job is asked for.
  ArchivedCandidates(History& history, const v1::ListJobsRequest& request, const StateSet& states,
                     uint64_t first, int most)
      : history_(history), down_to_(first + 1) {
    query_.most = static_cast<size_t>(most) + 1;
    query_.project = request.project();
    if (request.finished_from_ms() != 0) {
      query_.finished_from = absl::FromUnixMillis(request.finished_from_ms());
    }
    if (request.finished_before_ms() != 0) {
      query_.finished_before = absl::FromUnixMillis(request.finished_before_ms());
    }
    for (const v1::JobState state : {v1::SUCCEEDED, v1::FAILED, v1::CANCELLED}) {
      if (states.test(state)) query_.states.push_back(static_cast<JobState>(state));
    }
    if (query_.states.empty() || history_.jobs() == 0) down_to_ = 0;
  }

  // The next one; 0: none is known above down_to().
  uint64_t Next() const { return next_ < ids_.size() ? ids_[next_] : 0; }
  void Pass() { ++next_; }
  // All above this id have been found; 0: there are no more.
  uint64_t down_to() const { return Next() != 0 ? Next() : down_to_; }

  // Goes on with the walk. Requires that Next is 0 and down_to is not.
  absl::Status Find() {
    query_.below = down_to_;
    MUSTER_ASSIGN_OR_RETURN(ArchivedPage<uint64_t> page, history_.List(query_));
    ids_ = std::move(page.rows);
    next_ = 0;
    down_to_ = page.looked_down_to;
    return absl::OkStatus();
  }

 private:
  History& history_;
  ArchivedJobsQuery query_;
  std::vector<uint64_t> ids_;
  size_t next_ = 0;
  uint64_t down_to_;
};

absl::Status FillJobs(const Engine& engine, const v1::ListJobsRequest& request,
                      v1::ListJobsResponse& response) {
  const std::shared_ptr<const Snapshot> snapshot = engine.snapshot();
  MUSTER_ASSIGN_OR_RETURN(uint64_t id,
                          IdOfToken(request.page_token(), /*first=*/snapshot->jobs.last_id()));
  id = std::min(id, snapshot->jobs.last_id());
  const uint32_t wanted = request.page_size() == 0 ? kDefaultJobPage : request.page_size();
  const int most = static_cast<int>(std::min(wanted, kMaxJobPage));
  if (request.tags_size() > kMaxTags) {
    return absl::InvalidArgumentError(absl::StrCat("tags: at most ", kMaxTags));
  }
  MUSTER_ASSIGN_OR_RETURN(const StateSet states, StatesOf(request));
  uint32_t seen = 0;
  PageBytes bytes;
  const Candidates jobs(*snapshot, states);
  ArchivedCandidates archived(engine.history(), request, states, id, most);
  for (uint64_t here = jobs.Below(id + 1);;) {
    if (archived.Next() == 0 && archived.down_to() > here) {
      if (seen > kMaxJobsSeen) {
        response.set_next_page_token(absl::StrCat(archived.down_to() - 1));
        return absl::OkStatus();
      }
      MUSTER_RETURN_IF_ERROR(archived.Find());
      seen += kMaxJobsSeen / 4;  // rows of an index: cheaper than jobs
      continue;
    }
    id = std::max(here, archived.Next());
    if (id == 0) return absl::OkStatus();
    std::shared_ptr<const Job> job = snapshot->jobs.Share(id);
    if (id == archived.Next()) {
      archived.Pass();
      if (job != nullptr) continue;  // it was restored
      MUSTER_ASSIGN_OR_RETURN(ArchivedJob found, engine.history().Find(id));
      job = std::move(found.job);
    } else {
      here = jobs.Below(id);
    }
    const bool wanted =
        states.test(static_cast<size_t>(job->state)) &&
        (request.project().empty() || job->settings->project == request.project()) &&
        EndedWithin(request, *job) && HasTags(*job, request);
    v1::JobSummary summary;
    if (wanted) summary = ToProto(*job);
    const bool full =
        wanted && (response.jobs_size() == most || !bytes.Take(summary.ByteSizeLong()));
    if (++seen > kMaxJobsSeen || full) {
      response.set_next_page_token(absl::StrCat(id));
      return absl::OkStatus();
    }
    if (wanted) *response.add_jobs() = std::move(summary);
  }
}

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

// For Submit and GetJob: what the job begins from, if that is another one's.
template <typename Response>
void FillResume(const Snapshot& snapshot, const std::vector<uint64_t>& resume_from,
                Response& response) {
  if (!resume_from.empty()) {
    *response.mutable_resume_from() = ResumeSourceOf(snapshot, resume_from);
  }
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
  if (status.ok()) status = jobs.FindReferred(*event);
  if (!status.ok()) {
    call->Done(status);
    return call;
  }
  if (request->dry_run()) {
    const absl::StatusOr<Explanation> forecast = engine_.Forecast(jobs.snapshot(), *event);
    if (forecast.ok()) {
      FillResume(jobs.snapshot(), forecast->resume_from, *response);
      response->set_forecast(forecast->forecast);
      *response->mutable_outlook() = ToProto(jobs.snapshot(), *forecast);
    }
    call->Done(forecast.status());
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
    if (const Job* job = snapshot->FindJob(result.job_id)) {
      FillResume(*snapshot, job->settings->resume_from, *response);
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
  if (status.ok()) status = FillJobs(engine_, *request, *response);
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
  FillResume(snapshot, job->settings->resume_from, response);
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
  std::vector<Engine::Posted> posts;
  if (status.ok()) status = jobs.Restore(posts);
  if (!status.ok()) {
    call->Done(status);
    return call;
  }
  auto wait =
      std::make_shared<VerificationWait>(call, context, clock_, engine_, *checkpoint, response);
  posts.push_back({RequestVerify{checkpoint->id}, [this, call, wait](const EventResult& result) {
                     if (result.status.ok()) {
                       pump_.Add(wait);
                     } else {
                       call->Done(result.status);
                     }
                   }});
  engine_.PostAll(std::move(posts));
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
    absl::StatusOr<v1::GetGoodputResponse> answer =
        AnswerGoodput(jobs.snapshot(), engine_.history(), now, *request);
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
