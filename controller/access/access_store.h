// Users, grants and tokens in access.db. Writes belong into the caller's transaction. One thread at
// a time; status codes are those of store/sqlite.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "controller/access/access_types.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

class AccessStore {
 public:
  // The database outlives the store.
  explicit AccessStore(SqliteDatabase& db) : db_(db) {}

  absl::StatusOr<AccessTables> Load();

  absl::Status PutUser(const User& user);            // with the grants
  absl::Status RemoveUser(const std::string& name);  // with grants and tokens; the name is kept
  absl::Status PutToken(const Token& token);         // new, or as it is now
  absl::Status RemoveToken(uint64_t id);
  absl::Status SetLastUsed(const std::map<uint64_t, absl::Time>& used);  // by token

 private:
  SqliteDatabase& db_;
};

}  // namespace muster::controller
