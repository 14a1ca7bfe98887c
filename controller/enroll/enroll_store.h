// enrollment.db: join tokens, who used them, the certificates that workers hold, and what was
// revoked. One thread at a time. Errors: those of store/sqlite.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "controller/enroll/enroll_types.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

class EnrollStore {
 public:
  static absl::StatusOr<std::unique_ptr<EnrollStore>> Open(const SqliteOptions& options);

  absl::Status AddToken(const JoinTokenRow& token);
  absl::StatusOr<std::vector<JoinTokenRow>> Tokens();  // newest first
  absl::StatusOr<std::optional<JoinTokenRow>> FindToken(const std::string& id);
  absl::Status RevokeToken(const std::string& id);
  // Tokens that expired before `time`, and their uses.
  absl::Status ForgetTokensBefore(absl::Time time);
  absl::StatusOr<bool> WasUsedBy(const TokenUse& use);

  // One transaction.
  absl::Status Put(const CertificateIssue& issue);

  absl::StatusOr<std::vector<HolderRow>> Holders();  // by name
  absl::Status ForgetHoldersBefore(absl::Time not_after);
  // `key_sha256`: of the certificate that held the name; empty: none did.
  absl::Status Revoke(const RevocationRow& row, const std::string& key_sha256);
  absl::StatusOr<std::vector<RevocationRow>> Revocations();
  absl::StatusOr<std::vector<std::string>> RevokedKeys();
  // Into a new file.
  absl::Status CopyTo(const std::string& path);

 private:
  explicit EnrollStore(std::unique_ptr<SqliteDatabase> database) : database_(std::move(database)) {}
  absl::Status PutRows(const CertificateIssue& issue);
  absl::Status RevokeKey(const std::string& key_sha256);
  // Commits, or rolls back what failed.
  absl::Status End(absl::Status status);

  std::unique_ptr<SqliteDatabase> database_;
};

}  // namespace muster::controller
