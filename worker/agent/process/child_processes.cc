#include "worker/agent/process/child_processes.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/unique_fd.h"

namespace muster::worker {
namespace {

// The children of one of our threads. A list that is read while no child is reaped is whole, and
// only this thread reaps.
bool ReadChildren(pid_t thread, UniqueFd& list, std::vector<pid_t>& children) {
  if (!list.valid()) {
    const std::string path = absl::StrCat("/proc/self/task/", thread, "/children");
    list = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  std::string text;
  char buffer[4096];
  while (true) {
    const ssize_t got = ::pread(list.get(), buffer, sizeof buffer, static_cast<off_t>(text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    pid_t pid = 0;
    if (absl::SimpleAtoi(word, &pid)) children.push_back(pid);
  }
  return true;
}

}  // namespace

ChildProcesses::ChildProcesses() : is_subreaper_(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0) {}

std::optional<std::vector<pid_t>> ChildProcesses::ReapOrphans() {
  // Ranks are children of the thread that started them, orphans of the first one.
  std::vector<pid_t> children;
  const pid_t first = ::getpid();
  const pid_t self = ::gettid();
  if (!is_subreaper_ || !ReadChildren(first, first_list_, children) ||
      (self != first && !ReadChildren(self, self_list_, children))) {
    return std::nullopt;
  }
  std::vector<pid_t> living;
  for (const pid_t pid : children) {
    if (leaders_.contains(pid)) continue;
    if (::waitpid(pid, nullptr, WNOHANG) == 0) living.push_back(pid);
  }
  return living;
}

}  // namespace muster::worker
