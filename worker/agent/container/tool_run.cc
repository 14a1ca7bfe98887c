#include "worker/agent/container/tool_run.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "worker/agent/telemetry/log_tailer.h"

namespace muster::worker {

absl::StatusOr<std::unique_ptr<ToolRun>> ToolRun::Start(EventLoop& loop, FileSystem& fs,
                                                        ChildProcesses& children,
                                                        ToolCommand command, Done done) {
  MUSTER_RETURN_IF_ERROR(fs.MakeDirectories(command.folder));
  std::unique_ptr<ToolRun> run(new ToolRun(loop, fs, command.folder, std::move(done)));
  RankCommand process;
  process.program = command.program;
  process.argv = {command.program};
  process.argv.insert(process.argv.end(), command.words.begin(), command.words.end());
  process.environment = std::move(command.environment);
  process.directory = command.folder;
  process.log_directory = command.folder;
  process.link = false;
  process.file_mask = command.file_mask;
  process.oom_score_adj = command.oom_score_adj;
  MUSTER_ASSIGN_OR_RETURN(run->process_, RankProcess::Start(process, children));
  ToolRun* self = run.get();
  loop.Watch(run->process_->exit_fd(), POLLIN, [self](short) { self->OnExit(); });
  run->watched_ = true;
  if (command.patience == absl::InfiniteDuration()) return run;
  run->timer_ = loop.After(command.patience, [self] {
    self->timed_out_ = true;
    self->process_->SignalGroup(SIGKILL);
  });
  return run;
}

ToolRun::~ToolRun() {
  loop_.Cancel(timer_);
  if (watched_) loop_.Unwatch(process_->exit_fd());
  process_.reset();
  fs_.RemoveTree(folder_).IgnoreError();
}

void ToolRun::Abandon() {
  process_->SignalGroup(SIGKILL);
  process_->GiveUp();
}

uint64_t ToolRun::BytesWritten() {
  uint64_t bytes = 0;
  for (const char* file : {kStdoutFile, kStderrFile}) {
    bytes += fs_.FileSize(absl::StrCat(folder_, "/", file)).value_or(0);
  }
  return bytes;
}

uint64_t ToolRun::BytesRead() const {
  constexpr uint64_t kMaxBytes = 4096;
  const std::string path = absl::StrCat("/proc/", process_->pid(), "/io");
  const std::string text = PosixFileSystem().ReadFile(path, kMaxBytes).value_or("");
  absl::string_view line = absl::string_view(text).substr(0, text.find('\n'));
  uint64_t bytes = 0;
  return absl::ConsumePrefix(&line, "rchar: ") && absl::SimpleAtoi(line, &bytes) ? bytes : 0;
}

std::string ToolRun::EndOf(const char* file) {
  const std::string path = folder_ + "/" + file;
  const absl::StatusOr<uint64_t> size = fs_.FileSize(path);
  if (!size.ok()) return "";
  std::string text(std::min(*size, kMaxToolOutput), '\0');
  const absl::StatusOr<uint64_t> got =
      fs_.ReadAt(path, *size - text.size(), text.data(), text.size());
  text.resize(got.ok() ? *got : 0);
  return text;
}

void ToolRun::OnExit() {
  const std::optional<ExitStatus> exit = process_->Ended();
  if (!exit.has_value()) return;
  loop_.Unwatch(process_->exit_fd());
  watched_ = false;
  loop_.Cancel(timer_);
  ToolResult result{.timed_out = timed_out_,
                    .exit_code = exit->code,
                    .signal = exit->signal,
                    .output = EndOf(kStdoutFile),
                    .errors = EndOf(kStderrFile)};
  process_->SignalGroup(SIGKILL);
  process_->Reap();
  // A copy: the call may destroy this.
  timer_ = loop_.After(absl::ZeroDuration(), [done = done_, result = std::move(result)]() mutable {
    done(std::move(result));
  });
}

}  // namespace muster::worker
