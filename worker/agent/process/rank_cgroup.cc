#include "worker/agent/process/rank_cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "worker/agent/process/vfork_into.h"

namespace muster::worker {
namespace {

constexpr size_t kMaxCgroupFileBytes = 4u << 20;
// What an earlier agent's cgroups hold is looked at so often, with so long between.
constexpr int kCgroupLeftoverChecks = 100;
constexpr int kCgroupLeftoverPollMs = 20;
// Ranks together get one of so many parts of all processes, but each of them no fewer than it needs
// for a few hundred threads of its own and of its data loaders.
constexpr uint64_t kShareOfProcesses = 2;
constexpr uint64_t kFewestProcesses = 2048;

absl::Status Failure(absl::string_view step, const std::string& path) {
  const std::string message = absl::StrCat("cannot ", step, " ", path, ": ", ::strerror(errno));
  const bool forbidden = errno == EACCES || errno == EPERM || errno == EROFS;
  return forbidden ? absl::PermissionDeniedError(message) : absl::UnavailableError(message);
}

std::string Read(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[4096];
  while (fd.valid() && text.size() < kMaxCgroupFileBytes) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

absl::Status Write(const std::string& path, absl::string_view text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid() || ::write(fd.get(), text.data(), text.size()) < 0) {
    return Failure("write", path);
  }
  return absl::OkStatus();
}

bool HasWord(const std::string& path, absl::string_view word) {
  const std::string text = Read(path);
  for (const absl::string_view one : absl::StrSplit(text, absl::ByAnyChar(" \n"))) {
    if (one == word) return true;
  }
  return false;
}

// "key value" lines; 0 when the key is not there.
uint64_t ValueOf(const std::string& path, absl::string_view key) {
  const std::string text = Read(path);
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    uint64_t value = 0;
    if (absl::ConsumePrefix(&line, absl::StrCat(key, " ")) && absl::SimpleAtoi(line, &value)) {
      return value;
    }
  }
  return 0;
}

// Where the unified hierarchy is mounted; "" when it is not.
std::string MountPoint() {
  const std::string mounts = Read("/proc/self/mountinfo");
  for (const absl::string_view line : absl::StrSplit(mounts, '\n')) {
    if (!absl::StrContains(line, " - cgroup2 ")) continue;
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
    if (fields.size() > 4) return std::string(fields[4]);
  }
  return "";
}

std::string NamePrefix(const std::string& agent) {
  return absl::StrCat("muster-rank-", agent, ".");
}

// A cgroup that divides its memory or its processes' number holds no processes itself, but for the
// root: where the agent is the only one in it, it moves to a leaf of its own.
bool Divide(const std::string& folder, const std::string& agent, const std::string& controller) {
  const std::string control = folder + "/cgroup.subtree_control";
  if (HasWord(control, controller)) return true;
  if (!HasWord(folder + "/cgroup.controllers", controller)) return false;
  const std::string order = "+" + controller;
  if (Write(control, order).ok()) return true;
  const std::string leaf = absl::StrCat(folder, "/muster-agent-", agent);
  if (::mkdir(leaf.c_str(), 0755) != 0 && errno != EEXIST) return false;
  if (Write(leaf + "/cgroup.procs", "0").ok() && Write(control, order).ok()) return true;
  // Others are in it too. Back to where we were.
  Write(folder + "/cgroup.procs", "0").IgnoreError();
  ::rmdir(leaf.c_str());
  return false;
}

// What a rank may have of the processes and threads that this machine, or the cgroup, can hold at
// all: a part that leaves the agent and the other ranks theirs.
uint64_t MostProcesses(const std::string& folder, size_t ranks) {
  uint64_t most = 0;
  for (const std::string& path : {std::string("/proc/sys/kernel/threads-max"),
                                  std::string("/proc/sys/kernel/pid_max"), folder + "/pids.max"}) {
    uint64_t bound = 0;  // not "max", and there
    if (!absl::SimpleAtoi(Read(path), &bound) || bound == 0) continue;
    most = most == 0 ? bound : std::min(most, bound);
  }
  return std::max(kFewestProcesses, most / kShareOfProcesses / std::max<size_t>(ranks, 1));
}

absl::Status LimitProcesses(CgroupFolder& cgroup, uint64_t processes) {
  if (cgroup.processes == processes) return absl::OkStatus();
  cgroup.processes = processes;
  return Write(cgroup.path + "/pids.max", absl::StrCat(processes));
}

// The cgroups in `folder` whose names begin so.
std::vector<std::string> CgroupsIn(const std::string& folder, const std::string& name_prefix) {
  std::vector<std::string> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), ::closedir);
  if (entries == nullptr) return found;
  while (const dirent* entry = ::readdir(entries.get())) {
    const absl::string_view name = entry->d_name;
    const bool is_cgroup = entry->d_type == DT_DIR && name != "." && name != "..";
    if (is_cgroup && absl::StartsWith(name, name_prefix)) {
      found.push_back(absl::StrCat(folder, "/", name));
    }
  }
  return found;
}

