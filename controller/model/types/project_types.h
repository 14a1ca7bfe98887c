// What the controller knows of a project, the one that pays: its share, its bounds and what it has
// used. Plain data. A project that nobody has set is there all the same, with the defaults below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "controller/model/types/ledger_types.h"

namespace muster::controller {

// Bounds; what is not there is not bounded.
struct Quota {
  std::optional<uint32_t> slots;   // held at a time
  std::optional<uint32_t> queued;  // jobs that wait in the queue

  bool operator==(const Quota&) const = default;
};

// Slot-seconds, older ones worth less: half as much each half-life (policy/limits/fair_share.h).
struct DecayedUse {
  double slot_seconds = 0;
  absl::Time at = absl::InfinitePast();  // ledger time; InfinitePast: nothing was used yet
};

struct Project {
  std::string name;
  double weight = 1;  // its share of the slots, against the weights of others; above 0
  Quota quota;        // of all its users together
  Quota each_user;    // of each user within it who has none of their own
  std::map<std::string, Quota> users;
  DecayedUse used;  // by attempts that have ended

  const Quota& QuotaOf(const std::string& user) const {
    const auto it = users.find(user);
    return it == users.end() ? each_user : it->second;
  }
};

// What a project's jobs that were archived had come to: counters go on from it.
struct ArchivedTime {
  LabelledTime held;      // slot-time
  absl::Duration queued;  // plain time in the queue

  bool operator==(const ArchivedTime&) const = default;
};
// Of so many projects; of further ones it is not kept.
inline constexpr size_t kMaxArchivedTimes = 4096;

// What jobs hold right now. A job counts while its attempt lives, with the slots of the ranks that
// have not ended; a job counts as queued while it is PENDING, held or not.
struct Use {
  uint32_t slots = 0;
  uint32_t queued = 0;

  bool operator==(const Use&) const = default;
};

struct ProjectUse {
  Use all;
  std::map<std::string, Use> users;  // those with something; by name

  Use Of(const std::string& user) const {
    const auto it = users.find(user);
    return it == users.end() ? Use() : it->second;
  }
  bool operator==(const ProjectUse&) const = default;
};

}  // namespace muster::controller
