// Rows on their way to the record, so that a flood of them neither fills the disk nor pushes out
// the others: equal ones of a minute become one row more, with their number. Rows of denials come
// at a bounded rate besides, and what is beyond that is counted in a row of its own. Pure: time
// comes as an argument. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/access/audit_types.h"

namespace muster::controller {

class AuditFold {
 public:
  static constexpr absl::Duration kWindow = absl::Minutes(1);
  // Of which equal ones are awaited, 30 MB; changes of further kinds are rows at once.
  static constexpr size_t kMostKinds = 50'000;
  // Rows of denials: so many at once, then one each kRowEvery. At 400 bytes a row that is 6 MB a
  // day. Those of unknown callers are two a minute for each outcome, and take none of them.
  static constexpr double kBurst = 100;
  static constexpr absl::Duration kRowEvery = absl::Seconds(6);

  // One more, at `now` since boot. The first of its kind is a row at once; nothing: it is counted
  // in a later one.
  std::optional<AuditEntry> Add(AuditEntry entry, absl::Duration now);
  // Rows of those that came since, once their minute is over; `all`: of every one. `wall` becomes
  // the time of the row of what is beyond.
  std::vector<AuditEntry> TakeDue(absl::Duration now, absl::Time wall, bool all = false);
  // When TakeDue may have something; infinite: nothing waits.
  absl::Duration next_due() const;

 private:
  struct Kind {
    absl::Duration began;  // when its first one was written
    uint64_t more = 0;     // since then
    AuditEntry last;
  };
  using Kinds = std::map<std::string, Kind>;
  // Whether it may have a row.
  bool TakeRow(const AuditEntry& entry, absl::Duration now);
  void CountBeyond(uint64_t denials, absl::Duration now);

  Kinds kinds_;
  std::deque<Kinds::iterator> order_;  // as they began
  double rows_ = kBurst;
  absl::Duration rows_at_ = -absl::InfiniteDuration();  // when rows_ was true
  uint64_t beyond_ = 0;                                 // denials that are in no kind
  absl::Duration beyond_since_ = absl::InfiniteDuration();
};

}  // namespace muster::controller
