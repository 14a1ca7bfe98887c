// Checkpoint roots: the folders (checkpoint.url) in which jobs have their own, each known by the
// identity in its marker. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace muster::controller {

// Who is found under a path; durable, and for ever: a folder with another identity, or without one,
// is not the root.
struct RootIdentity {
  std::string path;
  std::string identity;
  std::string found_by;  // a worker

  bool operator==(const RootIdentity&) const = default;
};

// A root that jobs count on now: those that have not ended, and those whose checkpoints are to be
// looked after.
struct RootInUse {
  std::map<std::string, uint32_t> jobs;  // by pool
  // Who finds out what it is, while nobody knows: one worker at a time.
  std::string claimer;
  absl::Duration claimed_at;  // since boot
  std::string claim;          // the identity that it gives to a root without one
  // When workers were first asked whether they see it, since it is in use and known.
  absl::Duration asked_at = -absl::InfiniteDuration();
};

// More are not counted on at a time.
inline constexpr size_t kMaxRootsInUse = 1024;

// What a worker sees of one checkpoint root.
struct RootView {
  std::string identity;  // of the root that it sees there; empty: it sees none
  std::string message;   // then why; or why it can write nothing there
  // Set by the controller: it is the root that the controller knows under that path.
  bool seen = false;

  bool operator==(const RootView&) const = default;
};
using RootViews = std::map<std::string, RootView>;  // by path

// What a worker is asked to look at: WatchRoots.Root of the protocol.
struct RootToWatch {
  std::string path;
  std::string identity;
  std::string claim;
  std::vector<std::string> witnesses;

  bool operator==(const RootToWatch&) const = default;
};

}  // namespace muster::controller
