#include "cli/local/local_supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/local/daemon_process.h"
#include "cli/local/log_bound.h"
#include "cli/session/host.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"

namespace muster::cli {
namespace {

constexpr absl::Duration kMaxRestartDelay = absl::Seconds(15);
// A life at least this long counts as one that worked.
constexpr absl::Duration kLongLife = absl::Seconds(10);
// How often a daemon that starts is asked for its ports.
constexpr absl::Duration kStartPoll = absl::Milliseconds(20);
// A worker saves its jobs' state before it goes; musterd only closes its databases.
constexpr absl::Duration kWorkerGrace = absl::Seconds(45);
constexpr absl::Duration kControllerGrace = absl::Seconds(20);
// A log is longer than its bound by what is written meanwhile.
constexpr absl::Duration kLogCheckEvery = absl::Seconds(5);
constexpr uint64_t kMaxEndpointsBytes = 64 << 10;
constexpr char kMusterd[] = "musterd";

}  // namespace

absl::Duration RestartDelay(absl::Duration restart_delay, int short_lives) {
  constexpr int kMaxDoublings = 16;
  const absl::Duration delay = restart_delay * (1 << std::clamp(short_lives - 1, 0, kMaxDoublings));
  return std::min(delay, std::max(restart_delay, kMaxRestartDelay));
}

LocalSupervisor::LocalSupervisor(SupervisorOptions options, FileSystem& fs)
    : options_(std::move(options)), paths_{options_.dir}, fs_(fs) {
  daemons_.push_back({.name = kMusterd, .data_dir = paths_.controller()});
  for (int i = 1; i <= options_.workers; ++i) {
    const std::string name = absl::StrCat("worker-", i);
    daemons_.push_back({.name = name, .data_dir = paths_.worker(name)});
  }
  for (Daemon& daemon : daemons_) {
    daemon.record.name = daemon.name;
    daemon.record.state = "starting";
  }
}

absl::Status LocalSupervisor::Run() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  const UniqueFd signal_fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signal_fd.valid())
    return absl::UnavailableError(absl::StrCat("signalfd: ", ::strerror(errno)));
  signal_fd_ = signal_fd.get();
  for (const Daemon& daemon : daemons_)
    MUSTER_RETURN_IF_ERROR(fs_.MakeDirectories(daemon.data_dir));
  Log(LogLevel::kInfo, "supervisor_started", {{"dir", paths_.dir}, {"workers", options_.workers}});
  do {
    const absl::Duration now = SteadyNow();
    Reap(now);
    StartDue(now);
    for (Daemon& daemon : daemons_) {
      if (daemon.record.state == "starting" && daemon.record.pid != 0) ReadEndpoints(daemon);
    }
    Write();
    BoundLogs(now);
  } while (!WaitForSignal(NextWait(SteadyNow())));
  Stop();
  return absl::OkStatus();
}

absl::Duration LocalSupervisor::NextWait(absl::Duration now) const {
  absl::Duration wait = next_log_check_ - now;
  for (const Daemon& daemon : daemons_) {
    if (daemon.record.pid != 0 && daemon.record.state == "starting")
      wait = std::min(wait, kStartPoll);
    if (daemon.record.state == "restarting") wait = std::min(wait, daemon.next_start - now);
    // A worker whose controller has just come up for the first time.
    if (daemon.record.pid == 0 && daemon.record.state == "starting" && !worker_address_.empty()) {
      wait = absl::ZeroDuration();
    }
  }
  return std::max(wait, absl::ZeroDuration());
}

void LocalSupervisor::BoundLogs(absl::Duration now) {
  if (now < next_log_check_) return;
  next_log_check_ = now + kLogCheckEvery;
  std::vector<std::string> logs = {paths_.log("supervisor")};
  for (const Daemon& daemon : daemons_) logs.push_back(paths_.log(daemon.name));
  for (const std::string& log : logs) {
    if (const absl::Status status = BoundLog(fs_, log); !status.ok()) {
      Log(LogLevel::kWarning, "log_not_bounded", {{"log", log}, {"error", status.ToString()}});
    }
  }
}

