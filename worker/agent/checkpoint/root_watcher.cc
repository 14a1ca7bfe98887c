#include "worker/agent/checkpoint/root_watcher.h"

#include <sys/stat.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/ckpt/checkpoint_root.h"

namespace muster::worker {
namespace {

constexpr mode_t kRootMode = 0755;
constexpr mode_t kMarkerMode = 0644;

// The folders on the way to `root` that are not there, the innermost first.
std::vector<std::string> MissingFolders(FileSystem& fs, std::string root) {
  std::vector<std::string> missing;
  for (; root.size() > 1 && !fs.Exists(root).value_or(true); root.resize(root.rfind('/')))
    missing.push_back(root);
  return missing;
}

// The agent's umask is for its own files: people read a checkpoint root, and agents of other users.
absl::StatusOr<std::string> ClaimForAll(FileSystem& fs, const v1::WatchRoots::Root& root,
                                        const std::string& who, const std::atomic<bool>& given_up) {
  const std::vector<std::string> witnesses(root.witnesses().begin(), root.witnesses().end());
  const std::vector<std::string> missing = MissingFolders(fs, root.path());
  MUSTER_ASSIGN_OR_RETURN(std::string identity,
                          ClaimRoot(fs, {root.path(), root.claim()}, witnesses, who,
                                    [&given_up] { return !given_up; }));
  // Where that is not allowed, another one made them meanwhile.
  for (const std::string& folder : missing) ::chmod(folder.c_str(), kRootMode);
  if (identity == root.claim())
    ::chmod(absl::StrCat(root.path(), "/", kRootMarker).c_str(), kMarkerMode);
  return identity;
}

}  // namespace

RootWatcher::RootWatcher(FileSystem& fs, Timers& timers, std::shared_ptr<Mailbox> mailbox,
                         RootWatcherOptions options, std::function<void()> changed)
    : fs_(fs),
      timers_(timers),
      options_(std::move(options)),
      changed_(std::move(changed)),
      mounts_(timers.clock(), options_.every, options_.mount_info),
      threads_(std::move(mailbox), kMaxProbes, kMaxProbesOnMount) {}

RootWatcher::~RootWatcher() {
  *alive_ = false;
  for (auto& [path, out] : out_) *out.given_up = true;
  for (auto& [path, watched] : watched_) timers_.Cancel(watched.timer);
}

RootWatcher::Probe RootWatcher::Claim(FileSystem& fs, const v1::WatchRoots::Root& root,
                                      const std::string& who, const std::atomic<bool>& given_up) {
  const absl::StatusOr<std::string> claimed = ClaimForAll(fs, root, who, given_up);
  if (claimed.ok()) return {.identity = *claimed, .message = {}};
  return {.identity = {}, .message = std::string(claimed.status().message())};
}

RootWatcher::Probe RootWatcher::ProbeKnown(FileSystem& fs, const v1::WatchRoots::Root& root,
                                           const std::string& who, bool probe) {
  const CheckpointRoot known{.path = root.path(), .identity = root.identity()};
  const absl::Status status = probe ? ProbeRoot(fs, known, who) : CheckRoot(fs, known);
  // A full one is there: what is in it can be read, and must be deleted.
  const bool seen = status.ok() || absl::IsResourceExhausted(status);
  return {.identity = seen ? root.identity() : "", .message = std::string(status.message())};
}

void RootWatcher::Watch(const v1::WatchRoots& roots) {
  const std::string before = Report().SerializeAsString();
  const uint64_t last_before = last_id_;
  std::map<std::string, Watched> wanted;
  for (const v1::WatchRoots::Root& root : roots.roots()) {
    const auto known = watched_.find(root.path());
    const bool same = known != watched_.end() && known->second.root.identity() == root.identity() &&
                      known->second.root.claim() == root.claim();
    if (same) {
      wanted.insert(watched_.extract(known));
      continue;
    }
    Watched& fresh = wanted[root.path()];
    fresh.root = root;
    fresh.id = ++last_id_;
    // What was found while it was unknown is what is now known of it.
    const bool found_here = known != watched_.end() && known->second.seen.has_value() &&
                            !root.identity().empty() &&
                            known->second.seen->identity == root.identity();
    if (found_here) fresh.seen = known->second.seen;
  }
  for (auto& [path, gone] : watched_) timers_.Cancel(gone.timer);
  watched_ = std::move(wanted);
  for (auto& [path, out] : out_) {
    if (Find(path, out.id) == nullptr) *out.given_up = true;
  }
  for (auto& [path, watched] : watched_) {
    if (watched.id > last_before) Begin(watched);
  }
  if (Report().SerializeAsString() != before) changed_();
}

RootWatcher::Watched* RootWatcher::Find(const std::string& path, uint64_t id) {
  const auto it = watched_.find(path);
  return it == watched_.end() || it->second.id != id ? nullptr : &it->second;
}

void RootWatcher::Begin(Watched& watched) {
  timers_.Cancel(watched.timer);
  const std::string path = watched.root.path();
  const std::string mount = mounts_.Of(path);
  const auto before = out_.find(path);
  // Empty: nobody says now what is mounted there.
  const bool is_another = before != out_.end() && !mount.empty() && mount != before->second.mount;
  if (is_another && left_behind_ < kMaxLeftBehind) {
    *before->second.given_up = true;
    out_.erase(before);
    ++left_behind_;
  }
  const auto [out, is_first] = out_.try_emplace(path);
  if (!is_first) {
    // An earlier probe hangs there. When it comes back this one begins.
    watched.timer = timers_.After(options_.patience,
                                  [this, path, id = watched.id] { SayThatItHangs(path, id); });
    return;
  }
  const auto given_up = std::make_shared<std::atomic<bool>>(false);
  out->second = {.id = watched.id, .mount = mount, .given_up = given_up};
  // Written to when it is new here, or was away.
  const bool probe = !watched.seen.has_value() || !watched.seen->fine();
  const auto watch = std::make_shared<PathWatch>(mount);
  EnqueueWatched(
      timers_, threads_,
      [this, alive = alive_, &fs = fs_, root = watched.root, who = options_.who, probe, watch,
       given_up]() -> SideThreads::Completion {
        // Off the loop: nothing of *this is touched here.
        watch->Touch(root.path());
        Probe result = root.identity().empty() ? Claim(fs, root, who, *given_up)
                                               : ProbeKnown(fs, root, who, probe);
        return [this, alive, path = root.path(), given_up, result = std::move(result)] {
          if (!*alive) return;
          IsLast(path, given_up) ? OnProbed(path, result) : (void)--left_behind_;
        };
      },
      watch, options_.patience,
      [this, alive = alive_, path, given_up](const absl::Status& stall, bool began) {
        if (!*alive) return;
        if (IsLast(path, given_up)) return OnStall(path, stall, began);
        if (!began) --left_behind_;
      });
}

bool RootWatcher::IsLast(const std::string& path, const GivenUp& given_up) const {
  const auto out = out_.find(path);
  return out != out_.end() && out->second.given_up == given_up;
}

void RootWatcher::BeginAfter(absl::Duration delay, Watched& watched) {
  timers_.Cancel(watched.timer);
  watched.timer = timers_.After(delay, [this, path = watched.root.path(), id = watched.id] {
    if (Watched* due = Find(path, id); due != nullptr) Begin(*due);
  });
}

void RootWatcher::OnProbed(const std::string& path, Probe result) {
  const uint64_t id = out_.extract(path).mapped().id;
  const auto it = watched_.find(path);
  if (it == watched_.end()) return;
  if (it->second.id != id) return Begin(it->second);
  BeginAfter(options_.every, it->second);
  Take(it->second, std::move(result));
}

void RootWatcher::OnStall(const std::string& path, const absl::Status& stall, bool began) {
  const auto out = out_.find(path);
  const uint64_t id = out->second.id;
  if (began) {
    *out->second.given_up = true;
    return SayThatItHangs(path, id);
  }
  // No thread was there for it, and it was taken back.
  out_.erase(out);
  const auto it = watched_.find(path);
  if (it == watched_.end()) return;
  BeginAfter(options_.every, it->second);
  Take(it->second, {.identity = {},
                    .message = absl::StrCat("checkpoint root ", path,
                                            " cannot be looked at: ", stall.message())});
}

void RootWatcher::SayThatItHangs(const std::string& path, uint64_t id) {
  Watched* watched = Find(path, id);
  if (watched == nullptr) return;
  // Another mount may have taken its place by then.
  BeginAfter(options_.every, *watched);
  Take(*watched,
       {.identity = {},
        .message = absl::StrCat("checkpoint root ", path, ": no answer within ",
                                HumanDuration(options_.patience), ": does its file system hang?")});
}

void RootWatcher::Take(Watched& watched, Probe result) {
  if (watched.seen.has_value() && *watched.seen == result) return;
  Log(result.fine() ? LogLevel::kInfo : LogLevel::kWarning, "checkpoint_root",
      {{"root", watched.root.path()}, {"identity", result.identity}, {"error", result.message}});
  watched.seen = std::move(result);
  changed_();
}

v1::RootReport RootWatcher::Report() const {
  v1::RootReport report;
  for (const auto& [path, watched] : watched_) {
    if (!watched.seen.has_value()) continue;
    v1::RootReport::Root& root = *report.add_roots();
    root.set_path(path);
    root.set_identity(watched.seen->identity);
    root.set_message(watched.seen->message);
  }
  return report;
}

}  // namespace muster::worker
