// Leaves this process no file descriptor until it goes.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <vector>

#include "common/base/unique_fd.h"

namespace muster::testing {

class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &whole_), 0);
    rlimit few = whole_;
    few.rlim_cur = std::min<rlim_t>(whole_.rlim_cur, 512);
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int fd = Open(); fd >= 0; fd = Open()) taken_.emplace_back(fd);
    EXPECT_EQ(errno, EMFILE);
  }
  ~NoDescriptors() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &whole_), 0); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  static int Open() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

  rlimit whole_ = {};
  std::vector<UniqueFd> taken_;
};

}  // namespace muster::testing
