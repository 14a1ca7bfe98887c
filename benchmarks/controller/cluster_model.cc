#include "benchmarks/controller/cluster_model.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/rng.h"
#include "controller/rules/rules.h"

namespace muster::benchmarks {
namespace {

using controller::Draft;
using controller::Job;
using controller::JobState;

// Ranks of a gang, and how many of 100 gangs have so many.
struct Demand {
  uint32_t ranks;
  uint32_t share;
};
constexpr Demand kShapes[] = {{1, 50}, {2, 20}, {4, 15}, {8, 10}, {16, 5}};

std::shared_ptr<const controller::JobSettings> MakeSettings(uint32_t ranks) {
  auto settings = std::make_shared<controller::JobSettings>();
  settings->name = absl::StrCat("gang-", ranks);
  settings->project = "default";
  settings->needs.min_ranks = ranks;
  settings->needs.max_ranks = ranks;
  settings->needs.slot_kind = controller::SlotKind::kGpu;
  settings->needs.pools = {{"default", {}}};
  settings->restart = {.max_restarts = 5,
                       .budgets = {},
                       .backoff = absl::Seconds(1),
                       .max_backoff = absl::Minutes(1),
                       .progress_timeout = absl::Minutes(10)};
  settings->checkpoint_root = "/checkpoints";
  settings->spec = "{}";
  return settings;
}

}  // namespace

ClusterModel::ClusterModel(const ClusterSize& size, uint64_t seed) : seed_(seed) {
  for (const Demand& shape : kShapes) shapes_.push_back(MakeSettings(shape.ranks));
  controller::Snapshot empty;
  empty.term = 1;
  Draft draft(empty);
  AddNodes(draft, size);
  AddJobs(draft, size.queued);
  snapshot_ = draft.Finish();
}

void ClusterModel::AddNodes(Draft& draft, const ClusterSize& size) {
  for (uint32_t i = 0; i < size.nodes; ++i) {
    controller::Worker worker;
    worker.name = absl::StrFormat("node-%05d", i);
    worker.incarnation = absl::StrFormat("incarnation%05d", i);
    worker.facts.version = "0";
    worker.facts.pool = "default";
    worker.facts.cpus = 96;
    worker.facts.memory_bytes = uint64_t{1} << 40;
    for (uint32_t slot = 0; slot < size.slots_per_node; ++slot) {
      worker.facts.slots.push_back({.index = slot,
                                    .kind = controller::SlotKind::kGpu,
                                    .device = "H100",
                                    .uuid = absl::StrCat("GPU-", i, "-", slot),
                                    .memory_bytes = uint64_t{80} << 30});
    }
    worker.pulse.suspect = false;
    worker.pulse.connected = true;
    worker.pulse.stream = i + 1;
    worker.pulse.last_seen_at = now();
    draft.AddWorker(std::move(worker));
  }
}

void ClusterModel::AddJobs(Draft& draft, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t left = SplitMix64(seed_ + ++drawn_) % 100;
    size_t shape = 0;
    while (left >= kShapes[shape].share) left -= kShapes[shape++].share;
    Job job;
    job.settings = shapes_[shape];
    job.owner = "ann";
    job.submitted = absl::UnixEpoch();
    job.message = "queued";
    job.not_before_at = now();
    draft.AddJob(std::move(job));
  }
}

uint64_t ClusterModel::Apply(const controller::Plan& plan, bool keep) {
  const controller::IdempotencyIndex no_keys;
  const controller::RuleContext context{
      .now = absl::UnixEpoch(), .now_at = now(), .idempotency = &no_keys};
  Draft draft(*snapshot_);
  const controller::EventResult result =
      Reduce(draft, controller::ApplyPlan{.plan = plan}, context);
  MUSTER_CHECK(result.status.ok(), "the rules refused the scheduler's plan");
  uint64_t placed = 0;
  std::vector<uint64_t> started;
  for (const controller::PlaceGang& gang : plan.place) {
    if (draft.view().FindJob(gang.job_id)->state != JobState::kStarting) continue;
    ++placed;
    started.push_back(gang.job_id);
  }
  std::shared_ptr<const controller::Snapshot> next = draft.Finish();
  if (keep) {
    snapshot_ = std::move(next);
    running_.insert(running_.end(), started.begin(), started.end());
  }
  return placed;
}

void ClusterModel::EndJob(Draft& draft, uint64_t job_id) {
  const controller::Attempt& placed = *draft.view().FindJob(job_id)->current;
  for (const controller::Rank& rank : placed.ranks) {
    controller::WorkerPulse& pulse = draft.EditPulse(draft.view().FindWorker(rank.worker)->id);
    for (uint32_t slot : rank.slots) pulse.holders.erase(slot);
  }
  controller::Attempt& attempt = draft.EditAttempt(job_id);
  attempt.ended = absl::UnixEpoch();
  for (controller::Rank& rank : attempt.ranks) {
    rank.state = controller::RankState::kExited;
    rank.succeeded = true;
    rank.holds_slots = false;
  }
  Job& job = draft.EditJob(job_id);
  job.state = JobState::kSucceeded;
  job.finished = absl::UnixEpoch();
}

void ClusterModel::Replace(uint32_t gangs) {
  Draft draft(*snapshot_);
  for (uint32_t i = 0; i < gangs && first_running_ < running_.size(); ++i) {
    EndJob(draft, running_[first_running_++]);
  }
  // Agents have long acknowledged what they were sent.
  std::vector<uint64_t> told;
  snapshot_->outbox.ForEach([&told](const controller::OutboxRow& row) { told.push_back(row.seq); });
  for (uint64_t seq : told) draft.RemoveOutbox(seq);
  AddJobs(draft, gangs);
  snapshot_ = draft.Finish();
}

}  // namespace muster::benchmarks
