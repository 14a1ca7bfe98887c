#include "common/rpc/handshake_failures.h"

#include <grpc/support/log.h>
#include <stdlib.h>

#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "common/base/log.h"
#include "common/base/mutex.h"

namespace muster {
namespace {

// As ssl_transport_security.cc of gRPC begins its line.
constexpr absl::string_view kHandshakeFailed = "Handshake failed with ";

struct Listeners {
  Mutex mutex;
  std::set<const std::function<void(absl::string_view)>*> all MUSTER_GUARDED_BY(mutex);
};

// Never destroyed: threads of gRPC's outlive main.
Listeners& AllListeners() {
  static Listeners* const listeners = new Listeners();
  return *listeners;
}

// Whether a user set GRPC_VERBOSITY; our programs set it to NONE themselves.
bool IsVerbosityChosen() {
  const char* verbosity = ::getenv("GRPC_VERBOSITY");
  return verbosity != nullptr && absl::string_view(verbosity) != "NONE";
}

void TakeLine(gpr_log_func_args* line) {
  const absl::string_view reason = HandshakeFailureIn(line->message);
  if (reason.empty()) {
    static const LogLevel level = IsVerbosityChosen() ? LogLevel::kInfo : LogLevel::kDebug;
    Log(level, "grpc", {{"file", line->file}, {"message", line->message}});
    return;
  }
  Listeners& listeners = AllListeners();
  MutexLock lock(listeners.mutex);
  for (const auto* hear : listeners.all) (*hear)(reason);
}

}  // namespace

absl::string_view HandshakeFailureIn(absl::string_view line) {
  if (!absl::StartsWith(line, kHandshakeFailed)) return "";
  (void)absl::ConsumeSuffix(&line, ".");
  return line.substr(line.rfind(':') + 1);
}

HandshakeFailures::HandshakeFailures(std::function<void(absl::string_view reason)> hear)
    : hear_(std::move(hear)) {
  if (!IsVerbosityChosen()) ::gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
  ::gpr_set_log_function(&TakeLine);
  Listeners& listeners = AllListeners();
  MutexLock lock(listeners.mutex);
  listeners.all.insert(&hear_);
}

HandshakeFailures::~HandshakeFailures() {
  Listeners& listeners = AllListeners();
  MutexLock lock(listeners.mutex);
  listeners.all.erase(&hear_);
}

}  // namespace muster
