// muster-trainer: one rank of a training job. Started by the agent with --launch FILE and a socket
// in MUSTER_LINK_FD. People may call `muster-trainer forward` (forward.h).
//
// Exit codes: 0 succeeded, or stopped as asked; 1 failed, after a ResultLine that says why; 2 bad
// usage.
#include <signal.h>
#include <stdlib.h>

#include <cstdio>
#include <iostream>
#include <limits>
#include <optional>

#ifdef MUSTER_MIMALLOC
#include <mimalloc.h>
#endif

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/code_version.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/fs/file_system.h"
#include "worker/link/launch.h"
#include "worker/train/run/failure.h"
#include "worker/trainer/rank/rank_program.h"
#include "worker/trainer/trainer_commands.h"

namespace muster::worker {
namespace {

constexpr uint64_t kMaxLaunchBytes = 16u << 20;
constexpr absl::Duration kLastAcksTimeout = absl::Seconds(10);

// Each step frees and allocates the same activations again, tens of milliseconds later. Given back
// to the kernel in between, they would cost a page fault for every 4 KiB; in huge pages they cost
// fewer misses of the TLB, too. MIMALLOC_* variables say otherwise if they are set.
void KeepFreedMemory() {
#ifdef MUSTER_MIMALLOC  // not in builds for sanitizers
  mi_option_set_default(mi_option_allow_decommit, 0);
  // A segment from before this call heeds the delay alone.
  mi_option_set_default(mi_option_decommit_delay, std::numeric_limits<int32_t>::max());  // ms
  mi_option_set_default(mi_option_large_os_pages, 1);
#endif
}

// Gloo writes to peers that may have gone meanwhile: that is an error of the write, not the end.
void IgnoreBrokenPipes() { ::signal(SIGPIPE, SIG_IGN); }

// SIGTERM is read from a signalfd by the link's thread; every later thread inherits the mask.
void BlockSigterm() {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &term, nullptr);
}

absl::StatusOr<UniqueFd> LinkSocket() {
  const char* text = ::getenv(kLinkFdVariable);
  int fd = -1;
  if (text == nullptr || !absl::SimpleAtoi(text, &fd) || fd < 0) {
    return absl::InvalidArgumentError(
        std::string(kLinkFdVariable) +
        " names no socket: muster-trainer is started by muster-worker");
  }
  return UniqueFd(fd);
}

ResultLine ToResultLine(const absl::StatusOr<TrainResult>& result, const LinkClient::Stop& stop) {
  ResultLine line;
  if (result.ok()) {
    line.succeeded = !result->stopped;
    line.stopped = result->stopped;
    line.results = result->results;
    return line;
  }
  line.message = std::string(result.status().message());
  line.failure_class = FailureClassOf(result.status());
  // A rank that was asked to leave while it loaded its data or waited for the others did as it was
  // told.
  if (stop.wanted && (absl::IsCancelled(result.status()) || line.failure_class == kPeerLost)) {
    line.stopped = true;
    line.failure_class.clear();
    line.message = "stopped before training began or went on: " + stop.reason;
  }
  return line;
}

int Report(LinkClient& link, const ResultLine& line) {
  if (const absl::Status acks = link.AwaitAcks(kLastAcksTimeout); !acks.ok()) {
    Log(LogLevel::kWarning, "last_metrics_not_taken", {{"error", acks.ToString()}});
  }
  if (const absl::Status sent = link.Send(line); !sent.ok()) {
    Log(LogLevel::kError, "result_not_sent", {{"error", sent.ToString()}});
    return 1;
  }
  const bool well = line.succeeded || line.stopped;
  Log(well ? LogLevel::kInfo : LogLevel::kError, "rank_ended",
      {{"succeeded", line.succeeded},
       {"stopped", line.stopped},
       {"failure_class", line.failure_class},
       {"message", line.message}});
  return well ? 0 : 1;
}

int RunLaunch(const std::string& launch_file) {
  const auto usage = [](const absl::Status& status) {
    std::cerr << "muster-trainer: " << status.message() << "\n";
    return 2;
  };
  const auto text = PosixFileSystem().ReadFile(launch_file, kMaxLaunchBytes);
  if (!text.ok()) return usage(text.status());
  const auto launch = DecodeLaunch(*text);
  if (!launch.ok()) return usage(launch.status());
  auto socket = LinkSocket();
  if (!socket.ok()) return usage(socket.status());

  const auto spec = trainer_spec::DecodeJobSpec(launch->spec_json);
  if (spec.ok()) SetEnvironment(*launch, *spec);
  BlockSigterm();
  auto link = LinkClient::Start(*std::move(socket), launch->rank);
  if (!link.ok()) return usage(link.status());
  absl::StatusOr<TrainResult> result = absl::InternalError("the rank did not run");
  if (spec.ok()) {
    ConfigureTorch(*spec);
    result = RunRank(*launch, *spec, **link);
  } else {
    result = Classify(spec.status(), kStartFailed, "job spec");
  }
  return Report(**link, ToResultLine(result, (*link)->stop()));
}

int PrintSpec(const std::string& file) {
  const auto text = PosixFileSystem().ReadFile(file, kMaxLaunchBytes);
  const auto spec = text.ok() ? trainer_spec::DecodeJobSpec(*text) : text.status();
  if (!spec.ok()) {
    std::cerr << "muster-trainer: " << file << ": " << spec.status().message() << "\n";
    return 2;
  }
  std::cout << trainer_spec::EncodeJobSpec(*spec) << "\n";
  return 0;
}

int Main(int argc, char** argv) {
  SetLogProgram("muster-trainer");
  SetCommit(CodeVersion());
  KeepFreedMemory();
  IgnoreBrokenPipes();
  CLI::App app("One rank of a training job; started by muster-worker.", "muster-trainer");
  bool version = false;
  std::string launch_file, spec_file;
  app.add_flag("--version", version, "Print the version and leave");
  app.add_option("--launch", launch_file,
                 "The rank's launch.json; the link's socket is in MUSTER_LINK_FD");
  app.add_option("--print-spec", spec_file,
                 "Read a resolved spec (JSON), print it as the trainer understands it, and leave");
  Commands commands(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (const std::optional<int> code = commands.Run()) return *code;
  if (version) {
    std::cout << VersionLine("muster-trainer") << "\n";
    return 0;
  }
  if (!spec_file.empty()) return PrintSpec(spec_file);
  if (launch_file.empty()) {
    std::cerr << "muster-trainer: --launch FILE is missing; see --help\n";
    return 2;
  }
  return RunLaunch(launch_file);
}

}  // namespace
}  // namespace muster::worker

int main(int argc, char** argv) { return muster::worker::Main(argc, argv); }
