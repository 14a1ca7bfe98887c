// The only place where exceptions of LibTorch, c10d and Gloo are caught.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::worker {

// Runs `body` and turns what it throws into a Status with its failure class:
//   RESOURCE_EXHAUSTED  OUT_OF_MEMORY  an allocation on the host or the device failed
//   UNAVAILABLE         PEER_LOST      a collective or the rendezvous failed: another rank is gone
//                                      or silent
//   FAILED_PRECONDITION APPLICATION    train.deterministic, and an operation cannot be: it is named
//   INTERNAL            APPLICATION    anything else that an operator refused
// A Status that `body` returns passes through.
absl::Status TorchGuard(absl::FunctionRef<absl::Status()> body);

// The same of a `body` that returns a StatusOr, which passes through.
template <typename Body>
std::invoke_result_t<Body> TorchGuardOr(Body body) {
  std::optional<std::invoke_result_t<Body>> result;
  const absl::Status thrown = TorchGuard([&] {
    result = body();
    return absl::OkStatus();
  });
  if (!thrown.ok()) return thrown;
  return *std::move(result);
}

}  // namespace muster::worker
