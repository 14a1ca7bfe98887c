// The table of projects. Private to controller/store; errors as those of store/sqlite.h.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "controller/model/types/project_types.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

absl::Status PutProject(SqliteDatabase& db, const Project& project);

// By name. DATA_LOSS: a row that PutProject cannot have written. `now` is ledger time: what an
// older Muster, by a wall clock that was ahead, noted for a later time counts from now.
absl::StatusOr<std::map<std::string, std::shared_ptr<const Project>>> LoadProjects(
    SqliteDatabase& db, absl::Time now);

}  // namespace muster::controller
