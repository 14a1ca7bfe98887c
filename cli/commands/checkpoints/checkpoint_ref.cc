#include "cli/commands/checkpoints/checkpoint_ref.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

constexpr uint32_t kJobsAPage = 1000;

// JOB@which. Deleted and corrupt ones are found by their step only.
absl::StatusOr<v1::CheckpointInfo> FindOfJob(const std::string& job, const std::string& which,
                                             Session& session) {
  int64_t step = 0;
  const bool by_step = absl::SimpleAtoi(which, &step);
  if (!by_step && which != "best" && which != "newest") {
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint ", job, "@", which, ": a checkpoint is ", kCheckpointRefHelp));
  }
  MUSTER_ASSIGN_OR_RETURN(const v1::JobRef ref, ParseJobRef(job));
  MUSTER_ASSIGN_OR_RETURN(const Checkpoints checkpoints, ListCheckpoints(ref, session));
  const auto it =
      std::find_if(checkpoints.begin(), checkpoints.end(), [&](const v1::CheckpointInfo& c) {
        if (by_step) return c.step() == step;
        const bool whole = c.state() == v1::COMMITTED || c.state() == v1::VERIFIED;
        return whole && (which == "newest" || c.best());
      });
  if (it != checkpoints.end()) return *it;
  return WithHint(
      absl::NotFoundError(absl::StrCat("checkpoint ", job, "@", which, ": there is none")),
      absl::StrCat("`muster ckpt ls ", job, "` shows those there are"));
}

absl::StatusOr<v1::CheckpointInfo> FindById(uint64_t id, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  v1::GetCheckpointRequest request;
  request.set_checkpoint_id(id);
  absl::StatusOr<v1::GetCheckpointResponse> response =
      client->Call(&Jobs::GetCheckpoint, request, session.timeout());
  if (absl::IsUnimplemented(response.status())) {
    return WithHint(
        absl::UnimplementedError(absl::StrCat(
            "checkpoint ", id, ": this controller is too old to find a checkpoint by its id")),
        "name it as JOB@STEP; `muster ckpt ls JOB` shows the steps");
  }
  MUSTER_RETURN_IF_ERROR(response.status());
  return std::move(*response->mutable_checkpoint());
}

}  // namespace

absl::Status ForEachJobsCheckpoints(
    const JobsWanted& wanted, Session& session,
    const std::function<void(const v1::JobSummary& job, Checkpoints checkpoints)>& take) {
  v1::ListJobsRequest request;
  for (const v1::JobState state : wanted.states) request.add_states(state);
  request.set_project(wanted.project);
  request.set_page_size(kJobsAPage);
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  uint64_t asked = 0;
  do {
    MUSTER_ASSIGN_OR_RETURN(const v1::ListJobsResponse page,
                            client->Call(&Jobs::ListJobs, request, session.timeout()));
    for (const v1::JobSummary& job : page.jobs()) {
      if (!wanted.owner.empty() && job.owner() != wanted.owner) continue;
      v1::JobRef ref;
      ref.set_id(job.id());
      if (++asked % kJobsAPage == 0) session.Say(absl::StrCat("looked at ", asked, " jobs"));
      absl::StatusOr<Checkpoints> checkpoints = ListCheckpoints(ref, session);
      if (absl::IsNotFound(checkpoints.status())) continue;  // forgotten meanwhile
      MUSTER_RETURN_IF_ERROR(checkpoints.status());
      take(job, *std::move(checkpoints));
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return absl::OkStatus();
}

absl::StatusOr<Checkpoints> ListCheckpoints(const v1::JobRef& job, Session& session) {
  v1::ListCheckpointsRequest request;
  *request.mutable_job() = job;
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  Checkpoints checkpoints;
  do {
    MUSTER_ASSIGN_OR_RETURN(const v1::ListCheckpointsResponse page,
                            client->Call(&Jobs::ListCheckpoints, request, session.timeout()));
    checkpoints.insert(checkpoints.end(), page.checkpoints().begin(), page.checkpoints().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return checkpoints;
}

absl::StatusOr<v1::CheckpointInfo> FindCheckpoint(const std::string& text, Session& session) {
  if (text.find('@') != std::string::npos) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('@', 1));
    return FindOfJob(parts.first, parts.second, session);
  }
  uint64_t id = 0;
  if (absl::SimpleAtoi(text, &id)) return FindById(id, session);
  return absl::InvalidArgumentError(
      absl::StrCat("checkpoint ", text, ": a checkpoint is ", kCheckpointRefHelp));
}

}  // namespace muster::cli
