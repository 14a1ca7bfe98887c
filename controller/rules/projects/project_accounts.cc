#include "controller/rules/projects/project_accounts.h"

#include <map>
#include <utility>

#include "controller/model/ledger_rules.h"
#include "controller/policy/limits/fair_share.h"

namespace muster::controller {
namespace {

uint32_t SlotsOf(const Attempt& attempt) {
  uint32_t slots = 0;
  for (const Rank& rank : attempt.ranks) slots += rank.slots.size();
  return slots;
}

}  // namespace

ProjectAccount AccountOf(const Snapshot& snapshot, const std::string& name, absl::Duration now,
                         absl::Duration half_life) {
  const absl::Time ledger_now = snapshot.LedgerTime(now);
  ProjectAccount account;
  if (const Project* project = snapshot.FindProject(name)) {
    account.project = *project;
    account.used_slot_seconds = DecayedAt(project->used, ledger_now, half_life);
  }
  account.project.name = name;
  account.use = snapshot.UseOf(name);
  for (uint64_t id : *snapshot.active_jobs) {
    const Job& job = *snapshot.FindJob(id);
    if (!job.has_live_attempt() || job.settings->project != name) continue;
    account.used_slot_seconds +=
        HoldWorth(SlotsOf(*job.current), HeldFrom(*job.current), ledger_now, half_life);
  }
  return account;
}

std::vector<ProjectAccount> AccountsOf(const Snapshot& snapshot, absl::Duration now,
                                       absl::Duration half_life) {
  const absl::Time ledger_now = snapshot.LedgerTime(now);
  std::map<std::string, ProjectAccount> accounts;
  for (const auto& [name, project] : *snapshot.projects) {
    accounts[name].project = *project;
    accounts[name].used_slot_seconds = DecayedAt(project->used, ledger_now, half_life);
  }
  for (const auto& [name, use] : *snapshot.use) accounts[name].use = *use;
  for (uint64_t id : *snapshot.active_jobs) {
    const Job& job = *snapshot.FindJob(id);
    if (!job.has_live_attempt()) continue;
    accounts[job.settings->project].used_slot_seconds +=
        HoldWorth(SlotsOf(*job.current), HeldFrom(*job.current), ledger_now, half_life);
  }
  std::vector<ProjectAccount> out;
  for (auto& [name, account] : accounts) {
    account.project.name = name;
    out.push_back(std::move(account));
  }
  return out;
}

}  // namespace muster::controller
