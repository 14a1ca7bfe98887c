#include "cli/local/local_control.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "cli/local/daemon_process.h"
#include "cli/session/error.h"
#include "cli/session/host.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(50);
// A daemon that has died so often before it was ever ready will not get better.
constexpr uint32_t kHopelessRestarts = 3;
constexpr uint64_t kMaxRecordBytes = 1 << 20;
constexpr size_t kTailLines = 5;
constexpr uint64_t kMaxLogTail = 16 << 10;
// How long a killed supervisor may take to vanish.
constexpr absl::Duration kKillWait = absl::Seconds(5);

// The last lines of a log, for an error message.
std::string LogTail(const std::string& path, FileSystem& fs) {
  const auto size = fs.FileSize(path);
  if (!size.ok()) return "";
  std::string text(std::min<uint64_t>(*size, kMaxLogTail), '\0');
  const auto count = fs.ReadAt(path, *size - text.size(), text.data(), text.size());
  text.resize(count.ok() ? *count : 0);
  std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  if (lines.size() > kTailLines) lines.erase(lines.begin(), lines.end() - kTailLines);
  std::string tail;
  for (const std::string& line : lines) absl::StrAppend(&tail, "\n  ", line);
  return tail;
}

absl::Status CheckProgram(const std::string& path) {
  if (::access(path.c_str(), X_OK) == 0) return absl::OkStatus();
  return WithHint(absl::FailedPreconditionError(absl::StrCat(path, ": ", ::strerror(errno))),
                  "build it first (scripts/build), or say where the programs are with --bin-dir or "
                  "MUSTER_BIN_DIR");
}