void RemoveLeftovers(const std::string& folder, const std::string& name_prefix) {
  for (const std::string& path : CgroupsIn(folder, name_prefix)) {
    Write(path + "/cgroup.kill", "1").IgnoreError();
    // What is killed is not gone at once. One that stays is no later rank's: see Make.
    for (int check = 0; check < kCgroupLeftoverChecks; ++check) {
      if (::rmdir(path.c_str()) == 0 || errno != EBUSY) break;
      ::poll(nullptr, 0, kCgroupLeftoverPollMs);
    }
  }
}

// Whether a process can begin there.
[[gnu::noinline]] absl::Status TryToBeginIn(const RankCgroup& cgroup) {
  int pidfd = -1;
  const pid_t pid = VforkInto(cgroup.fd(), pidfd);
  if (pid == 0) ::_exit(0);
  if (pid < 0) return Failure("start a process in", cgroup.path());
  ::close(pidfd);
  ::waitpid(pid, nullptr, 0);
  return absl::OkStatus();
}

}  // namespace

SpareCgroups::~SpareCgroups() {
  for (const CgroupFolder& one : folders) ::rmdir(one.path.c_str());
}

RankCgroup::~RankCgroup() {
  // One with a limit counts what its processes used, which must not be held against others; in one
  // that was divided further no process may begin.
  struct stat info = {};
  const bool undivided = ::fstat(folder_.folder.get(), &info) == 0 && info.st_nlink == 2;
  if (!limits_memory() && !killed_ && undivided && IsEmpty() &&
      spare_->folders.size() < SpareCgroups::kMost) {
    spare_->folders.push_back(std::move(folder_));
    return;
  }
  Kill();
  ::rmdir(folder_.path.c_str());
}

bool RankCgroup::IsEmpty() const {
  char text[256];
  const ssize_t got = ::pread(folder_.events.get(), text, sizeof text, 0);
  return got > 0 &&
         absl::StrContains(absl::string_view(text, static_cast<size_t>(got)), "populated 0");
}

void RankCgroup::Kill() {
  killed_ = true;
  [[maybe_unused]] const ssize_t written = ::pwrite(folder_.kill.get(), "1", 1, 0);
}

std::optional<uint64_t> RankCgroup::OutOfMemoryAt() const {
  if (!limits_memory() || ValueOf(path() + "/memory.events", "oom_kill") == 0) return std::nullopt;
  uint64_t peak = 0;  // not told by old kernels; they held what they may
  const std::string text = Read(path() + "/memory.peak");
  return absl::SimpleAtoi(text, &peak) ? peak : memory_limit_;
}

absl::StatusOr<std::string> RankCgroups::OwnFolder() {
  const std::string mounted = MountPoint();
  if (mounted.empty()) return absl::UnavailableError("no cgroup v2 hierarchy is mounted");
  const std::string cgroups = Read("/proc/self/cgroup");
  for (absl::string_view line : absl::StrSplit(cgroups, '\n')) {
    if (!absl::ConsumePrefix(&line, "0::")) continue;
    std::string folder = line == "/" ? mounted : absl::StrCat(mounted, line);
    if (HasWord(folder + "/cgroup.procs", absl::StrCat(::getpid()))) return folder;
  }
  return absl::UnavailableError(absl::StrCat("this process's cgroup is not under ", mounted));
}

