#include "worker/agent/container/rank_container.h"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "worker/agent/base/rank_files.h"
#include "worker/agent/process/process_scan.h"
#include "worker/agent/telemetry/log_tailer.h"

namespace muster::worker {
namespace {

// From a program's end in a container until its runtime has ended too.
constexpr absl::Duration kRuntimePatience = absl::Seconds(10);
// From a rank's end until what podman's monitor still does for it is ended.
constexpr absl::Duration kMonitorPatience = absl::Seconds(2);
// Between two tries to remove a container.
constexpr absl::Duration kRemovalInterval = absl::Seconds(2);
// Of stderr, for the runtime's last words.
constexpr uint64_t kMaxLastWords = 4096;

}  // namespace

RankContainer::RankContainer(const Deps& deps, ContainerPlan plan, std::string folder,
                             UniqueFd socket, Callbacks callbacks)
    : deps_(deps), plan_(std::move(plan)), folder_(std::move(folder)) {
  if (!socket.valid()) return;
  socket_ = std::make_unique<ContainerSocket>(deps_.loop, std::move(socket));
  socket_->on_running = std::move(callbacks.on_running);
  // podman follows at once, unless its monitor was killed.
  socket_->on_ended = [this, stuck = std::move(callbacks.on_stuck)] {
    deps_.loop.Cancel(timer_);
    timer_ = deps_.loop.After(kRuntimePatience, stuck);
  };
}

RankContainer::~RankContainer() { deps_.loop.Cancel(timer_); }

void RankContainer::Kill() {
  if (socket_ != nullptr) socket_->Close();
}

std::string RankContainer::EndOfErrors() const {
  const absl::StatusOr<RankFile> file = OpenRankFile(folder_, kStderrFile, O_RDONLY);
  return file.ok() ? ReadEnd(*file, kMaxLastWords).value_or("") : "";
}

absl::Status RankContainer::ClassifyEnd(ExitStatus& exit) {
  was_killed_ = exit.signal != 0;
  const std::string errors = EndOfErrors();
  std::string words = ErrorMessageOf(plan_.runtime, errors);
  bool ran = !IsRuntimeFailure(plan_.runtime, exit.code, errors);
  if (socket_ != nullptr) {
    socket_->ReadAll();
    ran = socket_->ran();
    if (!socket_->error().empty()) words = socket_->error();
    // An exit code of 128 and more may be the program's own.
    if (socket_->signal() != 0) exit = {.code = 0, .signal = socket_->signal()};
    socket_->Close();
  }
  deps_.loop.Cancel(timer_);
  if (ran) return absl::OkStatus();
  return absl::UnavailableError(words.empty() ? "the container runtime ended before the program ran"
                                              : words);
}

bool RankContainer::AwaitMonitor() {
  if (!by_podman()) return false;
  const std::vector<ProcessId> monitor = FindContainerProcesses(plan_.name);
  // The monitor forks once more when it begins, between two looks as it may be.
  if (monitor.empty()) return was_killed_ && !std::exchange(seen_clear_, true);
  seen_clear_ = false;
  const absl::Duration now = deps_.loop.clock().SinceBoot();
  monitor_seen_ = std::min(monitor_seen_, now);
  if (now - monitor_seen_ > kMonitorPatience) {
    for (const ProcessId& process : monitor) SignalProcess(process, SIGKILL);
  }
  return true;
}

void RankContainer::Remove(std::function<void()> done) {
  removing_ = true;
  deps_.containers.Remove(plan_, folder_, [this, done](const absl::Status& status) {
    if (status.ok()) return done();
    removal_error_ = std::string(status.message());
    Log(LogLevel::kWarning, "container_not_removed", {{"error", removal_error_}});
    timer_ = deps_.loop.After(kRemovalInterval, [this, done] { Remove(done); });
  });
}

std::string RankContainer::RemovalTrouble() const {
  if (!removing_ || !removal_error_.empty()) return removal_error_;
  return absl::StrCat("container ", plan_.name, ": podman does not answer");
}

}  // namespace muster::worker
