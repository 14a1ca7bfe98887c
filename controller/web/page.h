// The page at /: jobs and workers as plain HTML that reloads itself; no script, nothing from
// elsewhere. Pure.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "controller/model/snapshot.h"

namespace muster::controller {

// Shows the newest jobs, at most this many, and as many workers.
inline constexpr size_t kMaxPageRows = 200;

std::string PageHtml(const Snapshot& snapshot, absl::Time now);

// `text` with &, <, >, " and ' written as entities.
std::string EscapeHtml(absl::string_view text);

}  // namespace muster::controller
