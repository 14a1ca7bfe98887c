// The calls of JobService that change jobs, checkpoints and workers which are there: check, call,
// convert.
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/spec/tree/scheduling_text.h"
#include "common/spec/tree/spec_fault.h"
#include "common/spec/tree/spec_text.h"
#include "common/spec/validate/spec_defaults.h"
#include "common/spec/validate/spec_validate.h"
#include "controller/api/calls/known_jobs.h"
#include "controller/api/calls/post_event.h"
#include "controller/api/calls/submit_check.h"
#include "controller/api/convert/convert.h"
#include "controller/api/job_service.h"

namespace muster::controller {
namespace {

constexpr size_t kMaxReasonBytes = 256;
// What class and number together can be.
constexpr int32_t kLeastPriority = -1999;
constexpr int32_t kMostPriority = 2999;

absl::StatusOr<std::string> ActorOf(const std::string& user) {
  MUSTER_RETURN_IF_ERROR(CheckWord("user", user, kMaxUserBytes));
  return absl::StrCat("user:", user.empty() ? "unknown" : user);
}

// Who asks, and for which job.
struct Target {
  std::shared_ptr<const Job> job;
  std::string actor;
};

// A call that may change what it names.
struct Asked {
  CallGate& gate;
  UnaryCall& call;
  KnownJobs& jobs;
};

// `what` follows the job on the audit log.
template <typename Request>
absl::StatusOr<Target> TargetOf(const Asked& asked, const Request& request,
                                absl::string_view what = "") {
  const auto& [gate, call, jobs] = asked;
  Target target;
  MUSTER_ASSIGN_OR_RETURN(target.actor, ActorOf(call.caller().NameOr(request.user())));
  MUSTER_ASSIGN_OR_RETURN(const Job* job, jobs.Find(request.job()));
  MUSTER_RETURN_IF_ERROR(gate.CheckJob(call.caller(), *job, jobs.NoSuchJob(request.job())));
  const uint64_t array_id = job->array.array_id;
  call.Changes(job->settings->project, request.whole_array() && array_id != 0
                                           ? absl::StrCat("array ", array_id, what)
                                           : absl::StrCat("job ", job->id, what));
  target.job = jobs.snapshot().jobs.Share(job->id);
  return target;
}

// A job that has ended may have lost the folder that it ran in: that is kept for a while only. The
// question itself keeps it until the requeue is applied.
absl::Status CheckUploadOf(const v1::ControlJobRequest& request, const Job& job,
                           const JobService::HasUpload& has_upload) {
  const std::string& upload = job.settings->upload;
  const bool asks = request.verb() == v1::ControlJobRequest::REQUEUE && IsTerminal(job.state);
  if (!asks || upload.empty() || (has_upload && has_upload(upload, nullptr)))
    return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("job ", job.id,
                   ": the folder that it ran in was uploaded and is not kept any "
                   "more: submit it anew with `muster submit --upload DIR`"));
}

absl::StatusOr<controller::ControlJob> EventOf(const v1::ControlJobRequest& request,
                                               const Asked& asked,
                                               const JobService::HasUpload& has_upload) {
  const std::string verb = absl::AsciiStrToLower(v1::ControlJobRequest::Verb_Name(request.verb()));
  MUSTER_ASSIGN_OR_RETURN(Target target, TargetOf(asked, request, absl::StrCat(": ", verb)));
  MUSTER_RETURN_IF_ERROR(CheckUploadOf(request, *target.job, has_upload));
  MUSTER_RETURN_IF_ERROR(CheckWord("request_id", request.request_id(), kMaxKeyBytes));
  if (request.verb() == v1::ControlJobRequest::REQUEUE) {
    MUSTER_RETURN_IF_ERROR(asked.jobs.LoadWaitedFor(target.job->settings->scheduling));
  }
  if (!v1::ControlJobRequest::Verb_IsValid(request.verb()) ||
      request.verb() == v1::ControlJobRequest::VERB_UNSPECIFIED) {
    return absl::InvalidArgumentError("verb: none that this controller knows");
  }
  return controller::ControlJob{.verb = static_cast<controller::ControlJob::Verb>(request.verb()),
                                .job_id = target.job->id,
                                .actor = std::move(target.actor),
                                .whole_array = request.whole_array(),
                                .request_id = request.request_id()};
}

absl::StatusOr<controller::CancelJob> EventOf(const v1::CancelJobRequest& request,
                                              const Asked& asked) {
  MUSTER_ASSIGN_OR_RETURN(Target target, TargetOf(asked, request));
  return controller::CancelJob{.job_id = target.job->id,
                               .actor = std::move(target.actor),
                               .whole_array = request.whole_array()};
}

// What the update makes of the job's spec must be as valid as a spec that is submitted.
absl::Status CheckUpdate(const v1::UpdateJobRequest& request, const Job& job) {
  if (request.priority() < kLeastPriority || request.priority() > kMostPriority) {
    return absl::InvalidArgumentError(absl::StrCat("priority: must be from ", kLeastPriority,
                                                   " to ", kMostPriority, "; got ",
                                                   request.priority()));
  }
  v1::JobSpec spec = SpecOf(*job.settings);
  FillDefaults(spec);  // a job that an older controller took lacks those of newer keys
  if (request.pools_size() > 0) {
    spec.mutable_placement()->clear_pool();
    *spec.mutable_placement()->mutable_pools() = request.pools();
  }
  v1::Scheduling& scheduling = *spec.mutable_scheduling();
  if (muster::FromProto(request.max_run_time()) != absl::ZeroDuration()) {
    *scheduling.mutable_max_run_time() = request.max_run_time();
  }
  if (!request.deadline().empty()) scheduling.set_deadline(request.deadline());
  if (!request.begin().empty()) scheduling.set_begin(request.begin());
  return FaultStatus("update", ValidateSpec(spec));
}

// The time that was given; `none` for an empty text.
absl::StatusOr<std::optional<absl::Time>> TimeOf(bool given, const std::string& text,
                                                 absl::Time none) {
  if (!given) return std::nullopt;
  if (text.empty()) return none;
  MUSTER_ASSIGN_OR_RETURN(const absl::Time time, ParseWallTime(text));
  return time;
}

absl::StatusOr<controller::UpdateJob> EventOf(const v1::UpdateJobRequest& request,
                                              const Asked& asked) {
  MUSTER_ASSIGN_OR_RETURN(Target target, TargetOf(asked, request));
  MUSTER_RETURN_IF_ERROR(CheckUpdate(request, *target.job));
  controller::UpdateJob event{.job_id = target.job->id,
                              .actor = std::move(target.actor),
                              .whole_array = request.whole_array()};
  if (request.has_priority()) event.priority = request.priority();
  for (const std::string& text : request.pools()) {
    MUSTER_ASSIGN_OR_RETURN(const PoolChoice pool, ParsePoolChoice(text));
    event.pools.push_back({.name = pool.name, .after = pool.after});
  }
  if (request.has_max_run_time()) {
    const absl::Duration most = muster::FromProto(request.max_run_time());
    event.max_run_time = most == absl::ZeroDuration() ? absl::InfiniteDuration() : most;
  }
  MUSTER_ASSIGN_OR_RETURN(
      event.deadline, TimeOf(request.has_deadline(), request.deadline(), absl::InfiniteFuture()));
  MUSTER_ASSIGN_OR_RETURN(event.begin,
                          TimeOf(request.has_begin(), request.begin(), absl::InfinitePast()));
  return event;
}

absl::StatusOr<controller::ControlCheckpoint> EventOf(
    const v1::ControlCheckpointRequest& request, const absl::StatusOr<const Checkpoint*>& found,
    const Asked& asked) {
  MUSTER_ASSIGN_OR_RETURN(std::string actor, ActorOf(asked.call.caller().NameOr(request.user())));
  MUSTER_ASSIGN_OR_RETURN(const Checkpoint* checkpoint, found);
  std::string done;
  switch (request.verb()) {
    case v1::ControlCheckpointRequest::PIN:
      done = "pinned";
      break;
    case v1::ControlCheckpointRequest::UNPIN:
      done = "unpinned";
      break;
    case v1::ControlCheckpointRequest::REMOVE:
      done = "removed";
      break;
    default:
      return absl::InvalidArgumentError("verb: none that this controller knows");
  }
  const Job* job = asked.jobs.snapshot().FindJob(checkpoint->job_id);
  asked.call.Changes(
      job == nullptr ? "" : job->settings->project,
      absl::StrCat("checkpoint ", checkpoint->id, " of job ", checkpoint->job_id, " ", done));
  return controller::ControlCheckpoint{
      .verb = static_cast<controller::ControlCheckpoint::Verb>(request.verb()),
      .checkpoint_id = checkpoint->id,
      .actor = std::move(actor),
      .force = request.force()};
}

absl::StatusOr<controller::CordonWorker> EventOf(const v1::CordonWorkerRequest& request,
                                                 UnaryCall& call) {
  MUSTER_ASSIGN_OR_RETURN(std::string actor, ActorOf(call.caller().NameOr(request.user())));
  call.Changes("", absl::StrCat("worker ", request.worker(),
                                request.cordoned() ? " drained" : " undrained"));
  if (request.reason().size() > kMaxReasonBytes) {
    return absl::InvalidArgumentError(absl::StrCat("reason: at most ", kMaxReasonBytes, " bytes"));
  }
  return controller::CordonWorker{.worker = request.worker(),
                                  .cordoned = request.cordoned(),
                                  .reason = request.cordoned() ? request.reason() : "",
                                  .actor = std::move(actor),
                                  .let_finish = request.let_finish()};
}

absl::StatusOr<controller::ForgetWorker> EventOf(const v1::ForgetWorkerRequest& request,
                                                 UnaryCall& call) {
  MUSTER_ASSIGN_OR_RETURN(std::string actor, ActorOf(call.caller().NameOr(request.user())));
  call.Changes("", absl::StrCat("worker ", request.worker()));
  return controller::ForgetWorker{
      .worker = request.worker(), .actor = std::move(actor), .gone = request.gone()};
}

// The answer to a change of one job, or of an array: the job as it is then.
template <typename Response>
auto WithJob(Engine& engine, Response* response) {
  return [&engine, response](const EventResult& result) {
    if (const std::shared_ptr<const Job> now = engine.snapshot()->jobs.Share(result.job_id)) {
      *response->mutable_summary() = ToProto(*now);
    }
    response->set_jobs(result.jobs);
  };
}

}  // namespace

