// One run of a program beside the ranks, such as `podman pull`: in a process group of its own, dead
// with the agent at the latest, with a bound on its time. On the loop.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/fs/file_system.h"
#include "worker/agent/base/event_loop.h"
#include "worker/agent/process/child_processes.h"
#include "worker/agent/process/rank_process.h"

namespace muster::worker {

struct ToolResult {
  bool timed_out = false;  // it was killed
  int exit_code = 0;
  int signal = 0;
  // The end of what it wrote, at most kMaxToolOutput bytes of each.
  std::string output;
  std::string errors;

  bool ok() const { return !timed_out && exit_code == 0 && signal == 0; }
};
inline constexpr uint64_t kMaxToolOutput = 16u << 10;

struct ToolCommand {
  std::string program;             // a path
  std::vector<std::string> words;  // without the program's name
  std::vector<std::string> environment;
  std::string folder;                // made for what it writes, removed at the end; nobody else's
  absl::Duration patience;           // infinite: no bound
  std::optional<mode_t> file_mask;   // its umask; nothing: the agent's
  std::optional<int> oom_score_adj;  // nothing: the agent's
};

class ToolRun {
 public:
  using Done = std::function<void(ToolResult)>;
  // `done` comes on a later turn, and may destroy the run. Errors are RankProcess::Start's or the
  // file system's. `loop`, `fs` and `children` outlive it.
  static absl::StatusOr<std::unique_ptr<ToolRun>> Start(EventLoop& loop, FileSystem& fs,
                                                        ChildProcesses& children,
                                                        ToolCommand command, Done done);
  // Kills it where it runs, and waits for its end unless it was abandoned; `done` does not come any
  // more.
  ~ToolRun();
  ToolRun(const ToolRun&) = delete;
  ToolRun& operator=(const ToolRun&) = delete;

  // Kills it, and does not count on its end: `done` comes once it has died, which may be never.
  void Abandon();
  // To stdout and stderr so far.
  uint64_t BytesWritten();
  // By its own process so far, from whatever it reads; zero when the kernel does not tell.
  uint64_t BytesRead() const;

 private:
  ToolRun(EventLoop& loop, FileSystem& fs, std::string folder, Done done)
      : loop_(loop), fs_(fs), folder_(std::move(folder)), done_(std::move(done)) {}
  void OnExit();
  std::string EndOf(const char* file);

  EventLoop& loop_;
  FileSystem& fs_;
  const std::string folder_;
  const Done done_;
  std::unique_ptr<RankProcess> process_;
  EventLoop::TimerId timer_ = 0;
  bool watched_ = false;
  bool timed_out_ = false;
};

}  // namespace muster::worker
