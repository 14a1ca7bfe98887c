// What the record of changes and denials holds, and what is asked of it. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace muster::controller {

// One change, or what was denied. Texts may come from outside: AuditStore cuts them.
struct AuditEntry {
  absl::Time time;
  std::string user;        // empty: nobody knows
  std::string token_name;  // empty: the one in the data folder, or none
  std::string method;      // "JobService/CancelJob"
  std::string project;
  std::string object;   // "job 42"
  std::string outcome;  // the name of a status code
  uint64_t count = 1;
  std::string detail;

  bool by_agent = false;  // a refused agent's, whose user nobody knows; is not stored

  bool is_denial() const { return outcome != "OK"; }
};

// As it is stored.
struct AuditRow {
  uint64_t seq = 0;  // without gaps
  AuditEntry entry;
  std::string hash;  // hex; audit_chain.h
};

struct AuditQuery {
  absl::Time since = absl::InfinitePast();
  absl::Time until = absl::InfiniteFuture();
  std::string user;  // empty: all
  bool denied = false;
  uint64_t below = 0;  // only older rows than this one; 0: from the newest on
  size_t most = 100;
};

struct AuditPage {
  std::vector<AuditRow> rows;  // newest first
  bool more = false;
};

// Where the chain begins or ends: the hash of the row of that number. Number 0: before the first
// row that ever was.
struct AuditPoint {
  uint64_t seq = 0;
  std::string hash;
};

struct AuditVerdict {
  uint64_t rows = 0;
  AuditPoint begin;  // the last row that was dropped
  AuditPoint end;    // the newest
};

}  // namespace muster::controller
