#include "controller/policy/autoscale/scale_rules.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"

namespace muster::controller {
namespace {

// Of "gpu-12": 12.
std::optional<uint32_t> NumberOf(const std::string& name) {
  const size_t dash = name.rfind('-');
  uint32_t number = 0;
  if (dash == std::string::npos || !absl::SimpleAtoi(name.substr(dash + 1), &number)) return {};
  return number;
}

// The smallest size of the pool that keeps all workers that stay; of a StatefulSet (by_number) the
// highest number of theirs plus one.
uint32_t LeastToKeep(const PoolScaling& scaling, const std::vector<ScaledWorker>& staying) {
  uint32_t least = static_cast<uint32_t>(staying.size());
  if (!scaling.by_number) return least;
  for (const ScaledWorker& worker : staying) {
    // One without a number is none of the set's: nothing is known of what would happen to it.
    least = std::max(least, NumberOf(worker.name).value_or(kMaxPoolWorkers - 1) + 1);
  }
  return least;
}

// The longest idle one first; by number the highest.
void SortByDeparture(bool by_number, std::vector<ScaledWorker>& workers) {
  std::sort(workers.begin(), workers.end(), [&](const ScaledWorker& a, const ScaledWorker& b) {
    if (by_number) {
      const uint32_t number_a = NumberOf(a.name).value_or(kMaxPoolWorkers);
      const uint32_t number_b = NumberOf(b.name).value_or(kMaxPoolWorkers);
      return number_a != number_b ? number_a > number_b : a.name > b.name;
    }
    return a.idle_since != b.idle_since ? a.idle_since < b.idle_since : a.name < b.name;
  });
}

// Who is to be drained, of those that stay.
std::vector<std::string> IdleLongEnough(const PoolScaling& scaling,
                                        std::vector<ScaledWorker> staying, absl::Duration now) {
  SortByDeparture(scaling.by_number, staying);
  std::vector<std::string> names;
  for (const ScaledWorker& worker : staying) {
    if (staying.size() - names.size() <= scaling.min) break;
    const bool may_go = worker.idle() && !worker.kept_out && !worker.leaving &&
                        now - worker.idle_since >= scaling.idle_after &&
                        (!scaling.by_number || NumberOf(worker.name).has_value());
    if (may_go) {
      names.push_back(worker.name);
    } else if (scaling.by_number) {
      break;  // those below it can only go after it
    }
  }
  return names;
}

void FollowShortage(const PoolScaling& scaling, const PoolSight& sight, uint32_t asked,
                    absl::Duration now, PoolMemory& memory) {
  if (sight.shortage == 0) {
    memory.short_since = absl::InfiniteDuration();
  } else {
    memory.short_since = std::min(memory.short_since, now);
  }
  if (asked <= sight.workers.size()) {
    memory.missing_since = absl::InfiniteDuration();
    return;
  }
  if (memory.missing_since == absl::InfiniteDuration()) memory.missing_since = now;
  if (now - memory.missing_since >= scaling.start_within && memory.distrusted_until <= now) {
    memory.distrusted_until = now + scaling.start_within;
    memory.missing_since = memory.distrusted_until;  // then they have as long again
  }
}

}  // namespace

uint32_t RoomFor(const PoolScaling& scaling, size_t workers, absl::Duration now,
                 const PoolMemory& memory) {
  if (now < memory.distrusted_until || workers >= scaling.max) return 0;
  return scaling.max - static_cast<uint32_t>(workers);
}

PoolDecision DecideScale(const PoolScaling& scaling, const PoolSight& sight, absl::Duration now,
                         PoolMemory& memory) {
  PoolDecision decision;
  const auto there = static_cast<uint32_t>(sight.workers.size());
  const uint32_t asked = sight.asked.value_or(memory.asked.value_or(there));
  decision.asked = asked;
  FollowShortage(scaling, sight, asked, now, memory);

  std::vector<ScaledWorker> staying, leaving;
  for (const ScaledWorker& worker : sight.workers) {
    const bool needed = !worker.idle() || sight.wanted_back.count(worker.name) != 0;
    if (worker.leaving && needed) decision.undrain.push_back(worker.name);
    (worker.leaving && !needed ? leaving : staying).push_back(worker);
  }
  // Those that would leave last are kept first: by number a gap cannot be kept.
  SortByDeparture(scaling.by_number, leaving);
  while (!leaving.empty() &&
         (staying.size() < scaling.min || (sight.shortage > 0 && staying.size() < scaling.max))) {
    decision.undrain.push_back(leaving.back().name);
    staying.push_back(leaving.back());
    leaving.pop_back();
  }

  const auto stay = static_cast<uint32_t>(staying.size());
  const bool is_patient = now - memory.short_since >= scaling.patience;
  const bool is_cool = now - memory.changed_at >= scaling.cooldown;
  const uint64_t needed = stay + uint64_t{is_patient ? sight.shortage : 0};
  uint64_t wanted = std::max<uint64_t>(needed, scaling.min);
  // Those that were asked for and have not come are waited for while jobs lack workers.
  if (sight.shortage > 0 || !is_cool) {
    wanted = std::max<uint64_t>(wanted, asked - std::min(asked, there) + stay);
  }
  // More than a pool may have stays while it is busy: nobody is taken from a job.
  wanted = std::max<uint64_t>(std::min<uint64_t>(wanted, scaling.max),
                              std::min(LeastToKeep(scaling, staying), asked));
  if (wanted < asked && !is_cool) wanted = asked;
  decision.wanted = static_cast<uint32_t>(wanted);

  const bool shrinks = wanted < asked;
  for (const ScaledWorker& worker : leaving) {
    const std::optional<uint32_t> number = NumberOf(worker.name);
    const bool goes = shrinks && (!scaling.by_number || (number.has_value() && *number >= wanted));
    (goes ? decision.leaving : decision.staying).push_back(worker.name);
  }
  for (const ScaledWorker& worker : staying) decision.staying.push_back(worker.name);
  if (sight.shortage == 0 && is_cool) decision.drain = IdleLongEnough(scaling, staying, now);
  std::sort(decision.staying.begin(), decision.staying.end());
  return decision;
}

void NoteAsked(uint32_t wanted, absl::Duration now, PoolMemory& memory) {
  if (memory.asked != wanted) memory.changed_at = now;
  memory.asked = wanted;
}

}  // namespace muster::controller
