// A program that runs beside a rank for a person: with pipes, or a terminal of its own, at its
// standard streams. It is killed at the latest when this is destroyed.
//
// One thread starts it, reads what it writes and waits for it; another may give it input.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/unique_fd.h"
#include "muster/v1/exec_service.pb.h"
#include "worker/agent/process/rank_process.h"

namespace muster::worker {

class ExecProgram {
 public:
  // `command` but for its streams; a terminal of this size, or else pipes. Errors are
  // LaunchProcess's; RESOURCE_EXHAUSTED: no pipe or terminal left. What the calling thread starts
  // dies with it. `watch` can end a start that hangs.
  static absl::StatusOr<std::unique_ptr<ExecProgram>> Start(
      RankCommand command, const std::optional<v1::TerminalSize>& terminal, LaunchWatch& watch);
  ~ExecProgram();
  ExecProgram(const ExecProgram&) = delete;
  ExecProgram& operator=(const ExecProgram&) = delete;

  // Where what it writes is read, without waiting. With a terminal both its streams are `out`, and
  // `err` is -1.
  int out() const { return out_.get(); }
  int err() const { return err_.get(); }
  // Readable once it has ended.
  int exit_fd() const { return process_.exit_fd.get(); }

  // The other thread's: gives it input, and waits until it is taken. False: it takes no more.
  bool Write(absl::string_view input);
  void EndInput();
  void Resize(const v1::TerminalSize& size);
  // Any thread: Write waits no more.
  void StopInput();

  // SIGHUP, as from a terminal that is gone; SIGKILL after `patience`. All of its process group.
  void Hangup(absl::Duration patience);
  // Waits for its end, ends what it left in its process group, and reaps it.
  ExitStatus Wait();

 private:
  ExecProgram() = default;

  StartedProcess process_;
  bool reaped_ = false;
  bool has_terminal_ = false;
  UniqueFd in_;  // the terminal, or the pipe to its stdin
  UniqueFd out_;
  UniqueFd err_;
  UniqueFd stop_;  // an eventfd
};

}  // namespace muster::worker
