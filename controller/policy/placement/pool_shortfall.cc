#include "controller/policy/placement/pool_shortfall.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/units.h"
#include "controller/policy/checkpoints/root_rules.h"
#include "controller/policy/health/data_sight.h"
#include "controller/policy/health/eligibility.h"

namespace muster::controller {
namespace {

// Names that one message holds at most.
constexpr size_t kMaxNames = 5;

// How many ranks fit, counted in three ways, and all together.
struct Ranks {
  uint64_t by_slots = 0;
  uint64_t with_cpus = 0;
  uint64_t with_memory = 0;
  uint64_t in_all = 0;
};

struct Tally {
  // Of workers that take work and suit the job.
  uint32_t workers = 0;
  uint64_t free_slots = 0;
  uint64_t slots = 0;
  uint64_t free_cpus = 0;
  uint64_t free_memory = 0;
  Ranks now;
  uint64_t idle_ranks = 0;
  // Of workers that suit it and take nothing now.
  std::vector<std::string> away;  // "w3 (drained)"
  uint64_t away_slots = 0;
  uint64_t away_ranks = 0;       // if they took work
  uint64_t away_idle_ranks = 0;  // and were idle
  // Free slots of its kind that are not for it.
  uint64_t unlabelled = 0;
  uint64_t excluded = 0;
  uint64_t other_models = 0;
  uint64_t no_commands = 0;
  uint64_t no_images = 0;
};

std::string WhyAway(const Worker& worker) {
  if (worker.lost) return "lost";
  if (worker.draining) return "leaving";
  if (worker.cordoned) return "drained";
  if (worker.quarantined()) return "in quarantine";
  return worker.presence() == Presence::kSuspect ? "silent" : "not connected";
}

bool IsExcluded(const Worker& worker, const JobNeeds& needs) {
  return std::find(needs.exclude.begin(), needs.exclude.end(), worker.name) != needs.exclude.end();
}

struct FreeSlots {
  uint64_t matching = 0;
  uint64_t other_models = 0;
  uint64_t all = 0;  // matching, free or not
};

FreeSlots CountSlots(const Worker& worker, const JobNeeds& needs) {
  FreeSlots count;
  for (const Slot& slot : worker.facts.slots) {
    if (slot.kind != needs.slot_kind) continue;
    const bool is_free = worker.pulse.holders.count(slot.index) == 0;
    const bool matches = SlotMatches(slot, needs);
    count.all += matches;
    count.matching += is_free && matches;
    count.other_models += is_free && !matches;
  }
  return count;
}

// How many ranks fit on what is free there; adds what that is to the tally.
Ranks CountFree(const Worker& worker, const JobNeeds& needs, uint64_t free_slots, Tally& tally) {
  uint64_t cpus = worker.facts.cpus;
  uint64_t memory = worker.facts.memory_bytes;
  for (const auto& [slot, holder] : worker.pulse.holders) {
    cpus -= std::min<uint64_t>(cpus, holder.cpus);
    memory -= std::min(memory, holder.memory_bytes);
  }
  tally.free_cpus += cpus;
  tally.free_memory += memory;
  Ranks ranks;
  ranks.by_slots = free_slots / needs.slots_per_rank;
  ranks.with_cpus = needs.cpus_per_rank == 0 ? ranks.by_slots
                                             : std::min(ranks.by_slots, cpus / needs.cpus_per_rank);
  ranks.with_memory = needs.memory_per_rank == 0
                          ? ranks.by_slots
                          : std::min(ranks.by_slots, memory / needs.memory_per_rank);
  ranks.in_all = std::min(ranks.with_cpus, ranks.with_memory);
  return ranks;
}

void CountWorker(const Worker& worker, const JobNeeds& needs, const DataSight& data, Tally& tally) {
  const FreeSlots slots = CountSlots(worker, needs);
  const bool takes_work = TakesWork(worker);
  if (!IsEligible(worker, needs)) {
    if (!takes_work) return;
    const uint64_t free = slots.matching + slots.other_models;
    if (needs.commands && !worker.facts.allows_commands) {
      tally.no_commands += free;
    } else if (!RunsImage(worker, needs)) {
      tally.no_images += free;
    } else if (IsExcluded(worker, needs)) {
      tally.excluded += free;
    } else if (slots.all > 0) {
      tally.unlabelled += free;
    } else {
      tally.other_models += free;
    }
    return;
  }
  if (slots.all == 0) return;
  if (!takes_work || !CanUseRoot(worker, needs) || data.RulesOut(worker)) {
    Tally ignored;
    const std::string why = !takes_work                  ? WhyAway(worker)
                            : !CanUseRoot(worker, needs) ? WhyUnseenBy(worker, needs.root)
                                                         : data.WhyRuledOut(worker);
    tally.away.push_back(absl::StrCat(worker.name, " (", why, ")"));
    tally.away_slots += slots.all;
    tally.away_ranks += CountFree(worker, needs, slots.matching, ignored).in_all;
    tally.away_idle_ranks += IdleRanks(worker, needs);
    return;
  }
  ++tally.workers;
  tally.slots += slots.all;
  tally.free_slots += slots.matching;
  tally.other_models += slots.other_models;
  const Ranks ranks = CountFree(worker, needs, slots.matching, tally);
  tally.now.by_slots += ranks.by_slots;
  tally.now.with_cpus += ranks.with_cpus;
  tally.now.with_memory += ranks.with_memory;
  tally.now.in_all += ranks.in_all;
  tally.idle_ranks += IdleRanks(worker, needs);
}

std::string Count(uint64_t count, const char* noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

// The blockers of one pool, named by its tally.
class ShortfallNaming {
 public:
  ShortfallNaming(const Tally& tally, const JobNeeds& needs, const std::string& pool)
      : tally_(tally),
        needs_(needs),
        pool_(pool),
        ranks_(needs.min_ranks),
        slot_(needs.slot_kind == SlotKind::kGpu ? "GPU slot" : "CPU slot") {}

  std::vector<Blocker> Run() {
    const bool enough_when_idle = tally_.idle_ranks >= ranks_;
    if (!enough_when_idle) TooFewWorkers();
    if (enough_when_idle || tally_.now.in_all + tally_.away_ranks < ranks_) TooLittleFree();
    NotForIt();
    if (enough_when_idle && !tally_.away.empty()) {
      Add({.kind = BlockerKind::kWorkers,
           .is_hint = true,
           .message =
               absl::StrCat(Away(), tally_.away.size() == 1 ? " takes" : " take", " nothing now"),
           .available = absl::StrCat(Count(tally_.away_slots, slot_), " there")});
    }
    return std::move(out_);
  }

 private:
  void Add(Blocker blocker) {
    blocker.pool = pool_;
    out_.push_back(std::move(blocker));
  }

  std::string Away() const {
    const size_t shown = std::min(tally_.away.size(), kMaxNames);
    std::string names = absl::StrJoin(tally_.away.begin(), tally_.away.begin() + shown, ", ");
    const size_t more = tally_.away.size() - shown;
    if (more > 0) absl::StrAppend(&names, " and ", Count(more, "more worker"));
    return names;
  }

  std::string Needed() const {
    return needs_.slots_per_rank == 1
               ? Count(ranks_, slot_)
               : absl::StrCat(Count(ranks_, "rank"), " of ", Count(needs_.slots_per_rank, slot_));
  }

  // Even idle ones could not hold it.
  void TooFewWorkers() {
    const bool would_do = tally_.idle_ranks + tally_.away_idle_ranks >= ranks_;
    std::string message =
        would_do ? absl::StrCat("it fits only with ", Away())
                 : absl::StrCat("the workers of pool ", pool_, " could never hold it",
                                tally_.away.empty() ? "" : absl::StrCat(", with ", Away()));
    Add({.kind = BlockerKind::kWorkers,
         .message = std::move(message),
         .needed = Needed(),
         .available = absl::StrCat("room for ", Count(tally_.idle_ranks, "rank"), " on ",
                                   Count(tally_.workers, "ready worker"), " when idle")});
  }

  void TooLittleFree() {
    const Ranks& now = tally_.now;
    const bool slots = now.by_slots < ranks_;
    // Where one worker lacks CPUs and another memory, either alone would have sufficed.
    const bool both = now.with_cpus >= ranks_ && now.with_memory >= ranks_;
    if (slots) {
      const bool scattered = tally_.free_slots >= uint64_t{needs_.slots_per_rank} * ranks_;
      Add({.kind = BlockerKind::kSlots,
           .message = absl::StrCat("pool ", pool_, " has too few free ", slot_, "s",
                                   scattered ? " on one worker" : ""),
           .needed = Needed(),
           .available =
               absl::StrCat(tally_.free_slots, " of ", tally_.slots, " free on ",
                            Count(tally_.workers, "ready worker"),
                            scattered ? absl::StrCat(", for ", Count(now.by_slots, "rank")) : "")});
    }
    if (!slots && (now.with_cpus < ranks_ || both)) {
      Add({.kind = BlockerKind::kCpus,
           .message =
               absl::StrCat("workers of pool ", pool_, " with free slots have too few CPUs left"),
           .needed = absl::StrCat(ranks_, " x ", Count(needs_.cpus_per_rank, "CPU")),
           .available =
               absl::StrCat(tally_.free_cpus, " left, for ", Count(now.with_cpus, "rank"))});
    }
    if (!slots && (now.with_memory < ranks_ || both)) {
      Add({.kind = BlockerKind::kMemory,
           .message = absl::StrCat("workers of pool ", pool_,
                                   " with free slots have too little memory left"),
           .needed =
               absl::StrCat(ranks_, " x ", HumanBytes(static_cast<double>(needs_.memory_per_rank))),
           .available = absl::StrCat(HumanBytes(static_cast<double>(tally_.free_memory)),
                                     " left, for ", Count(now.with_memory, "rank"))});
    }
  }

  void NotForIt() {
    const auto hint = [this](BlockerKind kind, uint64_t slots, std::string message,
                             std::string needed) {
      if (slots == 0) return;
      Add({.kind = kind,
           .is_hint = true,
           .message = std::move(message),
           .needed = std::move(needed),
           .available = absl::StrCat(Count(slots, "free slot"), " there")});
    };
    hint(BlockerKind::kLabels, tally_.unlabelled, "workers lack a label that it asks for",
         absl::StrJoin(needs_.selector, ", ", absl::PairFormatter("=")));
    hint(BlockerKind::kExcluded, tally_.excluded, "workers that it excludes",
         absl::StrCat("not ", absl::StrJoin(needs_.exclude, ", ")));
    hint(BlockerKind::kCommands, tally_.no_commands, "workers that run no commands",
         "muster-worker --allow-commands");
    const bool file = needs_.image == JobNeeds::Image::kFile;
    hint(BlockerKind::kImages, tally_.no_images,
         absl::StrCat("workers without ", file ? "apptainer" : "a container runtime"),
         file ? "apptainer" : "podman or apptainer");
    hint(BlockerKind::kGpuType, tally_.other_models, "GPUs of another model", needs_.gpu_type);
  }

  const Tally& tally_;
  const JobNeeds& needs_;
  const std::string& pool_;
  const uint64_t ranks_;
  const char* const slot_;
  std::vector<Blocker> out_;
};

}  // namespace

std::vector<Blocker> ShortfallInPool(const Snapshot& snapshot, const JobNeeds& needs,
                                     const std::string& pool) {
  Tally tally;
  const DataSight data(needs.data, snapshot);
  snapshot.workers.ForEach([&](const Worker& worker) {
    if (worker.facts.pool == pool) CountWorker(worker, needs, data, tally);
  });
  if (tally.now.in_all >= needs.min_ranks) return {};
  return ShortfallNaming(tally, needs, pool).Run();
}

}  // namespace muster::controller
