// How the tasks of an array stand, counted: kept in the snapshot and brought up to date with the
// tasks that change, so that whoever waits for a whole array need not look at each task. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "controller/model/types/job_types.h"

namespace muster::controller {

struct ArrayTally {
  uint32_t open = 0;  // have not ended
  uint32_t succeeded = 0;
  uint32_t failed = 0;           // ended otherwise
  uint64_t first_succeeded = 0;  // by id; 0: none
  uint64_t first_failed = 0;

  bool operator==(const ArrayTally&) const = default;
};

struct Snapshot;

// Tallies that change, by array; put into the snapshot together.
class ArrayTallies {
 public:
  // `jobs`: with all changes of this batch already made.
  explicit ArrayTallies(Snapshot& snapshot) : snapshot_(snapshot) {}
  ~ArrayTallies();  // writes what has changed
  ArrayTallies(const ArrayTallies&) = delete;
  ArrayTallies& operator=(const ArrayTallies&) = delete;

  // The job's row changed; `before` null: it is new.
  void Count(const Job* before, const Job& after);
  // The job's row, which had ended, is gone.
  void Forget(const Job& job);

 private:
  ArrayTally& Edit(uint64_t array_id);
  // The first task after `id` that has ended so; 0: none.
  uint64_t NextEnded(uint64_t array_id, uint64_t id, bool succeeded) const;

  Snapshot& snapshot_;
  std::map<uint64_t, ArrayTally> changed_;
};

// The key of an array's tally in Snapshot::arrays.
std::string ArrayKey(uint64_t array_id);

}  // namespace muster::controller
