// Projects as tables for people. Pure.
#pragma once

#include <vector>

#include "cli/output/table.h"
#include "muster/v1/job_service.pb.h"

namespace muster::cli {

// A row for each project, and one for each user who has a quota of their own.
Table ProjectTable(const std::vector<v1::ProjectInfo>& projects);

// What each may use by its weight, and what it has used of late (older use is worth less).
Table ShareTable(const std::vector<v1::ProjectInfo>& projects);

}  // namespace muster::cli
