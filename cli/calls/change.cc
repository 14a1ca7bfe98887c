#include "cli/calls/change.h"

#include <pwd.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/units.h"
#include "common/os/secrets.h"

namespace muster::cli {
namespace {

constexpr size_t kKeyBytes = 16;
constexpr absl::Duration kFirstRetryPause = absl::Milliseconds(100);
constexpr absl::Duration kMaxRetryPause = absl::Seconds(1);

}  // namespace

std::string UserName(const Host& host) {
  const struct passwd* user = ::getpwuid(::geteuid());
  return user != nullptr ? user->pw_name : host.Env("USER");
}

absl::StatusOr<std::string> RandomKey() { return RandomHex(kKeyBytes); }

Patience::Patience(Session& session, InterruptGuard* guard)
    : session_(session),
      guard_(guard),
      end_(SteadyNow() + session.timeout()),
      pause_(kFirstRetryPause) {}

absl::Duration Patience::left() const { return std::max(end_ - SteadyNow(), kFirstRetryPause); }

bool Patience::Again(const absl::Status& status) {
  if (!absl::IsUnavailable(status) || end_ - SteadyNow() <= pause_) return false;
  if (!std::exchange(told_, true)) {
    session_.Say(
        absl::StrCat(status.message(), "; trying for ", HumanDuration(session_.timeout())));
  }
  const absl::Duration pause = pause_;
  pause_ = std::min(2 * pause_, kMaxRetryPause);
  if (guard_ != nullptr) return guard_->Pause(pause);
  absl::SleepFor(pause);
  return true;
}

}  // namespace muster::cli
