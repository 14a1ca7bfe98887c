#include "controller/access/audit_fold.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::controller {
namespace {

bool IsOfUnknownCaller(const AuditEntry& entry) { return entry.is_denial() && entry.user.empty(); }

// Equal are changes of one caller, method, project and object; denials whatever the object; those
// of unknown callers whatever they ask for, but agents' apart from people's.
std::string KindOf(const AuditEntry& entry) {
  std::vector<const std::string*> parts = {&entry.outcome, &entry.user, &entry.token_name};
  static const std::string kAgents = "agents";
  if (entry.by_agent) parts.push_back(&kAgents);
  if (!IsOfUnknownCaller(entry)) parts.insert(parts.end(), {&entry.method, &entry.project});
  if (!entry.is_denial()) parts.push_back(&entry.object);
  std::string kind;
  for (const std::string* part : parts) absl::StrAppend(&kind, part->size(), ":", *part);
  return kind;
}

}  // namespace

bool AuditFold::TakeRow(const AuditEntry& entry, absl::Duration now) {
  if (!entry.is_denial() || IsOfUnknownCaller(entry)) return true;
  if (rows_at_ != -absl::InfiniteDuration()) {
    rows_ = std::min(kBurst, rows_ + absl::FDivDuration(now - rows_at_, kRowEvery));
  }
  rows_at_ = now;
  if (rows_ < 1) return false;
  rows_ -= 1;
  return true;
}

void AuditFold::CountBeyond(uint64_t denials, absl::Duration now) {
  if (beyond_ == 0) beyond_since_ = now;
  beyond_ += denials;
}

std::optional<AuditEntry> AuditFold::Add(AuditEntry entry, absl::Duration now) {
  std::string key = KindOf(entry);
  if (const auto known = kinds_.find(key); known != kinds_.end()) {
    Kind& kind = known->second;
    if (entry.method != kind.last.method) entry.method = "any";
    ++kind.more;
    kind.last = std::move(entry);
    return std::nullopt;
  }
  if (!TakeRow(entry, now)) {
    CountBeyond(1, now);
    return std::nullopt;
  }
  // Denials are bounded by their rows.
  if (!entry.is_denial() && kinds_.size() >= kMostKinds) return entry;
  order_.push_back(kinds_.emplace(std::move(key), Kind{.began = now, .last = entry}).first);
  return entry;
}

std::vector<AuditEntry> AuditFold::TakeDue(absl::Duration now, absl::Time wall, bool all) {
  std::vector<AuditEntry> due;
  while (!order_.empty() && (all || now - order_.front()->second.began >= kWindow)) {
    Kind& kind = order_.front()->second;
    if (kind.more > 0 && TakeRow(kind.last, now)) {
      kind.last.count = kind.more;
      due.push_back(std::move(kind.last));
    } else if (kind.more > 0) {
      CountBeyond(kind.more, now);
    }
    kinds_.erase(order_.front());
    order_.pop_front();
  }
  if (beyond_ > 0 && (all || now - beyond_since_ >= kWindow)) {
    due.push_back({.time = wall,
                   .outcome = "PERMISSION_DENIED",
                   .count = std::exchange(beyond_, 0),
                   .detail = "further calls that were denied: too many to have rows of their own"});
    beyond_since_ = absl::InfiniteDuration();
  }
  return due;
}

absl::Duration AuditFold::next_due() const {
  const absl::Duration kinds =
      order_.empty() ? absl::InfiniteDuration() : order_.front()->second.began + kWindow;
  return std::min(kinds, beyond_since_ + kWindow);
}

}  // namespace muster::controller
