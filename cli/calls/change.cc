#include "cli/calls/change.h"

#include <pwd.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

constexpr absl::Duration kFirstRetryPause = absl::Milliseconds(100);
constexpr absl::Duration kMaxRetryPause = absl::Seconds(1);

}  // namespace

std::string UserName(const Host& host) {
  const struct passwd* user = ::getpwuid(::geteuid());
  return user != nullptr ? user->pw_name : host.Env("USER");
}

absl::StatusOr<std::string> RandomKey() {
  std::array<char, 16> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return absl::InternalError("no random numbers for the idempotency key");
  }
  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

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
