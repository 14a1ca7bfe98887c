// Finds where the last lines of each rank of a job begin: one walk from the newest chunk back over
// all ranks, in turns. Used by LogReading, on the thread of the database's owner.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "controller/model/types/metrics_types.h"
#include "controller/store/metrics/turn_budget.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

// What the statements that read logs take for "any attempt" or "any rank".
inline int64_t OrAny(const std::optional<uint32_t>& value) {
  return value.has_value() ? int64_t{*value} : -1;
}

class TailSearch {
 public:
  // How much text is looked through: of one rank, and of all of them.
  static constexpr uint64_t kMaxBytesPerRank = 4 << 20;
  static constexpr uint64_t kMaxBytes = 64 << 20;

  // Requires query.tail_lines > 0.
  explicit TailSearch(const LogQuery& query) : query_(query) {}

  // Walks on for one turn. True: done.
  absl::StatusOr<bool> Turn(SqliteDatabase& db);
  // By rank; none of a rank that has nothing stored within the bounds.
  const std::map<uint32_t, LogTail>& tails() const { return tails_; }

 private:
  struct Open {
    uint64_t ends_wanted = 0;  // line ends to pass before the start is found
    uint64_t seen_bytes = 0;
    bool is_last_byte = true;
  };

  absl::Status FindRanks(SqliteDatabase& db);
  // Goes back over one chunk of the rank. True: its tail begins there.
  bool Pass(uint32_t rank, const LogCursor& at, absl::string_view text);

  const LogQuery query_;
  bool begun_ = false;
  // What comes before it is still to be walked.
  LogCursor at_{std::numeric_limits<uint32_t>::max(), std::numeric_limits<int64_t>::max()};
  uint64_t seen_bytes_ = 0;
  std::map<uint32_t, Open> open_;  // ranks whose tails are still looked for
  std::map<uint32_t, LogTail> tails_;
};

}  // namespace muster::controller
