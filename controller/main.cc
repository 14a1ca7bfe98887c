// musterd: Muster's controller. `musterd --help` lists its flags; server.h says what it is made of.
#include <malloc.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/code_version.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/daemon/descriptor_limit.h"
#include "common/fs/file_system.h"
#include "controller/backup/restore_command.h"
#include "controller/config.h"
#include "controller/server.h"
#include "controller/setup/setup_command.h"

namespace muster::controller {
namespace {

constexpr int kExitOk = 0;
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr absl::Duration kInsecureWarning = absl::Minutes(1);
// Many threads of ours wait most of the time: an arena for each would cost more memory than the
// data.
constexpr int kMallocArenas = 2;
constexpr int kTrimBytes = 1 << 20;

// Fewer serve hardly anybody; so many serve 180,000 agents, of which each has two connections.
constexpr uint64_t kLeastDescriptors = 1024;
constexpr uint64_t kWantedDescriptors = 524'288;

int Fail(const absl::Status& status, int code) {
  std::fprintf(stderr, "musterd: %s\n", std::string(status.message()).c_str());
  return code;
}

// Until SIGTERM or SIGINT, which must be blocked.
void WaitForEnd(const sigset_t& signals, bool warn) {
  const timespec interval = absl::ToTimespec(kInsecureWarning);
  while (true) {
    if (warn) {
      Log(LogLevel::kWarning, "insecure",
          {{"meaning",
            "serving beyond loopback without TLS: anyone on the path reads and changes all"}});
    }
    siginfo_t info;
    const int signal = ::sigtimedwait(&signals, &info, &interval);
    if (signal > 0) {
      Log(LogLevel::kInfo, "stopping", {{"signal", signal}});
      return;
    }
  }
}

int SetUp(int argc, char** argv) {
  ::umask(077);
  const absl::StatusOr<std::string> text =
      RunSetupCommand(argc, argv, PosixFileSystem(), RealClock().Now());
  if (!text.ok()) {
    return Fail(text.status(), absl::IsInvalidArgument(text.status()) ? kExitUsage : kExitFailed);
  }
  std::fputs(text->c_str(), stdout);
  return kExitOk;
}

int RestoreBackup(int argc, char** argv) {
  ::umask(077);
  const absl::StatusOr<std::string> text =
      RunRestoreCommand(argc, argv, PosixFileSystem(), RealClock().Now());
  if (!text.ok()) {
    return Fail(text.status(), absl::IsInvalidArgument(text.status()) ? kExitUsage : kExitFailed);
  }
  std::fputs(text->c_str(), stdout);
  return kExitOk;
}

int Main(int argc, char** argv) {
  SetLogProgram("musterd");
  SetCommit(CodeVersion());
  if (IsSetupCommand(argc, argv)) return SetUp(argc, argv);
  if (IsRestoreCommand(argc, argv)) return RestoreBackup(argc, argv);
  const absl::StatusOr<CommandLine> line = ParseCommandLine(argc, argv);
  if (!line.ok()) return Fail(line.status(), kExitUsage);
  if (!line->text.empty()) {
    std::fputs(line->text.c_str(), stdout);
    return kExitOk;
  }
  // gRPC's locks: Debian builds Abseil so that each would keep a graph of who waits for whom.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // gRPC's own lines on stderr say in its words what ours say already.
  ::setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  ::mallopt(M_ARENA_MAX, kMallocArenas);
  ::mallopt(M_TRIM_THRESHOLD, kTrimBytes);
  // Databases and the token are the owner's alone.
  ::umask(077);
  // Before any thread starts, so that all of them inherit it.
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);

  const absl::StatusOr<uint64_t> descriptors =
      RaiseDescriptorLimit("musterd", kLeastDescriptors, kWantedDescriptors);
  if (!descriptors.ok()) return Fail(descriptors.status(), kExitFailed);
  Config config = line->config;
  config.max_descriptors = *descriptors;
  RealClock clock;
  const auto on_fatal = [](const absl::Status& status) {
    Log(LogLevel::kError, "fatal", {{"error", status.ToString()}});
    // No clean stop: what memory holds must not reach the disk any more. The next start recovers
    // from what is there.
    ::_exit(kExitFailed);
  };
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(config, clock, on_fatal);
  if (!server.ok()) return Fail(server.status(), kExitFailed);
  WaitForEnd(signals, ServesUnencrypted(config));
  (*server)->Stop();
  return kExitOk;
}

}  // namespace
}  // namespace muster::controller

int main(int argc, char** argv) { return muster::controller::Main(argc, argv); }
