#include "controller/access/access_store.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"

namespace muster::controller {
namespace {

void BindTime(SqliteStatement& statement, absl::Time time) {
  const bool never = time == absl::InfiniteFuture() || time == absl::InfinitePast();
  never ? statement.BindNull() : statement.Bind(absl::ToUnixMillis(time));
}

absl::Time TimeOf(const SqliteStatement& statement, int column, absl::Time never) {
  return statement.IsNull(column) ? never : absl::FromUnixMillis(statement.Int(column));
}

}  // namespace

absl::StatusOr<AccessTables> AccessStore::Load() {
  AccessTables tables;
  {
    SqliteStatement rows = db_.Prepare("SELECT name, created_ms FROM users");
    while (true) {
      MUSTER_ASSIGN_OR_RETURN(const bool row, rows.Step());
      if (!row) break;
      User& user = tables.users[rows.Text(0)];
      user.name = rows.Text(0);
      user.created = absl::FromUnixMillis(rows.Int(1));
    }
  }
  {
    SqliteStatement rows = db_.Prepare("SELECT name FROM removed_users");
    while (true) {
      MUSTER_ASSIGN_OR_RETURN(const bool row, rows.Step());
      if (!row) break;
      tables.removed.insert(rows.Text(0));
    }
  }
  {
    SqliteStatement rows = db_.Prepare("SELECT user, project, role FROM grants");
    while (true) {
      MUSTER_ASSIGN_OR_RETURN(const bool row, rows.Step());
      if (!row) break;
      const int64_t role = rows.Int(2);
      const auto user = tables.users.find(rows.Text(0));
      // What this version does not know gives nothing.
      if (user == tables.users.end() || role < 1 || role > static_cast<int64_t>(Role::kAdmin)) {
        continue;
      }
      user->second.grants[rows.Text(1)] = static_cast<Role>(role);
    }
  }
  {
    SqliteStatement rows = db_.Prepare(
        "SELECT id, user, name, hash, created_ms, expires_ms, revoked_ms, last_used_ms "
        "FROM tokens");
    while (true) {
      MUSTER_ASSIGN_OR_RETURN(const bool row, rows.Step());
      if (!row) break;
      Token token;
      token.id = static_cast<uint64_t>(rows.Int(0));
      token.user = rows.Text(1);
      token.name = rows.Text(2);
      token.hash = rows.Text(3);
      token.created = absl::FromUnixMillis(rows.Int(4));
      token.expires = TimeOf(rows, 5, absl::InfiniteFuture());
      token.revoked = TimeOf(rows, 6, absl::InfiniteFuture());
      token.last_used = TimeOf(rows, 7, absl::InfinitePast());
      const uint64_t id = token.id;
      tables.tokens.emplace(id, std::move(token));
    }
  }
  SqliteStatement last = db_.Prepare("SELECT seq FROM sqlite_sequence WHERE name = 'tokens'");
  MUSTER_ASSIGN_OR_RETURN(const bool any, last.Step());
  if (any) tables.last_token = static_cast<uint64_t>(last.Int(0));
  return tables;
}

absl::Status AccessStore::PutUser(const User& user) {
  MUSTER_RETURN_IF_ERROR(db_.Prepare("INSERT OR IGNORE INTO users VALUES (?, ?)")
                             .Bind(user.name)
                             .Bind(absl::ToUnixMillis(user.created))
                             .Run());
  MUSTER_RETURN_IF_ERROR(
      db_.Prepare("DELETE FROM removed_users WHERE name = ?").Bind(user.name).Run());
  MUSTER_RETURN_IF_ERROR(db_.Prepare("DELETE FROM grants WHERE user = ?").Bind(user.name).Run());
  for (const auto& [project, role] : user.grants) {
    MUSTER_RETURN_IF_ERROR(db_.Prepare("INSERT INTO grants VALUES (?, ?, ?)")
                               .Bind(user.name)
                               .Bind(project)
                               .Bind(static_cast<int64_t>(role))
                               .Run());
  }
  return absl::OkStatus();
}

absl::Status AccessStore::RemoveUser(const std::string& name) {
  MUSTER_RETURN_IF_ERROR(db_.Prepare("DELETE FROM grants WHERE user = ?").Bind(name).Run());
  MUSTER_RETURN_IF_ERROR(db_.Prepare("DELETE FROM tokens WHERE user = ?").Bind(name).Run());
  MUSTER_RETURN_IF_ERROR(db_.Prepare("DELETE FROM users WHERE name = ?").Bind(name).Run());
  return db_.Prepare("INSERT OR IGNORE INTO removed_users VALUES (?)").Bind(name).Run();
}

absl::Status AccessStore::PutToken(const Token& token) {
  SqliteStatement insert = db_.Prepare(
      "INSERT INTO tokens (id, user, name, hash, created_ms, expires_ms, revoked_ms, last_used_ms) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
      "expires_ms = excluded.expires_ms, revoked_ms = excluded.revoked_ms");
  insert.Bind(token.id).Bind(token.user).Bind(token.name).Bind(token.hash);
  insert.Bind(absl::ToUnixMillis(token.created));
  BindTime(insert, token.expires);
  BindTime(insert, token.revoked);
  BindTime(insert, token.last_used);
  return insert.Run();
}

absl::Status AccessStore::RemoveToken(uint64_t id) {
  return db_.Prepare("DELETE FROM tokens WHERE id = ?").Bind(id).Run();
}

absl::Status AccessStore::SetLastUsed(const std::map<uint64_t, absl::Time>& used) {
  for (const auto& [id, time] : used) {
    MUSTER_RETURN_IF_ERROR(db_.Prepare("UPDATE tokens SET last_used_ms = ? WHERE id = ?")
                               .Bind(absl::ToUnixMillis(time))
                               .Bind(id)
                               .Run());
  }
  return absl::OkStatus();
}

}  // namespace muster::controller
