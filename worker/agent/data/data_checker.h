// Looks at the data of jobs for the controller, before it places ranks here: runs `muster-data
// preflight` as a rank's user, with a rank's environment, and keeps what came of it.
//
// Data lie where users say, which may hang: so nothing of them is touched in this process. A look
// may take hours, as where it makes the index of a large set, as long as it reads or says
// something; one that does neither for `silence` is killed, and said to hang. A few run at a time,
// others wait their turn. What does not even die of SIGKILL is left behind, and only so many of
// those. Lives on the loop.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/fs/file_system.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/base/event_loop.h"
#include "worker/agent/container/tool_run.h"
#include "worker/agent/process/child_processes.h"

namespace muster::worker {

struct DataCheckerOptions {
  std::string program;                   // muster-data
  std::string folder;                    // the looks' own; emptied at the start
  std::vector<std::string> environment;  // all of it
  std::optional<mode_t> file_mask;       // nothing: the agent's
  absl::Duration silence = absl::Minutes(10);
  absl::Duration look_every = absl::Seconds(5);  // whether it is silent; what is killed dies sooner
  // A look that has taken so long leaves its place among kAtOnce to another.
  absl::Duration quick = absl::Minutes(1);
  // How long looks go on after the stream on which they were asked for.
  absl::Duration unasked = absl::Minutes(10);
};

class DataChecker {
 public:
  // Looks under way at a time, besides those that take long, or that nobody asks about now.
  static constexpr size_t kAtOnce = 2;
  // All of them. Where they are so many, one that nobody asks about gives way.
  static constexpr size_t kMaxLooks = 8;
  // That wait beside them; what is asked beyond gets an answer at once.
  static constexpr size_t kMaxQueued = 64;
  // Killed ones that have not died.
  static constexpr size_t kMaxLeftBehind = 8;
  // Verdicts that a report has; those of the oldest questions are forgotten first.
  static constexpr size_t kMaxVerdicts = 256;
  // What one look may write to stdout and stderr together.
  static constexpr uint64_t kMaxOutput = 1u << 20;

  // `changed` is called on the loop when the report is another one. The others outlive it.
  DataChecker(EventLoop& loop, FileSystem& fs, ChildProcesses& children, DataCheckerOptions options,
              std::function<void()> changed);
  // Kills what still runs.
  ~DataChecker();
  DataChecker(const DataChecker&) = delete;
  DataChecker& operator=(const DataChecker&) = delete;

  // A question of a key that is looked at already takes the answer to come. Numbers begin anew on
  // each stream.
  void Check(const v1::CheckData& check);
  // Who asked is away: forgets all verdicts and questions. Looks under way may be hours into an
  // index, and go on for a while, in case they are asked for again.
  void OnSessionDown();
  // Nobody will ask any more: ends the looks, too, and keeps what does not die of it.
  void Clear();

  v1::DataReport Report() const;

 private:
  struct Look {
    std::string key;
    uint64_t number = 0;
    std::unique_ptr<ToolRun> run;
    uint64_t signs = 0;       // bytes that it has read and written
    absl::Duration signs_at;  // since boot, when they last grew
    uint64_t timer = 0;
    absl::Duration begun_at;                      // since boot
    std::optional<absl::Duration> unasked_since;  // since boot; nothing: somebody waits for it
  };

  // Killed, and a leader of `children_` until it has died.
  struct LeftBehind {
    std::string key;
    std::unique_ptr<ToolRun> run;
    absl::Duration killed_at;  // since boot
  };

  void BeginNext();
  bool MakePlace();
  void Begin(const v1::CheckData& check);
  absl::StatusOr<std::unique_ptr<ToolRun>> Run(uint64_t id, const std::string& folder,
                                               const std::string& spec_json);
  void Watch(uint64_t id);
  // Whether one of the key was killed and does not die.
  bool HangsStill(const std::string& key) const;
  // Kills it, and keeps it until it has died.
  Look LeaveBehind(uint64_t id);
  // The same, with this answer.
  void GiveUp(uint64_t id, const char* fault, const std::string& error);
  void OnEnd(uint64_t id, const ToolResult& result);
  void Say(v1::DataReport::Verdict verdict);

  EventLoop& loop_;
  FileSystem& fs_;
  ChildProcesses& children_;
  const DataCheckerOptions options_;
  const std::function<void()> changed_;
  std::deque<v1::CheckData> queue_;
  std::map<uint64_t, Look> looks_;
  std::map<uint64_t, LeftBehind> left_behind_;
  std::map<std::string, v1::DataReport::Verdict> verdicts_;  // by key
  uint64_t last_id_ = 0;
};

}  // namespace muster::worker
