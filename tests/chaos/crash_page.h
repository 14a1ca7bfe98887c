// The page of memory that a crash sweep shares with the process under test: the harness arms it
// just before a request and disarms it once the effect has settled; the preloaded library counts
// calls meanwhile and dies at the one that the harness named. Plain C++ without libraries, since it
// goes into a preloaded object.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace muster::testing {

// In the environment of the process under test: the file that holds the page, and the name of the
// program that counts. What that program starts has the same environment and another name.
inline constexpr char kCrashPageVariable[] = "MUSTER_CRASH_PAGE";
inline constexpr char kCrashProgramVariable[] = "MUSTER_CRASH_PROGRAM";

// All that leaves something behind, on disk or on the wire. Variants that programs reach by another
// name (open64, pwrite64) count as what they are a variant of; an open counts when it
// may create or cut.
inline constexpr const char* kCrashCalls[] = {
    "write",     "pwrite",    "writev",    "pwritev",   "pwritev2", "fsync",
    "fdatasync", "ftruncate", "truncate",  "fallocate", "open",     "openat",
    "mkdir",     "mkdirat",   "rmdir",     "link",      "linkat",   "symlink",
    "rename",    "renameat",  "renameat2", "unlink",    "unlinkat", "copy_file_range",
    "sendfile",  "send",      "sendto",    "sendmsg",   "sendmmsg",
};
inline constexpr size_t kCrashCallCount = sizeof(kCrashCalls) / sizeof(kCrashCalls[0]);
inline constexpr uint32_t kAnyCall = UINT32_MAX;

struct CrashPage {
  std::atomic<uint32_t> armed;
  std::atomic<uint64_t> calls;                     // since the page was armed, over all threads
  std::atomic<uint64_t> of_kind[kCrashCallCount];  // of them, by their place in kCrashCalls
  // It dies just before the kill_at-th call of that kind is made; 0: never.
  std::atomic<uint32_t> kill_kind;
  std::atomic<uint64_t> kill_at;
  std::atomic<uint32_t> killed;       // it did
  std::atomic<uint32_t> killed_kind;  // before a call of this kind
};

}  // namespace muster::testing
