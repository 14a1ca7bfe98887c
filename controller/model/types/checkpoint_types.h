// A checkpoint's row: the controller holds rows, never bytes. Values of the enum are those of
// muster/v1/common.proto.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster::controller {

enum class CheckpointState : uint8_t {
  kWriting = 1,
  kCommitted = 2,
  kVerified = 3,
  kCorrupt = 4,
  kDeleted = 5,
};
absl::string_view CheckpointStateName(CheckpointState state);  // "COMMITTED"

struct Checkpoint {
  uint64_t id = 0;
  uint64_t job_id = 0;
  int64_t step = 0;
  uint32_t attempt = 0;
  CheckpointState state = CheckpointState::kWriting;
  std::string path;  // empty while WRITING
  uint64_t bytes = 0;
  std::string manifest_sha256;
  bool best = false;
  double epoch = 0;
  std::map<std::string, double> metrics;  // validation_accuracy, validation_loss when known
  absl::Time created = absl::InfinitePast();
  absl::Time verified = absl::InfinitePast();
  // `created` in ledger time. InfinitePast: not known (an older Muster).
  absl::Time created_at = absl::InfinitePast();
  uint32_t rereads =
      0;  // how often an agent has reread it; who waits for a reread waits for this to grow
  std::string message;  // why it is corrupt or was deleted
  // A reading that spoke against it, until another worker has read it, too.
  struct Doubt {
    std::string worker;
    std::string message;
    bool missing = false;  // it is not there; else its bytes do not match
  };
  std::optional<Doubt> doubt;
  std::string pinned_by;   // "user:ann": nothing deletes it; empty: it is not pinned
  std::string removed_by;  // who asked that it be deleted; empty: nobody
  // The worker that could not read or delete it when that was tried last. In memory only.
  std::string failed_by;
  absl::Duration retry_at;  // since boot: the next try of a verification or deletion that failed

  bool restorable() const {
    return state == CheckpointState::kCommitted || state == CheckpointState::kVerified;
  }
  bool on_disk() const { return restorable() || state == CheckpointState::kCorrupt; }
};

}  // namespace muster::controller
