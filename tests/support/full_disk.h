// A full disk under SQLite's own files: while it is full, every write of this process through
// SQLite fails with ENOSPC, as a disk's would. One at a time.
#pragma once

#include <errno.h>
#include <sqlite3.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>

#include "tests/support/sqlite_calls.h"

namespace muster::testing {

class FullDisk {
 public:
  FullDisk() { Replace(true); }
  ~FullDisk() {
    SetFull(false);
    Replace(false);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

  void SetFull(bool full) { full_ = full; }
  // Writes that were refused so far.
  int refused() const { return refused_; }

 private:
  static ssize_t Pwrite(int fd, const void* bytes, size_t size, off_t offset) {
    return Refuses() ? -1 : ::pwrite(fd, bytes, size, offset);
  }
  static ssize_t Write(int fd, const void* bytes, size_t size) {
    return Refuses() ? -1 : ::write(fd, bytes, size);
  }
  static bool Refuses() {
    if (!full_) return false;
    ++refused_;
    errno = ENOSPC;
    return true;
  }
  static void Replace(bool ours) {
    const auto at_place = ours ? reinterpret_cast<sqlite3_syscall_ptr>(&Pwrite) : nullptr;
    const auto in_order = ours ? reinterpret_cast<sqlite3_syscall_ptr>(&Write) : nullptr;
    ReplaceSqliteCalls({{"pwrite", at_place}, {"pwrite64", at_place}, {"write", in_order}});
  }

  static inline std::atomic<bool> full_ = false;
  static inline std::atomic<int> refused_ = 0;
};

}  // namespace muster::testing
