// Who this agent is beside its name, and which incarnations before it are known to be dead. Pure.
//
// Two machines may carry one name: clones of one image do. So each data folder has an identity, 16
// random bytes that are made anew when the folder turns up on another machine, and a list of the
// lives that agents had in it. A life is shown to be over by the next agent of the same folder
// under the same kernel: it holds the folder's lock and has ended every process that was left. A
// life of another boot, PID namespace or copy of the folder proves nothing.
// docs/decisions/0007-who-holds-a-workers-name.md says why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/agent/identity/known_controller.h"

namespace muster::worker {

inline constexpr size_t kIdentityBytes = 16;

// Where an agent finds itself. Compared only, never read.
struct Surroundings {
  std::string machine;  // stays over reboots
  std::string place;    // the kernel's boot, the PID namespace, and the folder itself
};

struct IdentityRecord {
  // Those that the controller may still take for the holder of the name.
  static constexpr size_t kMaxLives = 16;

  struct Life {
    std::string incarnation;
    std::string place;
    bool operator==(const Life&) const = default;
  };
  std::string identity;
  std::string machine;
  std::vector<Life> lives;  // newest first, at most kMaxLives
  KnownController controller;
  bool operator==(const IdentityRecord&) const = default;
};

std::string EncodeIdentity(const IdentityRecord& record);
// A controller without an id is read as none. DATA_LOSS: not what EncodeIdentity writes.
absl::StatusOr<IdentityRecord> DecodeIdentity(absl::string_view text);

struct BegunLife {
  IdentityRecord record;                  // to be kept before anybody hears of the life
  std::vector<std::string> predecessors;  // incarnations that are dead, newest first
  bool is_new_identity = false;
};
// `before`: what the folder holds, if anything. Requires that its lock is held and that all that
// was left in it is dead. `fresh` is the identity to take if there is none, or if it is another
// machine's: then the controller is forgotten, too.
BegunLife BeginLife(const std::optional<IdentityRecord>& before, const Surroundings& here,
                    const std::string& incarnation, const std::string& fresh);

// This controller has taken this incarnation for the holder of the name: no earlier life matters
// any more.
void NoteWelcome(const KnownController& controller, IdentityRecord& record);

}  // namespace muster::worker