bool LocalSupervisor::WaitForSignal(absl::Duration at_most) {
  struct pollfd poll {
    .fd = signal_fd_, .events = POLLIN, .revents = 0
  };
  const int timeout_ms = at_most == absl::InfiniteDuration()
                             ? -1
                             : static_cast<int>(absl::ToInt64Milliseconds(at_most) + 1);
  ::poll(&poll, 1, timeout_ms);
  bool stop = false;
  struct signalfd_siginfo info {};
  while (::read(signal_fd_, &info, sizeof(info)) == sizeof(info)) {
    stop = stop || info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT;
  }
  return stop;
}

void LocalSupervisor::StartDue(absl::Duration now) {
  for (Daemon& daemon : daemons_) {
    if (daemon.record.pid != 0) continue;
    if (daemon.record.state == "restarting" && now < daemon.next_start) continue;
    if (daemon.name != kMusterd && worker_address_.empty()) continue;
    Start(daemon, now);
  }
}

std::vector<std::string> LocalSupervisor::Argv(const Daemon& daemon) const {
  if (daemon.name == kMusterd) {
    return {absl::StrCat(options_.bin_dir, "/musterd"),
            "--data-dir",
            daemon.data_dir,
            "--listen",
            options_.listen,
            "--worker-listen",
            options_.worker_listen,
            "--http-listen",
            options_.http_listen};
  }
  return {absl::StrCat(options_.bin_dir, "/muster-worker"), "--controller", worker_address_,
          "--token-file", paths_.token(), "--name", daemon.name, "--data-dir", daemon.data_dir,
          "--slots", absl::StrCat(options_.slots_per_worker),
          // Whoever may submit here is the user whose machine it is.
          "--allow-commands"};
}

void LocalSupervisor::Start(Daemon& daemon, absl::Duration now) {
  // What an earlier life left would be taken for this one's.
  const absl::Status removed = fs_.RemoveFile(absl::StrCat(daemon.data_dir, "/endpoints.json"));
  absl::StatusOr<pid_t> pid = absl::IsNotFound(removed) || removed.ok()
                                  ? StartDaemon(Argv(daemon), paths_.log(daemon.name))
                                  : absl::StatusOr<pid_t>(removed);
  daemon.started = now;
  if (!pid.ok()) {
    ++daemon.short_lives;
    daemon.record.state = "restarting";
    daemon.next_start = now + RestartDelay(options_.restart_delay, daemon.short_lives);
    Log(LogLevel::kError, "daemon_not_started",
        {{"daemon", daemon.name}, {"error", pid.status().ToString()}});
    return;
  }
  if (daemon.record.state == "restarting") ++daemon.record.restarts;
  daemon.record.pid = *pid;
  daemon.record.state = "starting";
  Log(LogLevel::kInfo, "daemon_started", {{"daemon", daemon.name}, {"pid", *pid}});
}

void LocalSupervisor::ReadEndpoints(Daemon& daemon) {
  const auto text =
      fs_.ReadFile(absl::StrCat(daemon.data_dir, "/endpoints.json"), kMaxEndpointsBytes);
  if (!text.ok()) return;
  const auto endpoints = DecodeEndpoints(*text);
  if (!endpoints.ok() || endpoints->pid != daemon.record.pid) return;
  daemon.record.state = "running";
  daemon.record.metrics_url = absl::StrCat("http://", endpoints->http_address, "/metrics");
  if (daemon.name != kMusterd) {
    daemon.record.grpc_address = worker_address_;
    return;
  }
  // The ports that it got are the ports that it keeps.
  daemon.record.grpc_address = endpoints->grpc_address;
  worker_address_ = endpoints->worker_address;
  options_.listen = endpoints->grpc_address;
  options_.worker_listen = endpoints->worker_address;
  options_.http_listen = endpoints->http_address;
}

