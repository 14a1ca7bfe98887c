// Checkpoint roots: what agents see of them, who is asked, and what is settled.
#include <memory>
#include <utility>

#include "controller/policy/checkpoints/root_rules.h"
#include "controller/rules/rules.h"

namespace muster::controller {
namespace {

void Settle(Draft& draft, const ReconcileRoots::Settle& found, const RuleContext& context) {
  if (draft.view().roots.Find(found.path) != nullptr) return;
  draft.AddRoot({.path = found.path, .identity = found.identity, .found_by = found.worker});
  if (draft.view().roots_in_use->count(found.path) != 0)
    draft.EditRootInUse(found.path).asked_at = context.now_at;
  const Worker* worker = draft.view().FindWorker(found.worker);
  if (worker == nullptr || worker->pulse.roots == nullptr) return;
  // What it reported while the root had no identity counts from now on.
  TakeRootViews(draft, worker->id, *worker->pulse.roots);
}

void Claim(Draft& draft, const ReconcileRoots::Claim& claim, const RuleContext& context) {
  const bool in_use = draft.view().roots_in_use->count(claim.path) != 0;
  if (!in_use || draft.view().roots.Find(claim.path) != nullptr) return;
  RootInUse& root = draft.EditRootInUse(claim.path);
  root.claimer = claim.worker;
  root.claimed_at = context.now_at;
  // The same for all that try: whoever of them comes first gives the root this name.
  if (root.claim.empty()) {
    root.claim = NewRootIdentity(claim.path, draft.view().term, context.now);
  }
}

void Ask(Draft& draft, const ReconcileRoots::Ask& ask, const RuleContext& context) {
  const Worker* worker = draft.view().FindWorker(ask.worker);
  if (worker == nullptr || !worker->pulse.connected || worker->pulse.stream != ask.stream) return;
  for (const RootToWatch& root : ask.roots) {
    const auto in_use = draft.view().roots_in_use->find(root.path);
    const bool first = in_use != draft.view().roots_in_use->end() && !root.identity.empty() &&
                       in_use->second.asked_at == -absl::InfiniteDuration();
    if (first) draft.EditRootInUse(root.path).asked_at = context.now_at;
  }
  const uint64_t id = worker->id;
  draft.EditPulse(id).watches = std::make_shared<const std::vector<RootToWatch>>(ask.roots);
  draft.WakeLoops();
  draft.after_commit().unstored_messages.push_back(
      {.worker = ask.worker,
       .stream = ask.stream,
       .assignment = {.seq = 0, .body = WatchAssignment{.roots = ask.roots}}});
}

}  // namespace

void TakeRootViews(Draft& draft, uint64_t worker_id, const RootViews& said) {
  auto roots = std::make_shared<RootViews>(said);
  for (auto& [path, view] : *roots) {
    view.seen = !view.identity.empty() && view.identity == draft.view().IdentityOf(path);
  }
  const Worker& worker = *draft.view().workers.Find(worker_id);
  if (worker.pulse.roots != nullptr && *worker.pulse.roots == *roots) return;
  draft.EditPulse(worker_id).roots = std::move(roots);
  draft.WakeLoops();
}

EventResult OnReconcileRoots(Draft& draft, const ReconcileRoots& event,
                             const RuleContext& context) {
  for (const ReconcileRoots::Settle& found : event.settle) Settle(draft, found, context);
  for (const ReconcileRoots::Claim& claim : event.claims) Claim(draft, claim, context);
  for (const ReconcileRoots::Ask& ask : event.asks) Ask(draft, ask, context);
  return {};
}

}  // namespace muster::controller
