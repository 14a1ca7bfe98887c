// The calls of JobService that show checkpoints and have them reread; those that change them are in
// job_control.cc.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "controller/api/calls/known_jobs.h"
#include "controller/api/calls/post_event.h"
#include "controller/api/convert/checkpoints_answer.h"
#include "controller/api/convert/convert.h"
#include "controller/api/convert/pages.h"
#include "controller/api/job_service.h"
#include "controller/api/streams/job_streams.h"

namespace muster::controller {
namespace {

absl::Status NoSuchCheckpoint(uint64_t id) {
  return absl::NotFoundError(
      absl::StrCat("checkpoint ", id, ": no such checkpoint; `muster ckpt ls JOB` lists them"));
}

}  // namespace

absl::StatusOr<const Checkpoint*> JobService::FindCheckpointFor(const Caller& caller,
                                                                KnownJobs& jobs, uint64_t id) {
  MUSTER_ASSIGN_OR_RETURN(const Checkpoint* checkpoint, jobs.FindCheckpoint(id));
  if (checkpoint == nullptr) return NoSuchCheckpoint(id);
  MUSTER_ASSIGN_OR_RETURN(const Job* job, jobs.Find(checkpoint->job_id));
  if (job != nullptr) {
    MUSTER_RETURN_IF_ERROR(gate_.CheckJob(caller, *job, NoSuchCheckpoint(id)));
    return checkpoint;
  }
  // Whose it is nobody can tell then.
  const absl::Status allowed =
      gate_.CheckProject(caller, kAllProjects, absl::StrCat("checkpoint ", id));
  if (allowed.ok()) return checkpoint;
  return caller.principal->RoleIn(kAllProjects) == Role::kNone ? NoSuchCheckpoint(id) : allowed;
}

grpc::ServerUnaryReactor* JobService::ListCheckpoints(grpc::CallbackServerContext* context,
                                                      const v1::ListCheckpointsRequest* request,
                                                      v1::ListCheckpointsResponse* response) {
  auto* call = new UnaryCall(gate_, "ListCheckpoints");
  absl::Status status = call->Enter(*context, "JobService/ListCheckpoints");
  if (status.ok()) {
    KnownJobs jobs(engine_, gate_.ReadsOf(call->caller()));
    const absl::StatusOr<const Job*> job = FindFor(call->caller(), jobs, request->job());
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
  absl::Status status = call->Enter(*context, "JobService/GetCheckpoint");
  if (status.ok()) {
    KnownJobs jobs(engine_);
    const absl::StatusOr<const Checkpoint*> checkpoint =
        FindCheckpointFor(call->caller(), jobs, request->checkpoint_id());
    status = checkpoint.status();
    if (checkpoint.ok() && WasEverThere(**checkpoint)) {
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
  absl::Status status = call->Enter(*context, "JobService/VerifyCheckpoint");
  KnownJobs jobs(engine_);
  const Checkpoint* checkpoint = nullptr;
  if (status.ok()) {
    const absl::StatusOr<const Checkpoint*> found =
        FindCheckpointFor(call->caller(), jobs, request->checkpoint_id());
    status = found.status();
    if (found.ok()) checkpoint = *found;
  }
  absl::StatusOr<RestoreList> restore;
  if (status.ok()) {
    restore = jobs.WhatToRestore();
    status = restore.status();
  }
  if (!status.ok()) {
    call->Done(status);
    return call;
  }
  const Job* job = jobs.snapshot().FindJob(checkpoint->job_id);
  call->Changes(job == nullptr ? "" : job->settings->project,
                absl::StrCat("checkpoint ", checkpoint->id, " of job ", checkpoint->job_id));
  auto wait =
      std::make_shared<VerificationWait>(call, context, clock_, engine_, *checkpoint, response);
  std::vector<Engine::Posted> post;
  post.push_back({.event = RequestVerify{checkpoint->id},
                  .done =
                      [this, call, wait](const EventResult& result) {
                        if (result.status.ok()) {
                          pump_.Add(wait, call->caller().Share());
                        } else {
                          call->Done(result.status);
                        }
                      },
                  .restore = *std::move(restore)});
  engine_.PostAll(std::move(post));
  return call;
}

}  // namespace muster::controller
