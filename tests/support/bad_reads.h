// A disk that does not give out what is on it: so many reads of this process through SQLite fail
// with EIO. One at a time.
#pragma once

#include <errno.h>
#include <sqlite3.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>

#include "tests/support/sqlite_calls.h"

namespace muster::testing {

class BadReads {
 public:
  BadReads() { Replace(true); }
  ~BadReads() {
    SetLeft(0);
    Replace(false);
  }
  BadReads(const BadReads&) = delete;
  BadReads& operator=(const BadReads&) = delete;

  // The next so many reads fail.
  void SetLeft(int left) { left_ = left; }
  int left() const { return left_; }

 private:
  static ssize_t Pread(int fd, void* bytes, size_t size, off_t offset) {
    return Fails() ? -1 : ::pread(fd, bytes, size, offset);
  }
  static ssize_t Read(int fd, void* bytes, size_t size) {
    return Fails() ? -1 : ::read(fd, bytes, size);
  }
  static bool Fails() {
    if (left_ <= 0) return false;
    --left_;
    errno = EIO;
    return true;
  }
  static void Replace(bool ours) {
    const auto at_place = ours ? reinterpret_cast<sqlite3_syscall_ptr>(&Pread) : nullptr;
    const auto in_order = ours ? reinterpret_cast<sqlite3_syscall_ptr>(&Read) : nullptr;
    ReplaceSqliteCalls({{"pread", at_place}, {"pread64", at_place}, {"read", in_order}});
  }

  static inline std::atomic<int> left_ = 0;
};

}  // namespace muster::testing