grpc::ServerUnaryReactor* JobService::CancelJob(grpc::CallbackServerContext* context,
                                                const v1::CancelJobRequest* request,
                                                v1::CancelJobResponse* response) {
  auto* call = new UnaryCall(gate_, "CancelJob");
  if (const absl::Status allowed = call->Enter(*context, "JobService/CancelJob"); !allowed.ok()) {
    call->Done(allowed);
  } else {
    KnownJobs jobs(engine_, gate_.ReadsOf(call->caller()));
    PostAndAnswer(engine_, jobs, EventOf(*request, Asked{gate_, *call, jobs}), call,
                  WithJob(engine_, response));
  }
  return call;
}

grpc::ServerUnaryReactor* JobService::ControlJob(grpc::CallbackServerContext* context,
                                                 const v1::ControlJobRequest* request,
                                                 v1::ControlJobResponse* response) {
  auto* call = new UnaryCall(gate_, "ControlJob");
  if (const absl::Status allowed = call->Enter(*context, "JobService/ControlJob"); !allowed.ok()) {
    call->Done(allowed);
  } else {
    KnownJobs jobs(engine_, gate_.ReadsOf(call->caller()));
    PostAndAnswer(engine_, jobs, EventOf(*request, Asked{gate_, *call, jobs}, has_upload_), call,
                  WithJob(engine_, response));
  }
  return call;
}

