// What one turn of a long read may still look at. A read takes as many turns as it needs, and other
// reads and the writes of metrics.db come between them: one turn takes some milliseconds.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster::controller {

class TurnBudget {
 public:
  bool spent() const { return entries_ <= 0 || bytes_ <= 0; }

  // An entry of an index was passed.
  void TakeEntry() { --entries_; }
  // A look-up of its own was made.
  void TakeLookUp() { entries_ -= kEntriesPerLookUp; }
  // A row was read.
  void TakeRow(size_t bytes) {
    TakeLookUp();
    bytes_ -= static_cast<int64_t>(bytes);
  }

 private:
  static constexpr int64_t kEntriesPerLookUp = 16;  // what it costs, about

  int64_t entries_ = 32'768;
  int64_t bytes_ = 1 << 20;
};

}  // namespace muster::controller
