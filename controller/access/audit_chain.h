// How the rows of the record hang together: each has the hash of itself and of the one before. Who
// changes, takes out or puts in a row must make all later ones anew. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "controller/access/audit_types.h"

namespace muster::controller {

// What stands before the first row.
std::string FirstAuditHash();

// Lower-case hex SHA-256 over every field of the row but its hash, each with its length, and
// `previous`, the hash of the row before.
std::string AuditHash(const std::string& previous, const AuditRow& row);

// Whether `row` follows `end`, which becomes it. DATA_LOSS names the first row that is wrong.
absl::Status FollowAuditRow(const AuditRow& row, AuditPoint& end);

}  // namespace muster::controller
