// The page of memory that a crash sweep shares with the process under test: the harness arms it
// just before a request and disarms it once the effect has settled; the preloaded library counts
// calls meanwhile and dies at the one that the harness named. Plain C++ without libraries, since it
// goes into a preloaded object.
#pragma once

#include <atomic>
#include <cstdint>

namespace muster::testing {

// Names the file that holds the page, in the environment of the process under test.
inline constexpr char kCrashPageVariable[] = "MUSTER_CRASH_PAGE";

struct CrashPage {
  std::atomic<uint32_t> armed;
  std::atomic<uint64_t> calls;    // since the page was armed, over all threads
  std::atomic<uint64_t> kill_at;  // dies just before this call is made; 0: never
  std::atomic<uint32_t> killed;   // it did
  char call[32];                  // and this was the call
};

}  // namespace muster::testing