void LocalSupervisor::Reap(absl::Duration now) {
  int status = 0;
  for (pid_t pid = ::waitpid(-1, &status, WNOHANG); pid > 0;
       pid = ::waitpid(-1, &status, WNOHANG)) {
    for (Daemon& daemon : daemons_) {
      if (daemon.record.pid != pid) continue;
      daemon.short_lives = now - daemon.started < kLongLife ? daemon.short_lives + 1 : 0;
      // One death after a healthy start is what the first, short delay is for.
      if (daemon.record.state == "running") daemon.short_lives = std::min(daemon.short_lives, 1);
      const absl::Duration delay = RestartDelay(options_.restart_delay, daemon.short_lives);
      daemon.record.pid = 0;
      daemon.record.state = stopping_ ? "stopped" : "restarting";
      daemon.next_start = now + delay;
      Log(stopping_ ? LogLevel::kInfo : LogLevel::kWarning, "daemon_ended",
          {{"daemon", daemon.name},
           {"pid", pid},
           {"exit_code", WIFEXITED(status) ? WEXITSTATUS(status) : 0},
           {"signal", WIFSIGNALED(status) ? WTERMSIG(status) : 0},
           {"starts_again_ms", stopping_ ? 0 : absl::ToInt64Milliseconds(delay)}});
    }
  }
}

bool LocalSupervisor::AnyAlive(const std::vector<Daemon*>& daemons) const {
  return std::any_of(daemons.begin(), daemons.end(),
                     [](const Daemon* daemon) { return daemon->record.pid != 0; });
}

void LocalSupervisor::StopThese(const std::vector<Daemon*>& daemons, absl::Duration grace) {
  for (Daemon* daemon : daemons) {
    if (daemon->record.pid != 0) ::kill(static_cast<pid_t>(daemon->record.pid), SIGTERM);
  }
  const absl::Duration end = SteadyNow() + grace;
  bool killed = false;
  while (AnyAlive(daemons)) {
    const absl::Duration now = SteadyNow();
    if (now >= end && !std::exchange(killed, true)) {
      for (Daemon* daemon : daemons) {
        if (daemon->record.pid == 0) continue;
        Log(LogLevel::kWarning, "daemon_killed",
            {{"daemon", daemon->name}, {"pid", daemon->record.pid}});
        ::kill(static_cast<pid_t>(daemon->record.pid), SIGKILL);
      }
    }
    WaitForSignal(killed ? absl::InfiniteDuration() : end - now);
    Reap(SteadyNow());
  }
}

void LocalSupervisor::Stop() {
  stopping_ = true;
  Log(LogLevel::kInfo, "supervisor_stopping");
  Write();
  std::vector<Daemon*> workers;
  for (size_t i = 1; i < daemons_.size(); ++i) workers.push_back(&daemons_[i]);
  StopThese(workers, kWorkerGrace);
  Write();
  StopThese({&daemons_[0]}, kControllerGrace);
  if (const absl::Status status = fs_.RemoveFile(paths_.record()); !status.ok()) {
    Log(LogLevel::kWarning, "record_not_removed", {{"error", status.ToString()}});
  }
  Log(LogLevel::kInfo, "supervisor_stopped");
}

void LocalSupervisor::Write() {
  LocalRecord record{.dir = paths_.dir, .supervisor_pid = ::getpid(), .stopping = stopping_};
  for (const Daemon& daemon : daemons_) record.daemons.push_back(daemon.record);
  std::string text = EncodeLocalRecord(record);
  if (text == written_) return;
  // Tried again at the next change; the daemons matter more than the record of them.
  if (const absl::Status status = WriteFileAtomically(fs_, paths_.record(), text, 0600);
      !status.ok()) {
    Log(LogLevel::kWarning, "record_not_written", {{"error", status.ToString()}});
    return;
  }
  written_ = std::move(text);
}

}  // namespace muster::cli
