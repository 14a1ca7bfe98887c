// Early return on a failed absl::Status. absl of Debian 12 has no such macros.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns the status from the enclosing function unless it is OK.
#define MUSTER_RETURN_IF_ERROR(expr)                                \
  do {                                                              \
    if (absl::Status muster_status = (expr); !muster_status.ok()) { \
      return muster_status;                                         \
    }                                                               \
  } while (false)

#define MUSTER_CONCAT_INNER(a, b) a##b
#define MUSTER_CONCAT(a, b) MUSTER_CONCAT_INNER(a, b)

// MUSTER_ASSIGN_OR_RETURN(auto x, MakeX()): declares x from the StatusOr's value, or returns its
// status.
#define MUSTER_ASSIGN_OR_RETURN(decl, expr) \
  MUSTER_ASSIGN_OR_RETURN_IMPL(MUSTER_CONCAT(muster_or_, __LINE__), decl, expr)
#define MUSTER_ASSIGN_OR_RETURN_IMPL(tmp, decl, expr) \
  auto tmp = (expr);                                  \
  if (!tmp.ok()) return std::move(tmp).status();      \
  decl = *std::move(tmp)
