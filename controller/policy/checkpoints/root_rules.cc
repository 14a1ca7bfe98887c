#include "controller/policy/checkpoints/root_rules.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "controller/policy/health/eligibility.h"

namespace muster::controller {
namespace {

// A worker may make a root only if it could run one of so many of the oldest jobs that need it.
constexpr size_t kMaxAskers = 64;

// Folders of checkpoints that the root should hold: of the newest jobs that have any there,
// finished ones among them.
std::vector<std::string> WitnessesOf(const Snapshot& snapshot, const std::string& root) {
  std::deque<std::string> witnesses;
  snapshot.jobs.ForEach([&](const Job& job) {
    if (job.settings->checkpoint_root != root) return;
    for (auto row = job.checkpoints.rbegin(); row != job.checkpoints.rend(); ++row) {
      const Checkpoint& checkpoint = *snapshot.FindCheckpoint(*row);
      if (!checkpoint.restorable()) continue;
      witnesses.push_back(checkpoint.path);
      if (witnesses.size() > kMaxWitnesses) witnesses.pop_front();
      break;
    }
  });
  return {witnesses.begin(), witnesses.end()};
}

// What the oldest jobs that count on the root need; empty: they have all ended.
std::vector<const JobNeeds*> AskersOf(const Snapshot& snapshot, const std::string& root) {
  std::vector<const JobNeeds*> askers;
  for (const uint64_t id : *snapshot.active_jobs) {
    if (askers.size() == kMaxAskers) break;
    const JobNeeds& needs = snapshot.FindJob(id)->settings->needs;
    if (needs.root == root) askers.push_back(&needs);
  }
  return askers;
}

const RootView* ViewOf(const Worker& worker, const std::string& path) {
  if (worker.pulse.roots == nullptr) return nullptr;
  const auto view = worker.pulse.roots->find(path);
  return view == worker.pulse.roots->end() ? nullptr : &view->second;
}

class RootPlanner {
 public:
  RootPlanner(const Snapshot& snapshot, absl::Duration now) : snapshot_(snapshot), now_(now) {}

  RootPlan Run() {
    for (const auto& [path, root] : *snapshot_.roots_in_use) Reconcile(path, root);
    snapshot_.workers.ForEach([this](const Worker& worker) {
      if (worker.pulse.connected) Ask(worker);
    });
    return std::move(plan_);
  }

 private:
  // A root without identity gets one, or waits for its claimer, or gets another claimer.
  void Reconcile(const std::string& path, const RootInUse& root) {
    if (snapshot_.roots.Find(path) != nullptr) return;
    askers_ = AskersOf(snapshot_, path);
    const Worker* claimer = snapshot_.FindWorker(root.claimer);
    if (claimer != nullptr && MayClaim(*claimer, root)) {
      const RootView* view = ViewOf(*claimer, path);
      if (view != nullptr && !view->identity.empty()) {
        plan_.event.settle.push_back(
            {.path = path, .identity = view->identity, .worker = claimer->name});
        return;
      }
      const absl::Duration until = root.claimed_at + kClaimPatience;
      if (view == nullptr && until > now_) {
        plan_.due_at = std::min(plan_.due_at, until);
        return;
      }
    }
    const Worker* next = NextClaimer(root);
    if (next == nullptr || next == claimer) return;
    plan_.event.claims.push_back({.path = path, .worker = next->name});
  }

  // A worker on which no job would be placed may not even have the folder.
  bool MayClaim(const Worker& worker, const RootInUse& root) const {
    if (!TakesWork(worker) || root.jobs.count(worker.facts.pool) == 0) return false;
    return askers_.empty() || std::any_of(askers_.begin(), askers_.end(), [&](const auto* needs) {
             return TakesWork(worker, *needs);
           });
  }

  // The worker after the last one, in a circle; those that could not before come last, when their
  // time is over. They go on trying by themselves while it is their turn.
  const Worker* NextClaimer(const RootInUse& root) {
    const Worker* last = snapshot_.FindWorker(root.claimer);
    const uint64_t after = last == nullptr ? 0 : last->id;
    const Worker* first = nullptr;
    const Worker* next = nullptr;
    snapshot_.workers.ForEach([&](const Worker& worker) {
      if (!MayClaim(worker, root) || &worker == last) return;
      if (first == nullptr) first = &worker;
      if (next == nullptr && worker.id > after) next = &worker;
    });
    const Worker* chosen = next != nullptr ? next : first;
    const bool may_last = last != nullptr && MayClaim(*last, root);
    if (chosen == nullptr || !may_last) return chosen;
    const absl::Duration until = root.claimed_at + kClaimPatience;
    if (until <= now_ || next != nullptr) return chosen;
    // All have been asked: each keeps its turn for as long as one may take.
    plan_.due_at = std::min(plan_.due_at, until);
    return last;
  }

