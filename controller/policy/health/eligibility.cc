#include "controller/policy/health/eligibility.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster::controller {
namespace {

std::string Plural(uint64_t count, const char* noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

bool InPools(const Worker& worker, const JobNeeds& needs) {
  return std::any_of(needs.pools.begin(), needs.pools.end(), [&worker](const JobNeeds::Pool& pool) {
    return pool.name == worker.facts.pool;
  });
}

std::string PoolNames(const JobNeeds& needs) {
  return absl::StrJoin(needs.pools, " or ", [](std::string* out, const JobNeeds::Pool& pool) {
    out->append(pool.name);
  });
}

constexpr char kNoCommands[] =
    "refused: no worker runs users' own code (commands, plug-ins, TorchScript files): start "
    "muster-worker with --allow-commands";

std::string NoRuntime(const JobNeeds& needs) {
  return absl::StrCat("refused: no worker that allows commands runs ",
                      needs.image == JobNeeds::Image::kFile
                          ? "images from files: install apptainer there"
                          : "container images: install podman or apptainer there",
                      " (muster-worker --container-runtime)");
}

// What the workers in the job's pools are, as far as the job asks for it: for a refusal.
struct Supply {
  uint64_t slots = 0;  // on one worker, likewise CPUs and memory
  uint64_t cpus = 0;
  uint64_t memory_bytes = 0;
  std::set<std::string> models;
  uint32_t labelled = 0;  // workers with all labels
  uint32_t excluded = 0;

  void Add(const Worker& worker, const JobNeeds& needs) {
    uint64_t of_kind = 0;
    for (const Slot& slot : worker.facts.slots) {
      of_kind += slot.kind == needs.slot_kind;
      if (slot.kind == needs.slot_kind) models.insert(slot.device);
    }
    slots = std::max(slots, of_kind);
    cpus = std::max<uint64_t>(cpus, worker.facts.cpus);
    memory_bytes = std::max(memory_bytes, worker.facts.memory_bytes);
    JobNeeds labels;
    labels.selector = needs.selector;
    labelled += IsEligible(worker, labels);
    excluded += std::count(needs.exclude.begin(), needs.exclude.end(), worker.name) != 0;
  }

  // "one has at most 8 GPU slots (A100) and 16 CPUs; 2 have the labels"
  std::string Text(const JobNeeds& needs) const {
    constexpr size_t kMaxModels = 4;
    const char* slot = needs.slot_kind == SlotKind::kGpu ? "GPU slot" : "CPU slot";
    std::string text = absl::StrCat("one has at most ", Plural(slots, slot));
    if (!needs.gpu_type.empty() && !models.empty()) {
      const auto end = std::next(models.begin(), std::min(models.size(), kMaxModels));
      absl::StrAppend(&text, " (", absl::StrJoin(models.begin(), end, ", "), ")");
    }
    if (needs.cpus_per_rank > 0) absl::StrAppend(&text, ", ", Plural(cpus, "CPU"));
    if (needs.memory_per_rank > 0) {
      absl::StrAppend(&text, ", ", memory_bytes >> 20, " MiB of memory");
    }
    if (!needs.selector.empty()) {
      absl::StrAppend(&text, "; ", labelled, labelled == 1 ? " has" : " have", " the labels");
    }
    if (excluded > 0) absl::StrAppend(&text, "; ", excluded, " excluded");
    return text;
  }
};

// Most jobs fit on the first workers: then the others are not looked at.
bool FitsInOnePool(const Snapshot& snapshot, const JobNeeds& needs, absl::Duration now) {
  std::map<std::string, uint64_t> ranks;  // by pool
  return snapshot.workers.AnyOf([&](const Worker& worker) {
    if (IsLostForGood(worker, now) || !InPools(worker, needs)) return false;
    uint64_t& of_pool = ranks[worker.facts.pool];
    of_pool += IdleRanks(worker, needs);
    return of_pool >= std::max(needs.min_ranks, 1u);
  });
}

}  // namespace

bool IsLostForGood(const Worker& worker, absl::Duration now) {
  return worker.lost && now - worker.pulse.last_seen_at > kMayReturnWithin;
}

bool IsUsable(const Worker& worker) { return !worker.lost && !worker.draining && !worker.cordoned; }

bool TakesWork(const Worker& worker) {
  return worker.pulse.connected && worker.presence() == Presence::kReady && IsUsable(worker) &&
         !worker.quarantined();
}

bool TakesWork(const Worker& worker, const JobNeeds& needs) {
  return TakesWork(worker) && InPools(worker, needs) && IsEligible(worker, needs);
}

bool SlotMatches(const Slot& slot, const JobNeeds& needs) {
  return slot.kind == needs.slot_kind &&
         (needs.gpu_type.empty() || absl::StrContains(absl::AsciiStrToLower(slot.device),
                                                      absl::AsciiStrToLower(needs.gpu_type)));
}

bool HasSlot(const Worker& worker, uint32_t index, SlotKind kind) {
  return std::any_of(worker.facts.slots.begin(), worker.facts.slots.end(),
                     [&](const Slot& slot) { return slot.index == index && slot.kind == kind; });
}

bool RunsImage(const Worker& worker, const JobNeeds& needs) {
  const std::vector<std::string>& runtimes = worker.facts.container_runtimes;
  switch (needs.image) {
    case JobNeeds::Image::kNone:
      return true;
    case JobNeeds::Image::kReference:
      return !runtimes.empty();
    case JobNeeds::Image::kFile:
      return std::find(runtimes.begin(), runtimes.end(), "apptainer") != runtimes.end();
  }
  return false;
}

bool IsEligible(const Worker& worker, const JobNeeds& needs) {
  if (needs.commands && !worker.facts.allows_commands) return false;
  if (!RunsImage(worker, needs)) return false;
  const auto& labels = worker.facts.labels;
  const bool labelled =
      std::all_of(needs.selector.begin(), needs.selector.end(), [&labels](const auto& label) {
        const auto it = labels.find(label.first);
        return it != labels.end() && it->second == label.second;
      });
  if (!labelled) return false;
  if (std::find(needs.exclude.begin(), needs.exclude.end(), worker.name) != needs.exclude.end()) {
    return false;
  }
  const std::vector<Slot>& slots = worker.facts.slots;
  return needs.gpu_type.empty() || std::any_of(slots.begin(), slots.end(), [&](const Slot& slot) {
           return SlotMatches(slot, needs);
         });
}

uint32_t IdleRanks(const Worker& worker, const JobNeeds& needs) {
  if (!IsEligible(worker, needs)) return 0;
  uint64_t slots = 0;
  for (const Slot& slot : worker.facts.slots) slots += SlotMatches(slot, needs);
  uint64_t ranks = slots / needs.slots_per_rank;
  if (needs.cpus_per_rank > 0) {
    ranks = std::min<uint64_t>(ranks, worker.facts.cpus / needs.cpus_per_rank);
  }
  if (needs.memory_per_rank > 0) {
    ranks = std::min(ranks, worker.facts.memory_bytes / needs.memory_per_rank);
  }
  return ranks;
}

bool HasCpusAndMemory(const Worker& worker, const JobNeeds& needs, uint32_t ranks) {
  uint64_t cpus = uint64_t{ranks} * needs.cpus_per_rank;
  uint64_t memory_bytes = ranks * needs.memory_per_rank;
  if (cpus == 0 && memory_bytes == 0) return true;
  for (const auto& [slot, holder] : worker.pulse.holders) {
    cpus += holder.cpus;
    memory_bytes += holder.memory_bytes;
  }
  return (needs.cpus_per_rank == 0 || cpus <= worker.facts.cpus) &&
         (needs.memory_per_rank == 0 || memory_bytes <= worker.facts.memory_bytes);
}

Capacity CountCapacity(const Snapshot& snapshot, const JobNeeds& needs) {
  Capacity capacity;
  snapshot.workers.ForEach([&](const Worker& worker) {
    if (!InPools(worker, needs) || !IsEligible(worker, needs)) return;
    const bool takes_work = TakesWork(worker);
    const bool usable = IsUsable(worker);
    bool has_slots = false;
    for (const Slot& slot : worker.facts.slots) {
      if (!SlotMatches(slot, needs)) continue;
      has_slots = true;
      capacity.usable_slots += usable;
      capacity.free_slots += takes_work && worker.pulse.holders.count(slot.index) == 0;
    }
    capacity.ready_workers += takes_work && has_slots;
  });
  return capacity;
}

std::string AndOthers(uint64_t count) {
  return count == 0 ? "" : absl::StrCat(" and ", count, count == 1 ? " other" : " others");
}

std::string DescribeNeeds(const JobNeeds& needs) {
  const char* slot = needs.slot_kind == SlotKind::kGpu ? "GPU slot" : "CPU slot";
  std::string text = needs.slots_per_rank == 1
                         ? Plural(needs.min_ranks, slot)
                         : absl::StrCat(Plural(needs.min_ranks, "rank"), " of ",
                                        Plural(needs.slots_per_rank, slot));
  if (!needs.gpu_type.empty()) absl::StrAppend(&text, " (", needs.gpu_type, ")");
  if (needs.cpus_per_rank > 0) {
    absl::StrAppend(&text, " with ", Plural(needs.cpus_per_rank, "CPU"), " a rank");
  }
  if (needs.memory_per_rank > 0) {
    absl::StrAppend(&text, needs.cpus_per_rank > 0 ? " and " : " with ",
                    (needs.memory_per_rank + (1 << 20) - 1) >> 20, " MiB of memory a rank");
  }
  absl::StrAppend(&text, " in pool ", PoolNames(needs));
  if (!needs.selector.empty()) {
    absl::StrAppend(
        &text, " (labels: ", absl::StrJoin(needs.selector, ", ", absl::PairFormatter("=")), ")");
  }
  return text;
}

std::string DescribeAvailable(const Capacity& capacity) {
  return absl::StrCat(capacity.free_slots, " of ", capacity.usable_slots, " free on ",
                      Plural(capacity.ready_workers, "ready worker"));
}

absl::Status CanEverFit(const Snapshot& snapshot, const JobNeeds& needs, absl::Duration now) {
  if (needs.wait_for_capacity || FitsInOnePool(snapshot, needs, now)) return absl::OkStatus();
  std::map<std::string, uint64_t> ranks;    // by pool
  std::map<std::string, uint32_t> workers;  // by pool, whatever they offer
  bool commands = false;                    // whether anybody allows them
  bool images = false;                      // and can run this one's
  Supply supply;
  snapshot.workers.ForEach([&](const Worker& worker) {
    if (IsLostForGood(worker, now)) return;
    ++workers[worker.facts.pool];
    commands = commands || worker.facts.allows_commands;
    images = images || (worker.facts.allows_commands && RunsImage(worker, needs));
    if (!InPools(worker, needs)) return;
    ranks[worker.facts.pool] += IdleRanks(worker, needs);
    supply.Add(worker, needs);
  });
  // Before the first worker has come nothing is refused; later a pool without any is a mistake.
  if (workers.empty()) return absl::OkStatus();
  if (needs.commands && !commands) return absl::FailedPreconditionError(kNoCommands);
  if (needs.image != JobNeeds::Image::kNone && !images) {
    return absl::FailedPreconditionError(NoRuntime(needs));
  }
  uint64_t most = 0;
  uint32_t candidates = 0;
  for (const auto& [pool, count] : ranks) {
    most = std::max(most, count);
    candidates += workers[pool];
  }
  if (most >= needs.min_ranks) return absl::OkStatus();
  if (candidates == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "refused: pool ", PoolNames(needs), " has no workers; those with workers: ",
        absl::StrJoin(workers, ", ",
                      [](std::string* out, const auto& pool) { out->append(pool.first); }),
        "; or set placement.wait_for_capacity: true"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "refused: needs ", DescribeNeeds(needs), ", but its ", Plural(candidates, "worker"),
      " could give at most ", Plural(most, "rank"),
      needs.image != JobNeeds::Image::kNone
          ? " of a command in a container (those with --allow-commands and a runtime for it)"
      : needs.commands ? " of a command (those with --allow-commands)"
                       : "",
      " (", supply.Text(needs),
      "); ask for fewer ranks, add workers, or set placement.wait_for_capacity: true"));
}

}  // namespace muster::controller
