// Looks at the checkpoint roots that the controller names, again and again: whether each is the
// root itself, and takes what a checkpoint does to it.
//
// Such a folder may hang (a server of a network file system that is away), so that nothing of it is
// touched on the agent's loop: each probe runs on a side thread, and one that takes longer than the
// patience is said to hang, while other roots are looked at. At most one thread waits for a path on
// one mount, also when the controller asks about it, no more, and again; and a few for all that lie
// on one mount, which hang together. Where another mount has taken the place of the one that hangs,
// the probe is left behind there, perhaps for ever, and a new one begins. Lives on the loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/fs/file_system.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/base/mailbox.h"
#include "worker/agent/base/side_threads.h"
#include "worker/agent/base/timers.h"
#include "worker/agent/checkpoint/mount_point.h"

namespace muster::worker {

struct RootWatcherOptions {
  std::string who;  // names the files of a probe: of this agent alone
  absl::Duration every = absl::Seconds(5);
  // A probe that hangs is reported an eighth of it later at most, after 9 s: before the controller
  // stops waiting for a claim (10 s).
  absl::Duration patience = absl::Seconds(8);
  // What mounts there are (mount_point.h). Asked on the loop before a probe, once in `every` at
  // most.
  std::function<std::string()> mount_info = ReadMountInfo;
};

class RootWatcher {
 public:
  // Threads that may hang in probes at the same time, each at another path; beyond that roots wait
  // for their look, and their reports say for what.
  static constexpr size_t kMaxProbes = 32;
  // Of them, on the same mount.
  static constexpr size_t kMaxProbesOnMount = 8;
  // Probes that are left behind on earlier mounts and have not come back. Beyond that a root that
  // is mounted anew is not looked at before its last probe comes back.
  static constexpr size_t kMaxLeftBehind = 16;

  // `fs` lives for ever: a probe that hangs may outlive the watcher. `changed` is called on the
  // loop when the report is another one. `timers` calls nothing more once the watcher is gone.
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
  struct Probe {
    std::string identity;  // "" with why
    std::string message;   // beside an identity: nothing can be written there
    bool fine() const { return !identity.empty() && message.empty(); }
    bool operator==(const Probe&) const = default;
  };
  struct Watched {
    v1::WatchRoots::Root root;
    uint64_t id = 0;            // of this question; another one under the same path has another
    std::optional<Probe> seen;  // none yet
    uint64_t timer = 0;         // to probe again, or to say that the probe before it hangs
  };
  using GivenUp = std::shared_ptr<std::atomic<bool>>;
  // A probe that has not come back; of a question that may not be asked any more.
  struct Out {
    uint64_t id = 0;
    std::string mount;
    GivenUp given_up;  // it hangs, or is not asked any more; each probe has its own
  };

  static Probe ProbeKnown(FileSystem& fs, const v1::WatchRoots::Root& root, const std::string& who,
                          bool probe);
  static Probe Claim(FileSystem& fs, const v1::WatchRoots::Root& root, const std::string& who,
                     const std::atomic<bool>& given_up);
  Watched* Find(const std::string& path, uint64_t id);
  void Begin(Watched& watched);
  void BeginAfter(absl::Duration delay, Watched& watched);
  // Whether that probe is the path's last one, and was not left behind.
  bool IsLast(const std::string& path, const GivenUp& given_up) const;
  void OnProbed(const std::string& path, Probe result);
  void OnStall(const std::string& path, const absl::Status& stall, bool began);
  void SayThatItHangs(const std::string& path, uint64_t id);
  void Take(Watched& watched, Probe result);

  FileSystem& fs_;
  Timers& timers_;
  const RootWatcherOptions options_;
  const std::function<void()> changed_;
  std::map<std::string, Watched> watched_;  // by path
  std::map<std::string, Out> out_;          // by path: its last probe
  size_t left_behind_ = 0;
  uint64_t last_id_ = 0;
  MountTable mounts_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  SideThreads threads_;  // last: it uses all of the above
};

}  // namespace muster::worker
