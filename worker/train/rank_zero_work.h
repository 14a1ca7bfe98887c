// What rank 0 does alone while the others wait for it: in turns, so that no rank sits in a
// collective for longer than one of them, and each can tell its agent meanwhile that it goes on.
//
// Used for what may take longer than the deadline of a collective: reading a checkpoint, and
// waiting until one is durable. All ranks call both functions. Throws what the collectives throw.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/dist/collectives.h"

namespace muster::worker {

inline constexpr absl::Duration kTurn = absl::Seconds(1);

// Calls `work` on rank 0 until it gives its answer, which every rank returns: a failure with its
// class. Each call may take about a turn. After a turn without an answer each rank calls
// `keep_alive`, unless rank 0's `has_moved` says that nothing moved in it.
using WorkInTurns = std::function<std::optional<absl::StatusOr<std::string>>(absl::Duration turn)>;
absl::StatusOr<std::string> DoInTurns(Collectives& gang, const WorkInTurns& work,
                                      const std::function<void()>& keep_alive,
                                      const std::function<bool()>& has_moved = nullptr);

// The same for work that cannot be cut into turns: rank 0 runs it on a thread of its own. It must
// not touch the gang, and calls what it is given whenever it got on: work that hangs must not look
// alive. What it throws becomes a failure as torch_guard.h says.
using OnProgress = std::function<void()>;
using LongWork = std::function<absl::StatusOr<std::string>(const OnProgress& on_progress)>;
absl::StatusOr<std::string> OnRankZero(Collectives& gang, const LongWork& work,
                                       const std::function<void()>& keep_alive);

// Within such work: a wait for others that ends by itself, as one for the controller does. Calls
// `on_progress` several times a turn, from another thread, until `wait` has returned.
absl::Status WaitAlive(const OnProgress& on_progress, const std::function<absl::Status()>& wait);

}  // namespace muster::worker
