// A checkpoint root: the folder (checkpoint.url) in which each job has its own. It carries a marker
// file with an identity, by which a machine knows that it sees the root itself, and not the empty
// folder on which it would be mounted. docs/decisions/0008 tells who makes the marker, and when.
//
// Used by the agent, which looks at roots for the controller, and by whoever reads or writes
// checkpoints: before what is not there is called missing, and before anything is made in a folder
// that may be another one. Blocking, for as long as the file system hangs. Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/fs/file_system.h"

namespace muster {

inline constexpr char kRootMarker[] = "MUSTER_ROOT";
inline constexpr size_t kMaxRootIdentityBytes = 64;

// A root and who it is. An empty identity: nothing is known of it, and nothing is checked.
struct CheckpointRoot {
  std::string path;
  std::string identity;
};

// 1 to kMaxRootIdentityBytes lower-case letters and digits.
bool IsRootIdentity(absl::string_view text);

// What the marker in `root` says. NOT_FOUND: there is none, or the folder itself is not there.
// FAILED_PRECONDITION: a marker that is not whole, as a crash leaves one. Others: as the file
// system's.
absl::StatusOr<std::string> ReadRootMarker(FileSystem& fs, const std::string& root);

// OK when the root is seen. Else UNAVAILABLE, with why in a sentence for people: what is read or
// written there now says nothing about the root.
absl::Status CheckRoot(FileSystem& fs, const CheckpointRoot& root);

// CheckRoot, and then whether it takes a checkpoint: writes, fsyncs, renames, reads and deletes a
// file whose name holds `who`, which two callers at a time must not share. RESOURCE_EXHAUSTED: it
// is seen, and full.
absl::Status ProbeRoot(FileSystem& fs, const CheckpointRoot& root, absl::string_view who);

// Makes the root where it is not there, probes it, and returns the identity of its marker: of the
// one that is there, else of the one that it makes, with `root.identity`. With `witnesses` (folders
// of checkpoints that the root is known to hold) a marker is made only if one of them is there.
// UNAVAILABLE with why, as above. Where `still_asked` is given and says no, nothing is made: who
// waited for long in a hung folder may go on in the one on which it was mounted.
absl::StatusOr<std::string> ClaimRoot(FileSystem& fs, const CheckpointRoot& root,
                                      const std::vector<std::string>& witnesses,
                                      absl::string_view who,
                                      const std::function<bool()>& still_asked = nullptr);

}  // namespace muster
