#include "worker/train/step/torch_guard.h"

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/models/layers/batch_norm.h"
#include "worker/train/run/failure.h"

namespace muster::worker {
namespace {

absl::Status OutOfMemory(absl::string_view message) {
  return Classify(absl::ResourceExhaustedError(absl::StrCat("out of memory: ", message)),
                  kOutOfMemory);
}

absl::Status PeerLost(absl::string_view message) {
  return Classify(absl::UnavailableError(absl::StrCat("lost another rank: ", message)), kPeerLost);
}

// Gloo throws plain runtime errors; they carry its source path. c10d wraps some of its own in
// c10::Error.
bool IsFromTransport(absl::string_view message) {
  return absl::StrContains(message, "gloo/") || absl::StrContains(message, "[Gloo]") ||
         absl::StrContains(message, "NCCL") ||
         absl::StrContains(message, "Connection closed by peer") ||
         absl::StrContains(message, "Connection reset by peer");
}

// How torch says so under setDeterministicAlgorithms; before it stands the operation's name.
constexpr absl::string_view kNotDeterministic = " does not have a deterministic implementation";

absl::Status NotDeterministic(absl::string_view operation) {
  return Classify(
      absl::FailedPreconditionError(absl::StrCat(
          "train.deterministic is true, but the operation ", operation,
          " has no deterministic algorithm on this device: choose another model, or set it to "
          "false")),
      kApplication);
}

absl::Status FromMessage(absl::string_view message) {
  if (IsFromTransport(message)) return PeerLost(message);
  if (const size_t end = message.find(kNotDeterministic); end != message.npos)
    return NotDeterministic(message.substr(0, end));
  if (const size_t begin = message.find(kOneValue); begin != message.npos) {
    return Classify(absl::InvalidArgumentError(message.substr(begin)), kStartFailed);
  }
  // The host allocator throws a plain c10::Error.
  if (absl::StrContains(message, "can't allocate memory")) return OutOfMemory(message);
  return Classify(absl::InternalError(message), kApplication);
}

}  // namespace

absl::Status TorchGuard(absl::FunctionRef<absl::Status()> body) {
  try {
    return body();
  } catch (const c10::OutOfMemoryError& error) {
    return OutOfMemory(error.what_without_backtrace());
  } catch (const c10::DistError& error) {
    return PeerLost(error.what_without_backtrace());
  } catch (const c10::Error& error) {
    return FromMessage(error.what_without_backtrace());
  } catch (const std::bad_alloc& error) {
    return OutOfMemory(error.what());
  } catch (const std::exception& error) {
    return FromMessage(error.what());
  }
}

}  // namespace muster::worker
