// Denials on their way to the record, so that a flood of them neither fills the disk nor pushes out
// the changes: equal ones of a minute become one row, and rows come at a bounded rate. What is
// beyond that is counted in a row of its own. Pure: time comes as an argument. One thread at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/access/audit_types.h"

namespace muster::controller {

class DenialFold {
 public:
  static constexpr absl::Duration kWindow = absl::Minutes(1);
  static constexpr size_t kMostKinds = 256;  // of which equal ones are awaited
  // Rows of denials: so many at once, then one each kRowEvery. At 400 bytes a row that is 6 MB a
  // day.
  static constexpr double kBurst = 100;
  static constexpr absl::Duration kRowEvery = absl::Seconds(6);

  // One more, at `now` since boot. The first of its kind is a row at once.
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
  bool TakeRow(absl::Duration now);

  std::map<std::string, Kind> kinds_;
  double rows_ = kBurst;
  absl::Duration rows_at_ = -absl::InfiniteDuration();  // when rows_ was true
  uint64_t beyond_ = 0;                                 // that are in no kind
  absl::Duration beyond_since_ = absl::InfiniteDuration();
};

}  // namespace muster::controller
