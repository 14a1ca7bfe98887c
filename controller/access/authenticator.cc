#include "controller/access/authenticator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/os/secrets.h"
#include "common/os/sha256.h"

namespace muster::controller {
namespace {

constexpr char kPrefix[] = "mst_";  // so that programs that look for lost secrets know it
constexpr size_t kTokenBytes = 32;
constexpr char kBearerPrefix[] = "Bearer ";

std::shared_ptr<const Principal> BuiltinAdmin() {
  return std::make_shared<const Principal>(
      Principal{.user = kBuiltinAdmin, .grants = {{kAllProjects, Role::kAdmin}}});
}

}  // namespace

absl::StatusOr<std::string> MakeTokenText() {
  MUSTER_ASSIGN_OR_RETURN(const std::string random, RandomHex(kTokenBytes));
  return absl::StrCat(kPrefix, random);
}

std::string TokenHash(absl::string_view token) { return Sha256Hex(token); }

Authenticator::Authenticator(std::string builtin_token, Clock& clock)
    : builtin_(absl::StrCat(kBearerPrefix, builtin_token)),
      builtin_admin_(BuiltinAdmin()),
      clock_(clock) {}

void Authenticator::Publish(const AccessTables& tables) {
  std::unordered_map<uint64_t, Entry> entries;
  std::unordered_map<std::string, uint64_t> by_hash;
  for (const auto& [id, token] : tables.tokens) {
    const auto user = tables.users.find(token.user);
    if (user == tables.users.end()) continue;
    entries[id] = {
        .principal = std::make_shared<const Principal>(Principal{.user = token.user,
                                                                 .token_id = id,
                                                                 .token_name = token.name,
                                                                 .expires = token.expires,
                                                                 .grants = user->second.grants}),
        .hash = token.hash,
        .revoked = token.revoked};
    by_hash[token.hash] = id;
  }
  MutexLock lock(mutex_);
  entries_.swap(entries);
  by_hash_.swap(by_hash);
}

absl::Status Authenticator::CheckLive(const Entry& entry) const {
  const Principal& caller = *entry.principal;
  const bool revoked = entry.revoked != absl::InfiniteFuture();
  if (!revoked && clock_.Now() < caller.expires) return absl::OkStatus();
  return absl::UnauthenticatedError(
      absl::StrCat("token ", caller.token_name, " of ", caller.user,
                   revoked ? " was revoked on " : " expired on ",
                   absl::FormatTime("%Y-%m-%d %H:%M UTC", revoked ? entry.revoked : caller.expires,
                                    absl::UTCTimeZone()),
                   "; ask an admin for a new one: muster token create ", caller.user));
}

absl::StatusOr<std::shared_ptr<const Principal>> Authenticator::Authenticate(
    absl::string_view authorization, std::shared_ptr<const Principal>* known) const {
  if (IsSameSecret(authorization, builtin_)) {
    if (known != nullptr) *known = builtin_admin_;
    return builtin_admin_;
  }
  absl::string_view text = authorization;
  if (absl::ConsumePrefix(&text, kBearerPrefix)) {
    const std::string hash = TokenHash(text);
    MutexLock lock(mutex_);
    // What the look-up's time may tell is of the hash, from which no token can be guessed.
    const auto id = by_hash_.find(hash);
    const auto entry = id == by_hash_.end() ? entries_.end() : entries_.find(id->second);
    if (entry != entries_.end() && IsSameSecret(hash, entry->second.hash)) {
      if (known != nullptr) *known = entry->second.principal;
      MUSTER_RETURN_IF_ERROR(CheckLive(entry->second));
      used_[entry->first] = clock_.Now();
      return entry->second.principal;
    }
  }
  return absl::UnauthenticatedError(
      "no valid token: `muster login` keeps yours; give another by MUSTER_TOKEN or --token-file");
}

absl::StatusOr<std::shared_ptr<const Principal>> Authenticator::Again(
    const Principal& caller) const {
  if (caller.is_builtin()) return builtin_admin_;
  MutexLock lock(mutex_);
  const auto entry = entries_.find(caller.token_id);
  if (entry == entries_.end()) {
    return absl::UnauthenticatedError(
        absl::StrCat("token ", caller.token_name, " of ", caller.user, " is not valid any more"));
  }
  MUSTER_RETURN_IF_ERROR(CheckLive(entry->second));
  return entry->second.principal;
}

std::map<uint64_t, absl::Time> Authenticator::TakeLastUsed() {
  MutexLock lock(mutex_);
  return std::exchange(used_, {});
}

}  // namespace muster::controller
