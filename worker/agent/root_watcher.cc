#include "worker/agent/root_watcher.h"

#include <sys/stat.h>

#include <thread>
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
                                        const std::string& who) {
  const std::vector<std::string> witnesses(root.witnesses().begin(), root.witnesses().end());
  const std::vector<std::string> missing = MissingFolders(fs, root.path());
  MUSTER_ASSIGN_OR_RETURN(std::string identity,
                          ClaimRoot(fs, root.path(), root.claim(), witnesses, who));
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
      mailbox_(std::move(mailbox)),
      options_(std::move(options)),
      changed_(std::move(changed)) {}

RootWatcher::~RootWatcher() {
  *alive_ = false;
  for (auto& [path, watched] : watched_) timers_.Cancel(watched.timer);
}

RootWatcher::Look RootWatcher::LookAt(FileSystem& fs, const v1::WatchRoots::Root& root,
                                      const std::string& who, bool probe) {
  if (root.identity().empty()) {
    const absl::StatusOr<std::string> claimed = ClaimForAll(fs, root, who);
    if (claimed.ok()) return {.identity = *claimed, .message = {}};
    return {.identity = {}, .message = std::string(claimed.status().message())};
  }
  const CheckpointRoot known{.path = root.path(), .identity = root.identity()};
  const absl::Status status = probe ? ProbeRoot(fs, known, who) : CheckRoot(fs, known);
  // A full one is there: what is in it can be read, and must be deleted.
  const bool seen = status.ok() || absl::IsResourceExhausted(status);
  return {.identity = seen ? root.identity() : "", .message = std::string(status.message())};
}

void RootWatcher::Watch(const v1::WatchRoots& roots) {
  const std::string before = Report().SerializeAsString();
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
  for (auto& [path, watched] : watched_) {
    if (watched.timer == 0 && !watched.looking) watched.due = true;
  }
  BeginDue();
  if (Report().SerializeAsString() != before) changed_();
}

void RootWatcher::BeginDue() {
  for (auto& [path, watched] : watched_) {
    if (looking_ >= kMaxLooking) return;
    if (watched.due && !watched.looking) Begin(watched);
  }
}

void RootWatcher::Begin(Watched& watched) {
  timers_.Cancel(watched.timer);
  watched.due = false;
  watched.looking = true;
  ++looking_;
  const uint64_t look = ++watched.looks;
  const std::string path = watched.root.path();
  watched.timer = timers_.After(options_.patience,
                                [this, path, id = watched.id, look] { OnHangs(path, id, look); });
  // Written to when it is new here, or was away.
  const bool probe = !watched.seen.has_value() || !watched.seen->fine();
  mailbox_->AddSender();
  std::thread([this, alive = alive_, mailbox = mailbox_, &fs = fs_, root = watched.root,
               who = options_.who, probe, id = watched.id, path] {
    Look result = LookAt(fs, root, who, probe);
    mailbox->Post([this, alive, path, id, result = std::move(result)] {
      if (*alive) OnLooked(path, id, result);
    });
    mailbox->RemoveSender();
  }).detach();
}

void RootWatcher::OnLooked(const std::string& path, uint64_t id, Look look) {
  --looking_;
  const auto it = watched_.find(path);
  if (it != watched_.end() && it->second.id == id) {
    Watched& watched = it->second;
    watched.looking = false;
    timers_.Cancel(watched.timer);
    watched.timer = timers_.After(options_.every, [this, path, id] {
      const auto due = watched_.find(path);
      if (due == watched_.end() || due->second.id != id) return;
      due->second.due = true;
      BeginDue();
    });
    Take(watched, std::move(look));
  }
  BeginDue();
}

void RootWatcher::OnHangs(const std::string& path, uint64_t id, uint64_t look) {
  const auto it = watched_.find(path);
  if (it == watched_.end() || it->second.id != id || it->second.looks != look) return;
  Take(it->second,
       {.identity = {},
        .message = absl::StrCat("checkpoint root ", path, ": no answer within ",
                                HumanDuration(options_.patience), ": does its file system hang?")});
}

void RootWatcher::Take(Watched& watched, Look look) {
  if (watched.seen.has_value() && *watched.seen == look) return;
  Log(look.fine() ? LogLevel::kInfo : LogLevel::kWarning, "checkpoint_root",
      {{"root", watched.root.path()}, {"identity", look.identity}, {"error", look.message}});
  watched.seen = std::move(look);
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
