#include "controller/access/access_rules.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/protocol/name_rule.h"

namespace muster::controller {
namespace {

absl::StatusOr<User*> FindUser(AccessTables& tables, const std::string& name) {
  const auto user = tables.users.find(name);
  if (user != tables.users.end()) return &user->second;
  MUSTER_RETURN_IF_ERROR(CheckAccessName("user", name));
  return absl::NotFoundError(
      absl::StrCat("user ", name, ": there is none; `muster user add ", name, "` adds them"));
}

}  // namespace

absl::Status CheckAccessName(absl::string_view what, absl::string_view name) {
  constexpr size_t kMostBytes = 64;
  const bool fits = !name.empty() && name.size() <= kMostBytes;
  const auto is_first = [](unsigned char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c);
  };
  const bool good = fits && is_first(static_cast<unsigned char>(name[0])) &&
                    std::all_of(name.begin(), name.end(), [&](unsigned char c) {
                      return is_first(c) || c == '.' || c == '_' || c == '-';
                    });
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": a name is 1 to ", kMostBytes,
                   " of a-z, 0-9, '.', '_' and '-', with a letter or digit in front"));
}

absl::Status CheckProjectName(absl::string_view project) {
  if (project == kAllProjects || IsName(project)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("project: a name is 1 to ", kMostNameBytes,
                   " of a-z, 0-9 and '-', with no '-' at either end, as in a spec; '*' is all"));
}

absl::StatusOr<bool> AddUser(AccessTables& tables, const std::string& name, absl::Time now,
                             bool reuse_name) {
  MUSTER_RETURN_IF_ERROR(CheckAccessName("user", name));
  if (name == kBuiltinAdmin) {
    return absl::InvalidArgumentError(
        "user admin: is who has the token in the controller's data folder; take another name");
  }
  if (tables.users.count(name) != 0) return false;
  if (tables.users.size() >= kMostUsers) {
    return absl::ResourceExhaustedError(absl::StrCat("there are ", kMostUsers, " users already"));
  }
  if (tables.removed.count(name) != 0 && !reuse_name) {
    return absl::FailedPreconditionError(
        absl::StrCat("user ", name, ": one of that name was removed, whose jobs the new one would ",
                     "own; take another name or, for the same person, `muster user add ", name,
                     " --reuse-name`"));
  }
  tables.removed.erase(name);
  tables.users[name] = {.name = name, .created = now, .grants = {}};
  return true;
}

absl::StatusOr<uint32_t> RemoveUser(AccessTables& tables, const std::string& name, absl::Time now) {
  MUSTER_RETURN_IF_ERROR(FindUser(tables, name).status());
  uint32_t live = 0;
  std::erase_if(tables.tokens, [&](const auto& entry) {
    if (entry.second.user != name) return false;
    if (entry.second.IsLive(now)) ++live;
    return true;
  });
  tables.users.erase(name);
  tables.removed.insert(name);
  return live;
}

absl::Status GrantRole(AccessTables& tables, const std::string& user, const std::string& project,
                       Role role) {
  MUSTER_RETURN_IF_ERROR(CheckProjectName(project));
  if (role < Role::kViewer || role > Role::kAdmin) {
    return absl::InvalidArgumentError("role: must be viewer, user, operator or admin");
  }
  MUSTER_ASSIGN_OR_RETURN(User* const whom, FindUser(tables, user));
  if (whom->grants.size() >= kMostGrants && whom->grants.count(project) == 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("user ", user, ": has ", kMostGrants, " roles already; '*' is all projects"));
  }
  whom->grants[project] = role;
  return absl::OkStatus();
}

absl::Status RevokeRole(AccessTables& tables, const std::string& user, const std::string& project) {
  MUSTER_RETURN_IF_ERROR(CheckProjectName(project));
  MUSTER_ASSIGN_OR_RETURN(User* const whom, FindUser(tables, user));
  if (whom->grants.erase(project) != 0) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("user ", user, ": has no role in ", project,
                                          "; `muster user ls` shows the roles"));
}

absl::StatusOr<uint64_t> AddUserToken(AccessTables& tables, Token token, absl::Time now,
                                      std::vector<uint64_t>& removed) {
  MUSTER_RETURN_IF_ERROR(CheckAccessName("name", token.name));
  MUSTER_RETURN_IF_ERROR(FindUser(tables, token.user).status());
  if (token.expires <= now) {
    return absl::InvalidArgumentError("lifetime: must end in the future");
  }
  size_t live = 0;
  std::vector<uint64_t> dead;
  for (const auto& [id, other] : tables.tokens) {
    if (other.user != token.user) continue;
    if (!other.IsLive(now)) {
      dead.push_back(id);
      continue;
    }
    ++live;
    if (other.name == token.name) {
      return absl::AlreadyExistsError(absl::StrCat("token ", token.name, " of ", token.user,
                                                   ": there is one; `muster token revoke ", id,
                                                   "` ends it, or take another --name"));
    }
  }
  if (live >= kMostLiveTokens) {
    return absl::ResourceExhaustedError(absl::StrCat("user ", token.user, ": has ", kMostLiveTokens,
                                                     " tokens; `muster token revoke` ends one"));
  }
  for (size_t i = 0; i + kMostDeadTokens < dead.size(); ++i) {  // the oldest
    removed.push_back(dead[i]);
    tables.tokens.erase(dead[i]);
  }
  const uint64_t id = ++tables.last_token;
  token.id = id;
  tables.tokens[id] = std::move(token);
  return id;
}

absl::StatusOr<bool> RevokeToken(AccessTables& tables, uint64_t id, absl::Time now) {
  const auto token = tables.tokens.find(id);
  if (token == tables.tokens.end()) {
    return absl::NotFoundError(
        absl::StrCat("token ", id, ": there is none; `muster token ls` lists them"));
  }
  if (token->second.is_revoked()) return false;
  token->second.revoked = now;
  return true;
}

}  // namespace muster::controller
