#include "controller/access/denial_fold.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::controller {
namespace {

// Equal are those of one caller, method, project and outcome, whatever the object.
std::string KindOf(const AuditEntry& entry) {
  std::string kind;
  for (const std::string* part :
       {&entry.user, &entry.token_name, &entry.method, &entry.project, &entry.outcome}) {
    absl::StrAppend(&kind, part->size(), ":", *part);
  }
  return kind;
}

}  // namespace

bool DenialFold::TakeRow(absl::Duration now) {
  if (rows_at_ != -absl::InfiniteDuration()) {
    rows_ = std::min(kBurst, rows_ + absl::FDivDuration(now - rows_at_, kRowEvery));
  }
  rows_at_ = now;
  if (rows_ < 1) return false;
  rows_ -= 1;
  return true;
}

std::optional<AuditEntry> DenialFold::Add(AuditEntry entry, absl::Duration now) {
  std::string key = KindOf(entry);
  const auto known = kinds_.find(key);
  if (known != kinds_.end()) {
    ++known->second.more;
    known->second.last = std::move(entry);
    return std::nullopt;
  }
  if (kinds_.size() >= kMostKinds || !TakeRow(now)) {
    if (beyond_++ == 0) beyond_since_ = now;
    return std::nullopt;
  }
  kinds_.emplace(std::move(key), Kind{.began = now, .last = entry});
  return entry;
}

std::vector<AuditEntry> DenialFold::TakeDue(absl::Duration now, absl::Time wall, bool all) {
  std::vector<AuditEntry> due;
  for (auto it = kinds_.begin(); it != kinds_.end();) {
    Kind& kind = it->second;
    if (!all && now - kind.began < kWindow) {
      ++it;
      continue;
    }
    if (kind.more > 0 && TakeRow(now)) {
      kind.last.count = kind.more;
      due.push_back(std::move(kind.last));
    } else if (kind.more > 0) {
      if (beyond_ == 0) beyond_since_ = now;
      beyond_ += kind.more;
    }
    it = kinds_.erase(it);
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

absl::Duration DenialFold::next_due() const {
  absl::Duration next = beyond_ > 0 ? beyond_since_ + kWindow : absl::InfiniteDuration();
  for (const auto& [key, kind] : kinds_) next = std::min(next, kind.began + kWindow);
  return next;
}

}  // namespace muster::controller
