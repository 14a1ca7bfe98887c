#include "worker/agent/process/process_scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/unique_fd.h"

namespace muster::worker {
namespace {

// An environment larger than this is cut; the tag stands near its front, since the agent puts it
// there.
constexpr size_t kMaxProcFileBytes = 1u << 20;

thread_local bool missed_some = false;

// After a file of /proc could not be opened, which is mostly since its process is gone.
void NoteWhyNot(int error) {
  missed_some = missed_some || error == EMFILE || error == ENFILE || error == ENOMEM;
}

std::string ReadProcFile(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) NoteWhyNot(errno);
  std::string text;
  char buffer[16384];
  while (fd.valid() && text.size() < kMaxProcFileBytes) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

struct Stat {
  char state = 'Z';
  pid_t parent = 0;
  pid_t group = 0;
  uint64_t started = 0;  // in ticks since boot
};

constexpr size_t kParentField = 1;    // of what follows the name
constexpr size_t kGroupField = 2;     // likewise
constexpr size_t kStartedField = 19;  // likewise; field 22 of proc(5)

// "pid (name) state ppid pgrp ...", where the name may hold anything.
Stat ReadStat(pid_t pid) {
  const std::string text = ReadProcFile(absl::StrCat("/proc/", pid, "/stat"));
  const size_t name_end = text.rfind(')');
  Stat stat;
  if (name_end == std::string::npos) return stat;
  const std::vector<std::string> fields =
      absl::StrSplit(absl::string_view(text).substr(name_end + 1), ' ', absl::SkipEmpty());
  if (fields.size() <= kStartedField || fields[0].size() != 1 ||
      !absl::SimpleAtoi(fields[kParentField], &stat.parent) ||
      !absl::SimpleAtoi(fields[kGroupField], &stat.group) ||
      !absl::SimpleAtoi(fields[kStartedField], &stat.started)) {
    return {};
  }
  stat.state = fields[0][0];
  return stat;
}

bool IsInFolder(absl::string_view path, absl::string_view folder) {
  return absl::ConsumePrefix(&path, folder) && (path.empty() || absl::StartsWith(path, "/"));
}

// What a process without its environment mostly still has.
bool WritesInto(pid_t pid, absl::string_view folder) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    char target[4096];
    const std::string link = absl::StrCat("/proc/", pid, "/fd/", fd);
    const ssize_t got = ::readlink(link.c_str(), target, sizeof target);
    if (got > 0 && IsInFolder({target, static_cast<size_t>(got)}, folder)) return true;
  }
  return false;
}

bool HasTag(pid_t pid, absl::string_view folder) {
  const std::string environment = ReadProcFile(absl::StrCat("/proc/", pid, "/environ"));
  const std::string name = absl::StrCat(kRankDirVariable, "=");
  for (absl::string_view entry : absl::StrSplit(environment, '\0')) {
    if (!absl::ConsumePrefix(&entry, name)) continue;
    return IsInFolder(entry, folder);
  }
  return false;
}

bool IsOfRank(pid_t pid, const Stat& stat, pid_t group, absl::string_view folder) {
  return (group != 0 && stat.group == group) || HasTag(pid, folder) || WritesInto(pid, folder);
}

enum class MonitorPart { kNone, kMonitor, kStarter };

// "conmon ... -n NAME ..." is the monitor; "podman ... --name=NAME", podman or what it forked, is
// on the way to start one.
MonitorPart PartOf(pid_t pid, const std::string& name) {
  const std::string text = ReadProcFile(absl::StrCat("/proc/", pid, "/cmdline"));
  const std::vector<absl::string_view> words = absl::StrSplit(text, '\0');
  const bool is_conmon = absl::EndsWith(words.front(), "conmon");
  for (size_t i = 1; i < words.size(); ++i) {
    if (is_conmon && words[i - 1] == "-n" && words[i] == name) return MonitorPart::kMonitor;
    if (words[i] == absl::StrCat("--name=", name)) return MonitorPart::kStarter;
  }
  return MonitorPart::kNone;
}

// When processes started that the last scan of this thread saw, by the inode of their folder in
// /proc, which no two processes share: a process that began before a rank cannot descend from it,
// and most of a machine's do. So a scan opens the files of newcomers only.
using StartTimes = std::map<std::pair<pid_t, ino_t>, uint64_t>;

}  // namespace

bool ScanIncomplete() { return std::exchange(missed_some, false); }

ProcessId Identify(pid_t pid) { return {pid, ReadStat(pid).started}; }

bool IsLiving(const ProcessId& process) {
  const Stat stat = ReadStat(process.pid);
  return stat.started == process.started && stat.state != 'Z' && stat.state != 'X';
}

