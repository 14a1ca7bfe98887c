// How the verbs that change something ask for it: in the user's name, and again and again while
// nobody answers and there is time. Each change is idempotent or carries a key, so a controller
// that is just being restarted is no error.
#pragma once

#include <algorithm>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/session/cli_session.h"
#include "cli/session/host.h"
#include "cli/session/interrupt.h"
#include "common/base/status_macros.h"

namespace muster::cli {

// The operating system's name of who runs `muster`.
std::string UserName(const Host& host);

// 32 random hex digits, to know a request again by.
absl::StatusOr<std::string> RandomKey();

// Counts down --timeout over repeated calls.
class Patience {
 public:
  // An interrupt ends the pauses between the calls, and there is no further call; where there is
  // no guard it ends the process.
  explicit Patience(Session& session, InterruptGuard* guard = nullptr);

  // How long the next call may take; never nothing.
  absl::Duration left() const;
  // After a call with this status: true, after a pause, when it should be made again.
  bool Again(const absl::Status& status);

 private:
  Session& session_;
  InterruptGuard* const guard_;
  const absl::Duration end_;
  absl::Duration pause_;
  bool told_ = false;
};

// An interrupt ends it where there is a guard. What was sent may have been done all the same, as
// after UNAVAILABLE and DEADLINE_EXCEEDED. `lost_tries`, where given, is raised by one for each
// try that reached the controller and was made again all the same: each may have been done.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> SendChange(Session& session, UnaryMethod<Stub, Request, Response> method,
                                    const Request& request, InterruptGuard* guard = nullptr,
                                    int* lost_tries = nullptr) {
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  Patience patience(session, guard);
  while (true) {
    bool reached = false;
    absl::StatusOr<Response> response =
        client->CallOnce(method, request, patience.left(), guard, &reached);
    if (response.ok() || !patience.Again(response.status())) return response;
    if (reached && lost_tries != nullptr) ++*lost_tries;
  }
}

}  // namespace muster::cli
