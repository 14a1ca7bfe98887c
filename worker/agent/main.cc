// muster-worker: reads its options, runs the agent until SIGTERM or SIGINT. Exit 0: stopped as
// asked; 1: failed; 2: usage.
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/code_version.h"
#include "common/base/log.h"
#include "common/base/unique_fd.h"
#include "common/base/version.h"
#include "common/daemon/descriptor_limit.h"
#include "worker/agent/agent.h"
#include "worker/agent/command/import_command.h"
#include "worker/agent/join/join_command.h"

namespace muster::worker {
namespace {

// gRPC's threads would otherwise get an arena each; the agent allocates little, and shares a
// machine with training.
constexpr int kMallocArenas = 2;
constexpr mode_t kOwnFilesMask = 0077;

// A rank takes some ten: its link, its logs, its cgroup. Ranks inherit the bound, and programs that
// close all that they might have inherited take their time for it.
constexpr uint64_t kLeastDescriptors = 1024;
constexpr uint64_t kWantedDescriptors = 65'536;

int Fail(const absl::Status& status, int code) {
  ::fprintf(stderr, "muster-worker: %s\n", std::string(status.message()).c_str());
  return code;
}

int ExitCodeOf(const absl::Status& status) {
  return Fail(status, absl::IsInvalidArgument(status) ? 2 : 1);
}

int Main(int argc, char** argv) {
  SetLogProgram("muster-worker");
  SetCommit(CodeVersion());
  ::mallopt(M_ARENA_MAX, kMallocArenas);
  if (IsJoinCommand(argc, argv)) {
    ::umask(kOwnFilesMask);
    ::setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
    RealClock join_clock;
    const absl::StatusOr<std::string> text =
        RunJoinCommand(argc, argv, PosixFileSystem(), join_clock);
    if (!text.ok()) return ExitCodeOf(text.status());
    ::fputs(text->c_str(), stdout);
    return 0;
  }
  if (IsImportCommand(argc, argv)) {
    const absl::Status imported = RunImportCommand(argc, argv, PosixFileSystem());
    return imported.ok() ? 0 : ExitCodeOf(imported);
  }
  const absl::StatusOr<AgentCommandLine> line = ParseAgentCommandLine(argc, argv);
  if (!line.ok()) return Fail(line.status(), 2);
  if (!line->text.empty()) {
    ::fputs(line->text.c_str(), stdout);
    return 0;
  }
  // What the agent writes is its own user's alone; ranks get the mask that it was started with.
  const mode_t given_mask = ::umask(kOwnFilesMask);
  // Blocked before any thread starts, so that all threads inherit it and the loop alone takes them.
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  const UniqueFd signal_fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));

  const absl::StatusOr<uint64_t> descriptors =
      RaiseDescriptorLimit("muster-worker", kLeastDescriptors, kWantedDescriptors);
  if (!descriptors.ok()) return ExitCodeOf(descriptors.status());
  AgentConfig config = line->config;
  config.rank_file_mask = given_mask;
  RealClock clock;
  absl::StatusOr<std::unique_ptr<Agent>> agent = Agent::Create(config, clock, PosixFileSystem());
  if (!agent.ok()) return ExitCodeOf(agent.status());
  if (IsUnguarded(config)) {
    Log(LogLevel::kWarning, "insecure",
        {{"meaning", "beyond loopback without TLS: anyone on the path reads and changes all"}});
  }
  (*agent)->loop().Watch(signal_fd.get(), POLLIN, [&](short) {
    signalfd_siginfo info = {};
    if (::read(signal_fd.get(), &info, sizeof info) != sizeof info) return;
    (*agent)->BeginStop(info.ssi_signo == SIGTERM ? "the agent got SIGTERM"
                                                  : "the agent got SIGINT");
  });
  const absl::Status status = (*agent)->Run();
  return status.ok() ? 0 : ExitCodeOf(status);
}

}  // namespace
}  // namespace muster::worker

int main(int argc, char** argv) { return muster::worker::Main(argc, argv); }