bool SignalProcess(const ProcessId& process, int signal) {
  const UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  // From here on the descriptor is of one process; its start tells whether of the right one.
  if (!fd.valid() || Identify(process.pid) != process) return false;
  return ::syscall(SYS_pidfd_send_signal, fd.get(), signal, nullptr, 0) == 0;
}

bool BelongsTo(pid_t pid, pid_t group, absl::string_view folder) {
  return IsOfRank(pid, ReadStat(pid), group, folder);
}

bool IsInCgroup(pid_t pid, absl::string_view name) {
  const std::string cgroups = ReadProcFile(absl::StrCat("/proc/", pid, "/cgroup"));
  for (absl::string_view line : absl::StrSplit(cgroups, '\n')) {
    if (!absl::ConsumePrefix(&line, "0::")) continue;
    return absl::StrContains(absl::StrCat(line, "/"), absl::StrCat("/", name, "/"));
  }
  return false;
}

bool IsRuntimeHelper(pid_t pid) {
  // "catatonit -P" and "podman pause" hold rootless podman's namespaces for all its containers.
  constexpr absl::string_view kNames[] = {"conmon", "catatonit",  "podman",       "slirp4netns",
                                          "pasta",  "pasta.avx2", "netavark",     "aardvark-dns",
                                          "crun",   "runc",       "rootlessport", "fuse-overlayfs"};
  const std::string text = ReadProcFile(absl::StrCat("/proc/", pid, "/comm"));
  const absl::string_view name = absl::StripTrailingAsciiWhitespace(text);
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

std::vector<ProcessId> FindProcesses(pid_t group, absl::string_view folder) {
  std::vector<ProcessId> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  if (proc == nullptr) {
    NoteWhyNot(errno);
    return found;
  }
  const pid_t self = ::getpid();
  // The leader is not reaped before its group is clear, so its number is still its own.
  const uint64_t oldest = group == 0 ? 0 : ReadStat(group).started;
  thread_local StartTimes known;
  StartTimes seen;
  while (const dirent* entry = ::readdir(proc.get())) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry->d_name, &pid) || pid == self) continue;
    const std::pair<pid_t, ino_t> process(pid, entry->d_ino);
    const auto before = known.find(process);
    if (before != known.end()) {
      seen.insert(*before);
      if (before->second < oldest) continue;
    }
    const Stat stat = ReadStat(pid);
    if (stat.started != 0) seen[process] = stat.started;
    if (stat.started < oldest || stat.state == 'Z' || stat.state == 'X') continue;
    if (IsOfRank(pid, stat, group, folder)) found.push_back({pid, stat.started});
  }
  known = std::move(seen);
  return found;
}

std::vector<ProcessId> FindContainerProcesses(const std::string& name) {
  std::vector<ProcessId> found;
  std::vector<ProcessId> starters;
  const pid_t self = ::getpid();
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  if (proc == nullptr) return found;
  std::multimap<pid_t, ProcessId> children;
  while (const dirent* entry = ::readdir(proc.get())) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry->d_name, &pid)) continue;
    const Stat stat = ReadStat(pid);
    if (stat.state == 'Z' || stat.state == 'X') continue;
    const ProcessId process = {pid, stat.started};
    children.emplace(stat.parent, process);
    const MonitorPart part = PartOf(pid, name);
    if (part == MonitorPart::kMonitor) found.push_back(process);
    if (part == MonitorPart::kStarter && stat.parent == self) starters.push_back(process);
  }
  if (found.empty()) found = std::move(starters);
  for (size_t i = 0; i < found.size(); ++i) {
    const auto [first, last] = children.equal_range(found[i].pid);
    for (auto child = first; child != last; ++child) found.push_back(child->second);
  }
  return found;
}

uint64_t ResidentBytes(const std::vector<ProcessId>& processes) {
  constexpr uint64_t kKib = 1024;
  uint64_t total = 0;
  for (const ProcessId& process : processes) {
    const std::string status = ReadProcFile(absl::StrCat("/proc/", process.pid, "/status"));
    for (absl::string_view line : absl::StrSplit(status, '\n')) {
      uint64_t kib = 0;
      const bool counted =
          absl::ConsumePrefix(&line, "RssAnon:") || absl::ConsumePrefix(&line, "RssShmem:");
      if (!counted || !absl::ConsumeSuffix(&line, " kB")) continue;
      if (absl::SimpleAtoi(line, &kib)) total += kib * kKib;
    }
  }
  return total;
}

}  // namespace muster::worker
