// From the token that a call shows to who calls: in memory, so that a call is checked before its
// message is read, without the disk. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "controller/access/access_types.h"

namespace muster::controller {

// A new token's text: "mst_" and 32 random bytes in hex. UNAVAILABLE: the kernel has none.
absl::StatusOr<std::string> MakeTokenText();
// What is stored of it.
std::string TokenHash(absl::string_view token);

class Authenticator {
 public:
  // `builtin_token`: the one in the data folder. The clock outlives this.
  Authenticator(std::string builtin_token, Clock& clock);

  // What the tables are from now on.
  void Publish(const AccessTables& tables) MUSTER_EXCLUDES(mutex_);

  // `authorization` is what the caller sent under that key. UNAUTHENTICATED: no token, or an
  // unknown, expired or revoked one; the message says which, and the way out. `known`, where given,
  // becomes whose it was all the same.
  absl::StatusOr<std::shared_ptr<const Principal>> Authenticate(
      absl::string_view authorization, std::shared_ptr<const Principal>* known = nullptr) const
      MUSTER_EXCLUDES(mutex_);
  // The same caller as of now: with other roles, say. UNAUTHENTICATED: not any more.
  absl::StatusOr<std::shared_ptr<const Principal>> Again(const Principal& caller) const
      MUSTER_EXCLUDES(mutex_);

  // When each token was last used, of those that were since the last time.
  std::map<uint64_t, absl::Time> TakeLastUsed() MUSTER_EXCLUDES(mutex_);

 private:
  struct Entry {
    std::shared_ptr<const Principal> principal;
    std::string hash;
    absl::Time revoked = absl::InfiniteFuture();
  };
  absl::Status CheckLive(const Entry& entry) const;

  const std::string builtin_;  // as it is sent
  const std::shared_ptr<const Principal> builtin_admin_;
  Clock& clock_;
  mutable Mutex mutex_;
  std::unordered_map<uint64_t, Entry> entries_ MUSTER_GUARDED_BY(mutex_);  // by id
  std::unordered_map<std::string, uint64_t> by_hash_ MUSTER_GUARDED_BY(mutex_);
  mutable std::map<uint64_t, absl::Time> used_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::controller
