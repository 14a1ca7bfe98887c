#include "controller/engine/assignment_maker.h"

#include <string>
#include <utility>

#include "common/base/check.h"

namespace muster::controller {

const AssignmentMaker::Groups& AssignmentMaker::GroupsOf(const Attempt& attempt) {
  const auto [it, is_new] = groups_.try_emplace({attempt.job_id, attempt.number});
  if (is_new) {
    for (const Rank& rank : attempt.ranks) {
      const uint32_t next = it->second.size();
      const auto [group, is_first] = it->second.try_emplace(rank.worker);
      if (is_first) group->second.number = next;
      group->second.ranks.push_back(rank.rank);
    }
  }
  return it->second;
}

StartAssignment AssignmentMaker::MakeStart(const OutboxRow& row) {
  const Job* job = snapshot_.FindJob(row.fence.job_id);
  MUSTER_CHECK(
      job != nullptr && job->current != nullptr && job->current->number == row.fence.attempt,
      "a start assignment outlived its attempt");
  const Attempt& attempt = *job->current;
  StartAssignment start;
  start.fence = row.fence;
  start.job_name = job->settings->name;
  start.world_size = attempt.ranks.size();
  start.spec = job->settings->spec;
  start.checkpoint_root = job->checkpoint_folder();
  start.root = job->settings->needs.root;
  start.root_identity = snapshot_.IdentityOf(start.root);
  start.array_id = job->array.array_id;
  start.array_index = job->array.index;
  const Groups& groups = GroupsOf(attempt);
  const Group& group = groups.at(row.worker);
  for (uint32_t number : group.ranks) {
    const Rank& rank = attempt.ranks[number];
    start.ranks.push_back({.rank = rank.rank, .local_rank = rank.local_rank, .slots = rank.slots});
  }
  start.group_rank = group.number;
  start.group_world_size = groups.size();
  for (uint64_t id : attempt.resume) {
    const Checkpoint* checkpoint = snapshot_.FindCheckpoint(id);
    MUSTER_CHECK(checkpoint != nullptr, "an attempt resumes from an unknown checkpoint");
    const Job& writer = *snapshot_.FindJob(checkpoint->job_id);
    const bool own = writer.id == job->id;
    start.resume.push_back({.path = checkpoint->path,
                            .step = checkpoint->step,
                            .manifest_sha256 = checkpoint->manifest_sha256,
                            .best = checkpoint->best,
                            .job_id = own ? 0 : writer.id,
                            .job_name = own ? "" : writer.settings->name});
  }
  return start;
}

Assignment AssignmentMaker::Make(const OutboxRow& row) {
  Assignment assignment{.seq = row.seq, .body = {}};
  switch (row.kind) {
    case AssignmentKind::kStart:
      assignment.body = MakeStart(row);
      break;
    case AssignmentKind::kStop:
      assignment.body = StopAssignment{row.fence, row.mode, row.grace, row.reason};
      break;
    case AssignmentKind::kVerify:
    case AssignmentKind::kDelete: {
      const Checkpoint* checkpoint = snapshot_.FindCheckpoint(row.checkpoint_id);
      MUSTER_CHECK(checkpoint != nullptr, "an assignment names an unknown checkpoint");
      const std::string& root = snapshot_.FindJob(checkpoint->job_id)->settings->needs.root;
      std::string identity = snapshot_.IdentityOf(root);
      if (row.kind == AssignmentKind::kVerify) {
        assignment.body = VerifyAssignment{checkpoint->id, checkpoint->path,
                                           checkpoint->manifest_sha256, root, std::move(identity)};
      } else {
        assignment.body =
            DeleteAssignment{checkpoint->id, checkpoint->path, root, std::move(identity)};
      }
      break;
    }
  }
  return assignment;
}

}  // namespace muster::controller
