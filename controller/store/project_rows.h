// The table of projects. Private to controller/store; errors as those of store/sqlite.h.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/model/project_types.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

absl::Status PutProject(SqliteDatabase& db, const Project& project);

// By name. DATA_LOSS: a row that PutProject cannot have written.
absl::StatusOr<std::map<std::string, std::shared_ptr<const Project>>> LoadProjects(
    SqliteDatabase& db);

}  // namespace muster::controller