  void Ask(const Worker& worker) {
    std::vector<RootToWatch> wanted;
    for (const auto& [path, root] : *snapshot_.roots_in_use) {
      if (wanted.size() == kMaxRootsInUse) break;  // what an agent may report at a time
      if (root.jobs.count(worker.facts.pool) == 0) continue;
      if (const RootIdentity* known = snapshot_.roots.Find(path)) {
        wanted.push_back({.path = path, .identity = known->identity, .claim = {}, .witnesses = {}});
      } else if (root.claimer == worker.name && !root.claim.empty()) {
        // As first asked: what it is asked changes only with the claim.
        const RootToWatch* asked = Asked(worker, path);
        wanted.push_back(asked != nullptr && asked->claim == root.claim
                             ? *asked
                             : RootToWatch{.path = path,
                                           .identity = {},
                                           .claim = root.claim,
                                           .witnesses = WitnessesOf(snapshot_, path)});
      }
    }
    const bool same =
        worker.pulse.watches == nullptr ? wanted.empty() : *worker.pulse.watches == wanted;
    if (same) return;
    plan_.event.asks.push_back(
        {.worker = worker.name, .stream = worker.pulse.stream, .roots = std::move(wanted)});
  }

  static const RootToWatch* Asked(const Worker& worker, const std::string& path) {
    if (worker.pulse.watches == nullptr) return nullptr;
    for (const RootToWatch& root : *worker.pulse.watches) {
      if (root.path == path) return &root;
    }
    return nullptr;
  }

  const Snapshot& snapshot_;
  const absl::Duration now_;
  std::vector<const JobNeeds*> askers_;  // of the current root
  RootPlan plan_;
};

}  // namespace

RootPlan PlanRoots(const Snapshot& snapshot, absl::Duration now) {
  return RootPlanner(snapshot, now).Run();
}

absl::Duration RootProbesAwaitedUntil(const Snapshot& snapshot, const JobNeeds& needs,
                                      absl::Duration now) {
  constexpr absl::Duration kNever = -absl::InfiniteDuration();
  const auto root = snapshot.roots_in_use->find(needs.root);
  const bool elastic = needs.min_ranks < needs.max_ranks;
  if (!elastic || root == snapshot.roots_in_use->end()) return kNever;
  const absl::Duration until = root->second.asked_at + kRootProbePatience;
  if (until <= now) return kNever;
  bool awaited = false;
  snapshot.workers.ForEach([&](const Worker& worker) {
    awaited |= TakesWork(worker, needs) && ViewOf(worker, needs.root) == nullptr;
  });
  return awaited ? until : kNever;
}

std::string NewRootIdentity(const std::string& path, uint64_t term, absl::Time now) {
  uint64_t state = SplitMix64(static_cast<uint64_t>(absl::ToUnixNanos(now)));
  state = SplitMix64(state ^ term);
  for (const char byte : path) state = SplitMix64(state ^ static_cast<uint8_t>(byte));
  return absl::StrCat(absl::Hex(state, absl::kZeroPad16),
                      absl::Hex(SplitMix64(state ^ path.size()), absl::kZeroPad16));
}

std::string WhyUnseenBy(const Worker& worker, const std::string& root) {
  const RootView* view = ViewOf(worker, root);
  if (view == nullptr) {
    // Agents that cannot watch roots do not report an identity either.
    return worker.identity.empty() ? "its agent is too old to look for it: upgrade muster-worker"
                                   : "it has not looked yet";
  }
  if (!view->message.empty()) return view->message;
  return view->identity.empty() ? "it says no more" : "it sees another root there";
}

std::string WhyRootUnseen(const Snapshot& snapshot, const JobNeeds& needs) {
  const Worker* first = nullptr;  // rather one that said why
  bool said = false;
  uint64_t blind = 0;
  if (!needs.root.empty()) {
    snapshot.workers.ForEach([&](const Worker& worker) {
      if (!TakesWork(worker, needs) || CanUseRoot(worker, needs)) return;
      ++blind;
      const RootView* view = ViewOf(worker, needs.root);
      const bool says = view != nullptr && !view->message.empty();
      if (first != nullptr && (said || !says)) return;
      first = &worker;
      said = says;
    });
  }
  if (first == nullptr) return "";
  // The agent's sentence begins with the root, which is named here already.
  std::string why = WhyUnseenBy(*first, needs.root);
  const std::string prefix = absl::StrCat("checkpoint root ", needs.root, ": ");
  if (why.compare(0, prefix.size(), prefix) == 0) why.erase(0, prefix.size());
  const bool full = SeesRoot(*first, needs);
  return absl::StrCat("its checkpoint root ", needs.root,
                      full ? " cannot be written by worker " : " is not seen by worker ",
                      first->name, " (", why, ")", AndOthers(blind - 1));
}

}  // namespace muster::controller
