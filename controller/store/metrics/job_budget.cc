#include "controller/store/metrics/job_budget.h"

#include <algorithm>

#include "common/base/status_macros.h"

namespace muster::controller {
namespace {

// Dropping goes on until this part of the budget is free, so that it is not done for each row.
constexpr uint64_t kFreePart = 8;
// One transaction drops no more often. After a budget is lowered the excess goes over many of them:
// a long one would hold up the others, and a full disk would undo all of it.
constexpr int kMaxTurns = 64;
constexpr size_t kMaxCounted = 65536;  // jobs

}  // namespace

absl::StatusOr<uint64_t> JobBudget::CountStored(uint64_t job_id) {
  SqliteStatement select = db_.Prepare(count_sql_);
  select.Bind(job_id);
  MUSTER_ASSIGN_OR_RETURN(const bool has_row, select.Step());
  return has_row ? static_cast<uint64_t>(select.Int(0)) : 0;
}

absl::Status JobBudget::Add(uint64_t job_id, uint64_t bytes, IngestCounts& counts) {
  auto it = stored_.find(job_id);
  if (it == stored_.end()) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t counted, CountStored(job_id));
    it = stored_.emplace(job_id, counted).first;
  }
  before_.try_emplace(job_id, it->second);
  if (it->second + bytes > most_) {
    const uint64_t goal = most_ - most_ / kFreePart;
    while (turns_ < kMaxTurns && it->second + bytes > goal && it->second > 0) {
      ++turns_;
      MUSTER_ASSIGN_OR_RETURN(const uint64_t dropped, DropSome(job_id, counts));
      if (dropped == 0) break;
      it->second -= std::min(it->second, dropped);
    }
  }
  it->second += bytes;
  return absl::OkStatus();
}

void JobBudget::Commit() {
  before_.clear();
  turns_ = 0;
  if (stored_.size() > kMaxCounted) stored_.clear();
}

void JobBudget::Rollback() {
  for (const auto& [job_id, bytes] : before_) stored_[job_id] = bytes;
  before_.clear();
  turns_ = 0;
}

}  // namespace muster::controller
