#include "controller/access/audit_chain.h"

#include "absl/strings/str_cat.h"
#include "common/os/sha256.h"

namespace muster::controller {
namespace {

// So that no two rows have the same bytes: the length of each text stands before it.
void Add(Sha256& hash, absl::string_view text) {
  hash.Update(absl::StrCat(text.size(), ":"));
  hash.Update(text);
}

}  // namespace

std::string FirstAuditHash() { return Sha256Hex("muster audit 1"); }

std::string AuditHash(const std::string& previous, const AuditRow& row) {
  Sha256 hash;
  const AuditEntry& entry = row.entry;
  Add(hash, previous);
  Add(hash, absl::StrCat(row.seq));
  Add(hash, absl::StrCat(absl::ToUnixMillis(entry.time)));
  Add(hash, entry.user);
  Add(hash, entry.token_name);
  Add(hash, entry.method);
  Add(hash, entry.project);
  Add(hash, entry.object);
  Add(hash, entry.outcome);
  Add(hash, absl::StrCat(entry.count));
  Add(hash, entry.detail);
  return hash.FinishHex();
}

absl::Status FollowAuditRow(const AuditRow& row, AuditPoint& end) {
  if (row.seq != end.seq + 1) {
    return absl::DataLossError(absl::StrCat(
        "audit row ", end.seq + 1, ": it is missing; the next one that is there is row ", row.seq));
  }
  if (AuditHash(end.hash, row) != row.hash) {
    return absl::DataLossError(absl::StrCat(
        "audit row ", row.seq, " (", absl::FormatTime(row.entry.time, absl::UTCTimeZone()), ", ",
        row.entry.method, "): it, or its hash, is not what was written"));
  }
  end = {.seq = row.seq, .hash = row.hash};
  return absl::OkStatus();
}

}  // namespace muster::controller