grpc::ServerUnaryReactor* JobService::UpdateJob(grpc::CallbackServerContext* context,
                                                const v1::UpdateJobRequest* request,
                                                v1::UpdateJobResponse* response) {
  auto* call = new UnaryCall(gate_, "UpdateJob");
  if (const absl::Status allowed = call->Enter(*context, "JobService/UpdateJob"); !allowed.ok()) {
    call->Done(allowed);
  } else {
    KnownJobs jobs(engine_, gate_.ReadsOf(call->caller()));
    PostAndAnswer(engine_, jobs, EventOf(*request, Asked{gate_, *call, jobs}), call,
                  WithJob(engine_, response));
  }
  return call;
}

grpc::ServerUnaryReactor* JobService::ControlCheckpoint(grpc::CallbackServerContext* context,
                                                        const v1::ControlCheckpointRequest* request,
                                                        v1::ControlCheckpointResponse* response) {
  auto* call = new UnaryCall(gate_, "ControlCheckpoint");
  if (const absl::Status allowed = call->Enter(*context, "JobService/ControlCheckpoint");
      !allowed.ok()) {
    call->Done(allowed);
    return call;
  }
  KnownJobs jobs(engine_);
  const absl::StatusOr<const Checkpoint*> found =
      FindCheckpointFor(call->caller(), jobs, request->checkpoint_id());
  PostAndAnswer(engine_, jobs, EventOf(*request, found, Asked{gate_, *call, jobs}), call,
                [this, id = request->checkpoint_id(), response](const EventResult&) {
                  const std::shared_ptr<const Snapshot> snapshot = engine_.snapshot();
                  if (const Checkpoint* now = snapshot->FindCheckpoint(id)) {
                    *response->mutable_checkpoint() = ToProto(*now);
                  }
                });
  return call;
}

grpc::ServerUnaryReactor* JobService::CordonWorker(grpc::CallbackServerContext* context,
                                                   const v1::CordonWorkerRequest* request,
                                                   v1::CordonWorkerResponse* response) {
  auto* call = new UnaryCall(gate_, "CordonWorker");
  if (const absl::Status allowed = call->Enter(*context, "JobService/CordonWorker");
      !allowed.ok()) {
    call->Done(allowed);
    return call;
  }
  PostAndAnswer(engine_, EventOf(*request, *call), call,
                [this, name = request->worker(), response](const EventResult&) {
                  const std::shared_ptr<const Snapshot> snapshot = engine_.snapshot();
                  if (const Worker* worker = snapshot->FindWorker(name)) {
                    *response->mutable_worker() = ToProto(*worker);
                  }
                });
  return call;
}

grpc::ServerUnaryReactor* JobService::ForgetWorker(grpc::CallbackServerContext* context,
                                                   const v1::ForgetWorkerRequest* request,
                                                   v1::ForgetWorkerResponse*) {
  auto* call = new UnaryCall(gate_, "ForgetWorker");
  if (const absl::Status allowed = call->Enter(*context, "JobService/ForgetWorker");
      !allowed.ok()) {
    call->Done(allowed);
  } else {
    PostAndAnswer(engine_, EventOf(*request, *call), call, [](const EventResult&) {});
  }
  return call;
}

}  // namespace muster::controller
