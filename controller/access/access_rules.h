// What changes of users, grants and tokens do to the tables. Pure: time, ids and hashes come as
// arguments. INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION and
// RESOURCE_EXHAUSTED as in access_service.proto; then nothing is changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "controller/access/access_types.h"

namespace muster::controller {

inline constexpr size_t kMostUsers = 10'000;
inline constexpr size_t kMostGrants = 256;     // of a user
inline constexpr size_t kMostLiveTokens = 64;  // of a user
// Tokens that have expired or were revoked are kept, so that who shows one hears which it is.
inline constexpr size_t kMostDeadTokens = 16;  // of a user

// 1 to 64 of a-z, 0-9, '.', '_' and '-', with a letter or digit in front. `what` names the field.
absl::Status CheckAccessName(absl::string_view what, absl::string_view name);
// A project's name as in a spec, or kAllProjects.
absl::Status CheckProjectName(absl::string_view project);

// False: they were there already. `reuse_name`: even where a user of that name was removed, whose
// jobs become theirs.
absl::StatusOr<bool> AddUser(AccessTables& tables, const std::string& name, absl::Time now,
                             bool reuse_name = false);
// How many of their tokens were live.
absl::StatusOr<uint32_t> RemoveUser(AccessTables& tables, const std::string& name, absl::Time now);
absl::Status GrantRole(AccessTables& tables, const std::string& user, const std::string& project,
                       Role role);
absl::Status RevokeRole(AccessTables& tables, const std::string& user, const std::string& project);
// `token` without its id, which becomes the next one. Ids of dead tokens that went for it are put
// into `removed`.
absl::StatusOr<uint64_t> AddUserToken(AccessTables& tables, Token token, absl::Time now,
                                      std::vector<uint64_t>& removed);
// False: it was revoked already.
absl::StatusOr<bool> RevokeToken(AccessTables& tables, uint64_t id, absl::Time now);

}  // namespace muster::controller