std::vector<ProcessId> RankCgroups::ProcessesBelow(const std::string& folder,
                                                   const std::string& agent) {
  std::vector<std::string> cgroups = CgroupsIn(folder, NamePrefix(agent));
  std::vector<ProcessId> found;
  for (size_t i = 0; i < cgroups.size(); ++i) {
    const std::string path = cgroups[i];
    for (std::string& below : CgroupsIn(path, "")) cgroups.push_back(std::move(below));
    const std::string numbers = Read(path + "/cgroup.procs");
    for (const absl::string_view number : absl::StrSplit(numbers, '\n', absl::SkipEmpty())) {
      pid_t pid = 0;
      if (!absl::SimpleAtoi(number, &pid) || pid == 0) continue;
      const ProcessId process = Identify(pid);
      if (IsLiving(process)) found.push_back(process);
    }
  }
  return found;
}

absl::StatusOr<std::unique_ptr<RankCgroups>> RankCgroups::Open(const std::string& agent,
                                                               size_t ranks) {
  MUSTER_ASSIGN_OR_RETURN(const std::string folder, OwnFolder());
  return OpenAt(folder, agent, ranks);
}

absl::StatusOr<std::unique_ptr<RankCgroups>> RankCgroups::OpenAt(const std::string& folder,
                                                                 const std::string& agent,
                                                                 size_t ranks) {
  const std::string name_prefix = NamePrefix(agent);
  RemoveLeftovers(folder, name_prefix);
  const bool can_limit_memory = Divide(folder, agent, "memory");
  const uint64_t most_processes = Divide(folder, agent, "pids") ? MostProcesses(folder, ranks) : 0;
  std::unique_ptr<RankCgroups> cgroups(
      new RankCgroups(absl::StrCat(folder, "/", name_prefix), can_limit_memory, most_processes));
  // A try shows whether they can be made and used at all.
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<RankCgroup> first, cgroups->Make(0));
  MUSTER_RETURN_IF_ERROR(TryToBeginIn(*first));
  return cgroups;
}

absl::StatusOr<CgroupFolder> RankCgroups::MakeFolder() {
  // Never one that is there: it was an earlier agent's, which was killed and kills what begins in
  // it.
  std::string path = absl::StrCat(prefix_, next_++);
  while (::mkdir(path.c_str(), 0755) != 0) {
    if (errno != EEXIST) return Failure("make", path);
    path = absl::StrCat(prefix_, next_++);
  }
  const auto open = [&path](absl::string_view name, int flags) {
    return UniqueFd(::open(absl::StrCat(path, name).c_str(), flags | O_CLOEXEC));
  };
  CgroupFolder made{.path = path, .folder = open("", O_RDONLY | O_DIRECTORY)};
  made.kill = open("/cgroup.kill", O_WRONLY);
  made.events = open("/cgroup.events", O_RDONLY);
  if (!made.folder.valid() || !made.kill.valid() || !made.events.valid()) {
    const absl::Status failure = Failure("use", path);
    ::rmdir(path.c_str());
    return failure;
  }
  return made;
}

absl::StatusOr<std::unique_ptr<RankCgroup>> RankCgroups::Make(uint64_t memory_limit,
                                                              uint64_t processes) {
  if (memory_limit != 0 && !can_limit_memory_) {
    return absl::UnimplementedError("no memory controller in this worker's cgroup");
  }
  CgroupFolder folder;
  if (memory_limit == 0 && !spare_->folders.empty()) {
    folder = std::move(spare_->folders.back());
    spare_->folders.pop_back();
  } else {
    MUSTER_ASSIGN_OR_RETURN(folder, MakeFolder());
  }
  const std::string path = folder.path;
  if (const absl::Status limited = LimitProcesses(folder, processes); !limited.ok()) {
    ::rmdir(path.c_str());
    return limited;
  }
  std::unique_ptr<RankCgroup> cgroup(new RankCgroup(std::move(folder), memory_limit, spare_));
  if (memory_limit == 0) return cgroup;
  MUSTER_RETURN_IF_ERROR(Write(path + "/memory.max", absl::StrCat(memory_limit)));
  // Swapping instead of ending would only be slow, and half a rank is none. Not every kernel has
  // these two.
  Write(path + "/memory.swap.max", "0").IgnoreError();
  Write(path + "/memory.oom.group", "1").IgnoreError();
  return cgroup;
}

}  // namespace muster::worker
