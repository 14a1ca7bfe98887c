#include "worker/data_tool/base/interruption.h"

#include <signal.h>

#include <atomic>

namespace muster::worker {
namespace {

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler writes it");

void OnSignal(int /*signal*/) { interrupted.store(true); }

}  // namespace

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  // Reads and writes go on; the next signal does what it does by default.
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
}

bool Interrupted() { return interrupted.load(); }

absl::Status CheckInterrupted() {
  return Interrupted() ? absl::CancelledError("interrupted") : absl::OkStatus();
}

}  // namespace muster::worker
