// MUSTER_CHECK(condition, sentence): our own broken invariant. Logs where and what, then aborts.
//
// Never for anything that came from disk, network, user, device or another process: those are
// absl::Status.
#pragma once

#include "absl/strings/string_view.h"

namespace muster {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              absl::string_view sentence);

}  // namespace muster

#define MUSTER_CHECK(condition, sentence)                              \
  do {                                                                 \
    if (!(condition)) [[unlikely]] {                                   \
      ::muster::CheckFailed(__FILE__, __LINE__, #condition, sentence); \
    }                                                                  \
  } while (false)
