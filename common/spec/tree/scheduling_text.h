// The short notations of a spec's placement and scheduling: pools with a wait, dependencies,
// arrays, times and memory. Pure. Used by ValidateSpec and by the controller's conversion.
//
// Every parser returns INVALID_ARGUMENT with what is wrong and what is allowed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

// `spot` or `ondemand after 10m`.
struct PoolChoice {
  std::string name;  // not checked here
  absl::Duration after;
};
absl::StatusOr<PoolChoice> ParsePoolChoice(absl::string_view text);

// `42`, `42:ok`, `42:fail` or `42:any`; the first means ok. `42_7` is task 7 of array 42.
struct JobDependency {
  enum class On { kSuccess, kFailure, kEnd };
  uint64_t job_id = 0;
  std::optional<uint32_t> task;
  On on = On::kSuccess;
};
absl::StatusOr<JobDependency> ParseDependency(absl::string_view text);

// `1-20`, `1-20%4` or `7`.
struct JobArray {
  static constexpr uint32_t kMaxTasks = 10'000;
  uint32_t first = 0;
  uint32_t last = 0;       // at least `first`; at most kMaxTasks of them
  uint32_t at_a_time = 0;  // 0: no bound
};
absl::StatusOr<JobArray> ParseArray(absl::string_view text);

// RFC 3339, with a zone.
absl::StatusOr<absl::Time> ParseWallTime(absl::string_view text);

// `16GiB`; in bytes, above 0.
absl::StatusOr<uint64_t> ParseMemory(absl::string_view text);

}  // namespace muster
