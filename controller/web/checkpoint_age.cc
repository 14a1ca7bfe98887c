#include "controller/web/checkpoint_age.h"

#include <algorithm>

#include "common/spec/packed_spec.h"
#include "controller/model/ledger_rules.h"

namespace muster::controller {
namespace {

CheckpointRule ReadRule(const JobSettings& settings) {
  const v1::JobSpec spec = UnpackSpec(settings.spec);
  if (!spec.has_train()) return {};
  const v1::Checkpoint& checkpoint = spec.checkpoint();
  return {.every_steps = checkpoint.every_steps(),
          .every_epochs = checkpoint.every_epochs(),
          .every = absl::Seconds(checkpoint.every().seconds()) +
                   absl::Nanoseconds(checkpoint.every().nanos())};
}

}  // namespace

std::optional<double> CheckpointAgeRatio(const Snapshot& snapshot, const Job& job,
                                         const CheckpointRule& rule, absl::Time now) {
  if (job.state != JobState::kRunning || !job.has_live_attempt()) return std::nullopt;
  const bool saves = rule.every_steps > 0 || rule.every_epochs > 0 || rule.every > absl::Duration();
  if (!saves) return std::nullopt;
  absl::Time saved = HeldFrom(*job.current);
  int64_t step = job.current->first_step;
  double epoch = 0;
  for (auto id = job.checkpoints.rbegin(); id != job.checkpoints.rend(); ++id) {
    const Checkpoint* checkpoint = snapshot.FindCheckpoint(*id);
    if (checkpoint == nullptr || !checkpoint->restorable()) continue;
    saved = std::max(saved, CreatedAt(*checkpoint));
    step = checkpoint->step;
    epoch = checkpoint->epoch;
    break;
  }
  double ratio = 0;
  if (rule.every_steps > 0) {
    ratio = static_cast<double>(job.progress.step - step) / static_cast<double>(rule.every_steps);
  }
  if (rule.every_epochs > 0) {
    ratio = std::max(ratio, (job.progress.epoch - epoch) / rule.every_epochs);
  }
  if (rule.every > absl::Duration()) {
    ratio = std::max(ratio, absl::FDivDuration(now - saved, rule.every));
  }
  return std::max(ratio, 0.0);
}

CheckpointRule CheckpointRules::Of(const Job& job) {
  MutexLock lock(mutex_);
  const auto found = known_.find(job.id);
  if (found != known_.end() && found->second.settings.lock() == job.settings) {
    return found->second.rule;
  }
  if (known_.size() >= kMost) known_.clear();
  const CheckpointRule rule = ReadRule(*job.settings);
  known_[job.id] = {job.settings, rule};
  return rule;
}

}  // namespace muster::controller
