// Ranks that are processes, for tests that kill and stop them. Forked from a parent that must not
// have called anything of torch.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/worker/dist/folder_key_value.h"

namespace muster::testing {

class ForkedRanks {
 public:
  // What one rank does; its status ends as the process's exit code.
  using Body = std::function<absl::Status(const std::shared_ptr<FolderKeyValue>& store, int rank)>;

  ForkedRanks(int world, const Body& body) {
    char name[] = "/tmp/muster-gang-XXXXXX";
    folder_ = ::mkdtemp(name);
    for (int rank = 0; rank < world; ++rank) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        const absl::Status status = body(std::make_shared<FolderKeyValue>(folder_), rank);
        if (!status.ok()) std::fprintf(stderr, "rank %d: %s\n", rank, status.ToString().c_str());
        ::_exit(static_cast<int>(status.code()));
      }
      pids_.push_back(pid);
    }
  }
  ~ForkedRanks() {
    for (const pid_t pid : pids_) {
      if (pid > 0) ::kill(pid, SIGKILL);
      if (pid > 0) ::waitpid(pid, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;

  FolderKeyValue store() const { return FolderKeyValue(folder_); }
  void Signal(int rank, int number) { ::kill(pids_[rank], number); }
  absl::StatusCode Wait(int rank) {
    int result = 0;
    ::waitpid(pids_[rank], &result, 0);
    pids_[rank] = -1;
    EXPECT_TRUE(WIFEXITED(result)) << "rank " << rank << " got signal " << WTERMSIG(result);
    return static_cast<absl::StatusCode>(WEXITSTATUS(result));
  }

 private:
  std::string folder_;
  std::vector<pid_t> pids_;
};

}  // namespace muster::testing
