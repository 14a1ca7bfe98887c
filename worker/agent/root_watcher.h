// Looks at the checkpoint roots that the controller names, again and again: whether each is the
// root itself, and takes what a checkpoint does to it.
//
// Such a folder may hang (a server of a network file system that is away), so that nothing of it is
// touched on the agent's loop: each look runs on a thread of its own, and one that takes
// longer than the patience is said to hang, while other roots are looked at. Lives
// on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/fs/file_system.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/mailbox.h"
#include "worker/agent/timers.h"

namespace muster::worker {

struct RootWatcherOptions {
  std::string who;  // names the files of a probe: of this agent alone
  absl::Duration every = absl::Seconds(5);
  absl::Duration patience =
      absl::Seconds(10);  // less than the controller's for a claim, or as much
};

class RootWatcher {
 public:
  // Threads that may hang in looks at the same time; beyond that roots wait for their look.
  static constexpr int kMaxLooking = 32;

  // `fs` lives for ever: a look that hangs may outlive the watcher. `changed` is called on the loop
  // when the report is another one.
  RootWatcher(FileSystem& fs, Timers& timers, std::shared_ptr<Mailbox> mailbox,
              RootWatcherOptions options, std::function<void()> changed);
  ~RootWatcher();
  RootWatcher(const RootWatcher&) = delete;
  RootWatcher& operator=(const RootWatcher&) = delete;

  // What there is to look at from now on.
  void Watch(const v1::WatchRoots& roots);

  // Of the roots that have been looked at.
  v1::RootReport Report() const;

 private:
  struct Look {
    std::string identity;  // "" with why
    std::string message;   // beside an identity: nothing can be written there
    bool fine() const { return !identity.empty() && message.empty(); }
    bool operator==(const Look&) const = default;
  };
  struct Watched {
    v1::WatchRoots::Root root;
    uint64_t id = 0;           // of this question; another one under the same path has another
    std::optional<Look> seen;  // none yet
    bool looking = false;
    bool due = false;  // to be looked at once a thread is there
    uint64_t looks = 0;
    uint64_t timer = 0;  // to look again, or to say that it hangs
  };

  static Look LookAt(FileSystem& fs, const v1::WatchRoots::Root& root, const std::string& who,
                     bool probe);
  void Begin(Watched& watched);
  void OnLooked(const std::string& path, uint64_t id, Look look);
  void OnHangs(const std::string& path, uint64_t id, uint64_t look);
  void Take(Watched& watched, Look look);
  void BeginDue();

  FileSystem& fs_;
  Timers& timers_;
  const std::shared_ptr<Mailbox> mailbox_;
  const RootWatcherOptions options_;
  const std::function<void()> changed_;
  std::map<std::string, Watched> watched_;  // by path
  uint64_t last_id_ = 0;
  int looking_ = 0;  // threads
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::worker
