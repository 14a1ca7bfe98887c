// System calls of SQLite that a test answers itself.
#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <initializer_list>
#include <utility>

namespace muster::testing {

// Names as SQLite has them, and what is called instead; a null one puts SQLite's own back. Of a
// call that goes by several names, SQLite uses one, as it was built: name them all.
inline void ReplaceSqliteCalls(
    std::initializer_list<std::pair<const char*, sqlite3_syscall_ptr>> calls) {
  sqlite3_vfs* vfs = sqlite3_vfs_find("unix");
  ASSERT_NE(vfs, nullptr);
  for (const auto& [name, call] : calls) vfs->xSetSystemCall(vfs, name, call);
}

}  // namespace muster::testing
