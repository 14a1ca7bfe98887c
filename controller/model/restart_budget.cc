#include "controller/model/restart_budget.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace muster::controller {

RestartBudget RestartBudgetOf(const Job& job, FailureClass kind) {
  const RestartSettings& restart = job.settings->restart;
  const auto charged = job.charged.find(kind);
  RestartBudget budget{.kind = kind, .used = charged == job.charged.end() ? 0 : charged->second};
  const std::string name = absl::AsciiStrToLower(FailureClassName(kind));
  const auto own = restart.budgets.find(kind);
  if (own != restart.budgets.end()) {
    budget.limit = own->second;
    budget.key = absl::StrCat("restart.budgets.", name);
    return budget;
  }
  if (kind == FailureClass::kOutOfMemory || kind == FailureClass::kDataError) {
    budget.given = false;
    budget.key = absl::StrCat("restart.budgets.", name);
    return budget;
  }
  budget.shared = true;
  budget.limit = restart.max_restarts;
  budget.key = "restart.max_restarts";
  budget.used = job.restarts_in_row;
  for (const auto& [other, count] : job.charged) {
    if (restart.budgets.count(other) != 0) budget.used -= std::min(budget.used, count);
  }
  return budget;
}

std::vector<RestartBudget> RestartBudgetsOf(const Job& job) {
  std::vector<RestartBudget> budgets;
  for (const FailureClass kind :
       {FailureClass::kWorkerLost, FailureClass::kHang, FailureClass::kOutOfMemory,
        FailureClass::kNonFinite, FailureClass::kDataError, FailureClass::kCheckpointFailed,
        FailureClass::kCorruption, FailureClass::kApplication, FailureClass::kStartFailed,
        FailureClass::kRankKilled, FailureClass::kPeerLost}) {
    budgets.push_back(RestartBudgetOf(job, kind));
  }
  return budgets;
}

void RefillBudgets(Job& job) {
  job.restarts_in_row = 0;
  job.charged.clear();
}

}  // namespace muster::controller
