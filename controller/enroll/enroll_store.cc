#include "controller/enroll/enroll_store.h"

#include <utility>

#include "common/base/status_macros.h"

namespace muster::controller {
namespace {

std::vector<std::string> EnrollMigrations() {
  // Times are Unix milliseconds of the wall clock.
  return {R"sql(
CREATE TABLE join_tokens (
  id TEXT PRIMARY KEY,
  secret_sha256 TEXT NOT NULL,
  name_prefix TEXT NOT NULL,
  may_replace INTEGER NOT NULL,
  max_uses INTEGER NOT NULL,
  uses INTEGER NOT NULL,
  created_ms INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  revoked INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE token_uses (
  token_id TEXT NOT NULL REFERENCES join_tokens (id),
  name TEXT NOT NULL,
  key_sha256 TEXT NOT NULL,
  PRIMARY KEY (token_id, name, key_sha256)
) STRICT, WITHOUT ROWID;

CREATE TABLE holders (
  name TEXT PRIMARY KEY,
  key_sha256 TEXT NOT NULL,
  serial TEXT NOT NULL,
  issued_ms INTEGER NOT NULL,
  not_after_ms INTEGER NOT NULL,
  token_id TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE revocations (
  name TEXT PRIMARY KEY,
  at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE revoked_keys (key_sha256 TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
)sql"};
}

constexpr char kTokenColumns[] =
    "SELECT id, secret_sha256, name_prefix, may_replace, max_uses, uses, created_ms, expires_ms, "
    "created_by, revoked FROM join_tokens ORDER BY created_ms DESC, id";
constexpr char kOneToken[] =
    "SELECT id, secret_sha256, name_prefix, may_replace, max_uses, uses, created_ms, expires_ms, "
    "created_by, revoked FROM join_tokens WHERE id = ?";

JoinTokenRow TokenOf(const SqliteStatement& row) {
  JoinTokenRow token;
  token.id = row.Text(0);
  token.secret_sha256 = row.Text(1);
  token.name_prefix = row.Text(2);
  token.may_replace = row.Int(3) != 0;
  token.max_uses = static_cast<uint32_t>(row.Int(4));
  token.uses = static_cast<uint32_t>(row.Int(5));
  token.created = absl::FromUnixMillis(row.Int(6));
  token.expires = absl::FromUnixMillis(row.Int(7));
  token.created_by = row.Text(8);
  token.revoked = row.Int(9) != 0;
  return token;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EnrollStore>> EnrollStore::Open(const SqliteOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database,
                          SqliteDatabase::Open(options, EnrollMigrations()));
  return std::unique_ptr<EnrollStore>(new EnrollStore(std::move(database)));
}

absl::Status EnrollStore::AddToken(const JoinTokenRow& token) {
  return database_->Prepare("INSERT INTO join_tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .Bind(token.id)
      .Bind(token.secret_sha256)
      .Bind(token.name_prefix)
      .Bind(token.may_replace)
      .Bind(token.max_uses)
      .Bind(token.uses)
      .Bind(absl::ToUnixMillis(token.created))
      .Bind(absl::ToUnixMillis(token.expires))
      .Bind(token.created_by)
      .Bind(token.revoked)
      .Run();
}

absl::StatusOr<std::vector<JoinTokenRow>> EnrollStore::Tokens() {
  std::vector<JoinTokenRow> tokens;
  SqliteStatement select = database_->Prepare(kTokenColumns);
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, select.Step());
    if (!more) return tokens;
    tokens.push_back(TokenOf(select));
  }
}

absl::StatusOr<std::optional<JoinTokenRow>> EnrollStore::FindToken(const std::string& id) {
  SqliteStatement select = database_->Prepare(kOneToken);
  select.Bind(id);
  MUSTER_ASSIGN_OR_RETURN(const bool found, select.Step());
  if (!found) return std::nullopt;
  return TokenOf(select);
}

absl::Status EnrollStore::RevokeToken(const std::string& id) {
  return database_->Prepare("UPDATE join_tokens SET revoked = 1 WHERE id = ?").Bind(id).Run();
}

absl::Status EnrollStore::ForgetTokensBefore(absl::Time time) {
  MUSTER_RETURN_IF_ERROR(database_->Begin());
  absl::Status status = database_
                            ->Prepare(
                                "DELETE FROM token_uses WHERE token_id IN (SELECT id FROM "
                                "join_tokens WHERE expires_ms < ?)")
                            .Bind(absl::ToUnixMillis(time))
                            .Run();
  if (status.ok()) {
    status = database_->Prepare("DELETE FROM join_tokens WHERE expires_ms < ?")
                 .Bind(absl::ToUnixMillis(time))
                 .Run();
  }
  return End(std::move(status));
}

absl::StatusOr<bool> EnrollStore::WasUsedBy(const TokenUse& use) {
  SqliteStatement select = database_->Prepare(
      "SELECT 1 FROM token_uses WHERE token_id = ? AND name = ? AND key_sha256 = ?");
  return select.Bind(use.token_id).Bind(use.name).Bind(use.key_sha256).Step();
}

absl::Status EnrollStore::End(absl::Status status) {
  if (status.ok()) return database_->Commit();
  database_->Rollback();
  return status;
}

absl::Status EnrollStore::RevokeKey(const std::string& key_sha256) {
  if (key_sha256.empty()) return absl::OkStatus();
  return database_->Prepare("INSERT OR IGNORE INTO revoked_keys VALUES (?)").Bind(key_sha256).Run();
}

absl::Status EnrollStore::PutRows(const CertificateIssue& issue) {
  if (issue.use.has_value()) {
    MUSTER_RETURN_IF_ERROR(database_->Prepare("INSERT INTO token_uses VALUES (?, ?, ?)")
                               .Bind(issue.use->token_id)
                               .Bind(issue.use->name)
                               .Bind(issue.use->key_sha256)
                               .Run());
    MUSTER_RETURN_IF_ERROR(database_->Prepare("UPDATE join_tokens SET uses = uses + 1 WHERE id = ?")
                               .Bind(issue.use->token_id)
                               .Run());
  }
  MUSTER_RETURN_IF_ERROR(RevokeKey(issue.lost_key));
  const HolderRow& holder = issue.holder;
  return database_->Prepare("INSERT OR REPLACE INTO holders VALUES (?, ?, ?, ?, ?, ?)")
      .Bind(holder.name)
      .Bind(holder.key_sha256)
      .Bind(holder.serial)
      .Bind(absl::ToUnixMillis(holder.issued))
      .Bind(absl::ToUnixMillis(holder.not_after))
      .Bind(holder.token_id)
      .Run();
}

absl::Status EnrollStore::Put(const CertificateIssue& issue) {
  MUSTER_RETURN_IF_ERROR(database_->Begin());
  MUSTER_RETURN_IF_ERROR(End(PutRows(issue)));
  return database_->CheckpointWhenLarge();
}

absl::StatusOr<std::vector<HolderRow>> EnrollStore::Holders() {
  std::vector<HolderRow> holders;
  SqliteStatement select = database_->Prepare(
      "SELECT name, key_sha256, serial, issued_ms, not_after_ms, token_id FROM holders ORDER BY "
      "name");
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, select.Step());
    if (!more) return holders;
    holders.push_back({select.Text(0), select.Text(1), select.Text(2),
                       absl::FromUnixMillis(select.Int(3)), absl::FromUnixMillis(select.Int(4)),
                       select.Text(5)});
  }
}

absl::Status EnrollStore::ForgetHoldersBefore(absl::Time not_after) {
  return database_->Prepare("DELETE FROM holders WHERE not_after_ms < ?")
      .Bind(absl::ToUnixMillis(not_after))
      .Run();
}

absl::Status EnrollStore::Revoke(const RevocationRow& row, const std::string& key_sha256) {
  MUSTER_RETURN_IF_ERROR(database_->Begin());
  absl::Status status = database_->Prepare("INSERT OR REPLACE INTO revocations VALUES (?, ?)")
                            .Bind(row.name)
                            .Bind(absl::ToUnixMillis(row.at))
                            .Run();
  if (status.ok()) status = RevokeKey(key_sha256);
  return End(std::move(status));
}

absl::StatusOr<std::vector<RevocationRow>> EnrollStore::Revocations() {
  std::vector<RevocationRow> rows;
  SqliteStatement select = database_->Prepare("SELECT name, at_ms FROM revocations ORDER BY name");
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, select.Step());
    if (!more) return rows;
    rows.push_back({select.Text(0), absl::FromUnixMillis(select.Int(1))});
  }
}

absl::StatusOr<std::vector<std::string>> EnrollStore::RevokedKeys() {
  std::vector<std::string> keys;
  SqliteStatement select = database_->Prepare("SELECT key_sha256 FROM revoked_keys");
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, select.Step());
    if (!more) return keys;
    keys.push_back(select.Text(0));
  }
}

absl::Status EnrollStore::CopyTo(const std::string& path) {
  MUSTER_RETURN_IF_ERROR(database_->BeginCopy(path));
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool whole, database_->StepCopy());
    if (whole) return absl::OkStatus();
  }
}

}  // namespace muster::controller