// Binds and lets go at once. Another program may still take the port in between; then musterd's own
// log says so.
absl::Status CheckPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", address, "' is no address to listen on: ", why));
  };
  if (colon == std::string::npos) return bad("write it as HOST:PORT");
  struct addrinfo hints {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  struct addrinfo* found = nullptr;
  const int error = ::getaddrinfo(address.substr(0, colon).c_str(),
                                  address.substr(colon + 1).c_str(), &hints, &found);
  if (error != 0) return bad(::gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  const UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int one = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (::bind(fd.get(), found->ai_addr, found->ai_addrlen) == 0 && ::listen(fd.get(), 1) == 0)
    return absl::OkStatus();
  return WithHint(absl::FailedPreconditionError(
                      absl::StrCat("cannot listen on ", address, ": ", ::strerror(errno))),
                  "stop what uses it, or choose other ports: --any-port takes free ones");
}

std::vector<std::string> SuperviseArgv(const std::string& self, const SupervisorOptions& options) {
  return {self,
          "local",
          "supervise",
          "--dir",
          options.dir,
          "--bin-dir",
          options.bin_dir,
          "--workers",
          absl::StrCat(options.workers),
          "--slots-per-worker",
          absl::StrCat(options.slots_per_worker),
          "--listen",
          options.listen,
          "--worker-listen",
          options.worker_listen,
          "--http-listen",
          options.http_listen,
          "--restart-delay",
          absl::StrCat(absl::ToInt64Milliseconds(options.restart_delay), "ms")};
}

// Why a supervisor that was just started will never be ready; OK while it may be.
absl::Status CheckProgress(const LocalStatus& status, pid_t supervisor, const LocalPaths& paths,
                           FileSystem& fs) {
  if (::waitpid(supervisor, nullptr, WNOHANG) == supervisor) {
    return absl::UnavailableError(
        absl::StrCat("the supervisor ended at once", LogTail(paths.log("supervisor"), fs)));
  }
  for (const DaemonRecord& daemon : status.record.daemons) {
    if (daemon.restarts < kHopelessRestarts) continue;
    return absl::UnavailableError(absl::StrCat(daemon.name, " keeps ending; ",
                                               paths.log(daemon.name),
                                               " says:", LogTail(paths.log(daemon.name), fs)));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> IsReady(const LocalStatus& status, const WorkersReady& ready) {
  if (!status.running || status.record.daemons.empty()) return false;
  for (const DaemonRecord& daemon : status.record.daemons) {
    if (daemon.state != "running") return false;
  }
  const absl::StatusOr<bool> answer = ready(status.record);
  if (absl::IsUnavailable(answer.status())) return false;
  return answer;
}

absl::StatusOr<LocalRecord> AwaitReady(pid_t supervisor, const LocalPaths& paths, FileSystem& fs,
                                       absl::Duration timeout, const WorkersReady& ready) {
  const absl::Duration end = SteadyNow() + timeout;
  while (true) {
    const LocalStatus status = ReadLocalStatus(paths, fs);
    MUSTER_RETURN_IF_ERROR(CheckProgress(status, supervisor, paths, fs));
    MUSTER_ASSIGN_OR_RETURN(const bool done, IsReady(status, ready));
    if (done) return status.record;
    if (SteadyNow() >= end) {
      std::string waiting;
      for (const DaemonRecord& daemon : status.record.daemons) {
        absl::StrAppend(&waiting, waiting.empty() ? ": " : ", ", daemon.name, " is ", daemon.state);
      }
      return WithHint(absl::DeadlineExceededError(
                          absl::StrCat("not ready within ", HumanDuration(timeout), waiting)),
                      absl::StrCat("the logs are in ", paths.logs(), "; --timeout waits longer"));
    }
    absl::SleepFor(kPoll);
  }
}

bool AwaitGone(const LocalPaths& paths, absl::Duration timeout) {
  const absl::Duration end = SteadyNow() + timeout;
  while (LockHolder(paths.lock()).has_value()) {
    if (SteadyNow() >= end) return false;
    absl::SleepFor(kPoll);
  }
  return true;
}

}  // namespace

LocalStatus ReadLocalStatus(const LocalPaths& paths, FileSystem& fs) {
  LocalStatus status;
  status.record.dir = paths.dir;
  const std::optional<pid_t> holder = LockHolder(paths.lock());
  if (!holder.has_value()) return status;
  status.running = true;
  status.record.supervisor_pid = *holder;
  const auto text = fs.ReadFile(paths.record(), kMaxRecordBytes);
  if (!text.ok()) return status;  // it has only just begun
  auto record = DecodeLocalRecord(*text);
  // A record of an earlier supervisor says nothing about this one.
  if (record.ok() && record->supervisor_pid == *holder) status.record = *std::move(record);
  return status;
}

absl::Status CheckLocalStart(const SupervisorOptions& options) {
  for (const char* program : {"musterd", "muster-worker"}) {
    MUSTER_RETURN_IF_ERROR(CheckProgram(absl::StrCat(options.bin_dir, "/", program)));
  }
  for (const std::string& address : {options.listen, options.worker_listen, options.http_listen}) {
    MUSTER_RETURN_IF_ERROR(CheckPort(address));
  }
  return absl::OkStatus();
}

absl::StatusOr<LocalRecord> StartLocal(const SupervisorOptions& options, FileSystem& fs,
                                       absl::Duration timeout, const WorkersReady& ready) {
  const LocalPaths paths{options.dir};
  MUSTER_RETURN_IF_ERROR(fs.MakeDirectories(paths.logs()));
  MUSTER_ASSIGN_OR_RETURN(const std::string self, OwnPath());
  MUSTER_ASSIGN_OR_RETURN(const pid_t supervisor,
                          StartDetached(SuperviseArgv(self, options), paths.log("supervisor")));
  auto record = AwaitReady(supervisor, paths, fs, timeout, ready);
  // Only if it is ours: when two `up` race, the one that lost must not stop the other's.
  if (!record.ok() && LockHolder(paths.lock()) == supervisor) {
    if (const absl::Status stopped = StopLocal(paths, timeout);
        !stopped.ok() && !absl::IsNotFound(stopped)) {
      return absl::Status(
          record.status().code(),
          absl::StrCat(record.status().message(), "; stopping it: ", stopped.message()));
    }
  }
  return record;
}

absl::Status StopLocal(const LocalPaths& paths, absl::Duration timeout) {
  const std::optional<pid_t> holder = LockHolder(paths.lock());
  if (!holder.has_value()) {
    return absl::NotFoundError(absl::StrCat("no local Muster runs under ", paths.dir));
  }
  ::kill(*holder, SIGTERM);
  if (AwaitGone(paths, timeout)) return absl::OkStatus();
  ::kill(*holder, SIGKILL);
  AwaitGone(paths, kKillWait);
  return WithHint(absl::DeadlineExceededError(
                      absl::StrCat("the supervisor under ", paths.dir, " did not stop within ",
                                   HumanDuration(timeout), " and was killed")),
                  absl::StrCat("the logs are in ", paths.logs()));
}

}  // namespace muster::cli
