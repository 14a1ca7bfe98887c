// Users, what they may do, and how they show who they are. Plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster::controller {

// Each may do what those before it may. The values are v1::Role's.
enum class Role : uint8_t { kNone = 0, kViewer = 1, kUser = 2, kOperator = 3, kAdmin = 4 };

const char* NameOf(Role role);  // "viewer"; "none"

// In a grant: in every project, and for what belongs to none (workers, users).
inline constexpr char kAllProjects[] = "*";

// The administrator who shows the token in the controller's data folder.
inline constexpr char kBuiltinAdmin[] = "admin";

using Grants = std::map<std::string, Role>;  // by project

struct User {
  std::string name;
  absl::Time created;
  Grants grants;
};

// The token itself is nowhere.
struct Token {
  uint64_t id = 0;
  std::string user;
  std::string name;
  std::string hash;  // SHA-256 of its text, hex
  absl::Time created;
  absl::Time expires = absl::InfiniteFuture();
  absl::Time revoked = absl::InfiniteFuture();  // infinite: it is not
  absl::Time last_used = absl::InfinitePast();  // infinite: never

  // For good: the clock may be set back behind `revoked`, which is only for people to read.
  bool is_revoked() const { return revoked != absl::InfiniteFuture(); }
  bool IsLive(absl::Time now) const { return !is_revoked() && now < expires; }
};

struct AccessTables {
  std::map<std::string, User> users;  // by name
  std::set<std::string> removed;      // names of those who were, and are not users now
  std::map<uint64_t, Token> tokens;   // by id
  uint64_t last_token = 0;            // ids are not used again
};

// Who calls, as of the newest change of the tables.
struct Principal {
  std::string user;
  uint64_t token_id = 0;  // 0: the one in the data folder
  std::string token_name;
  absl::Time expires = absl::InfiniteFuture();
  Grants grants;

  bool is_builtin() const { return token_id == 0; }
  Role RoleIn(absl::string_view project) const;
  // The highest of all projects.
  Role RoleAnywhere() const;
};

// Whether one may read what is of a project.
using MayRead = std::function<bool(absl::string_view project)>;

}  // namespace muster::controller
