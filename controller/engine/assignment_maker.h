// What agents are told: an assignment is made from a row of the outbox and one snapshot, the same
// at each repeat.
//
// Used by the dispatcher; one thread. The snapshot must outlive the maker.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/assignment_types.h"

namespace muster::controller {

class AssignmentMaker {
 public:
  explicit AssignmentMaker(const Snapshot& snapshot) : snapshot_(snapshot) {}

  // Requires that the row is in the snapshot's outbox.
  Assignment Make(const OutboxRow& row);

 private:
  struct Group {
    uint32_t number = 0;          // of the gang's workers, in the order of their lowest ranks
    std::vector<uint32_t> ranks;  // ascending
  };
  using Groups = absl::flat_hash_map<absl::string_view, Group>;  // by worker

  StartAssignment MakeStart(const OutboxRow& row);
  const Groups& GroupsOf(const Attempt& attempt);

  const Snapshot& snapshot_;
  // Each gang is walked once for all of its workers. By job and attempt.
  std::map<std::pair<uint64_t, uint32_t>, Groups> groups_;
};

}  // namespace muster::controller
