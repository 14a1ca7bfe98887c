// How often a principal may call: a token bucket for each. Pure: time comes as an argument. One
// thread at a time; CallGate holds it under its lock.
//
// A principal is who the token says it is, and the address it calls from; who shows no valid token
// has a bucket of its own kind, so that guessing does not eat the budget of those who may.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster::controller {

struct RateLimit {
  double per_second = 0;  // tokens that come back; 0: no limit
  double burst = 0;       // tokens that a rested bucket holds; at least 1
};

class TokenBucket {
 public:
  TokenBucket(const RateLimit& limit, absl::Duration now) : tokens_(limit.burst), at_(now) {}

  // Takes one token. Zero: taken. Otherwise none is there, and this is how long until one is.
  absl::Duration Take(const RateLimit& limit, absl::Duration now);
  // It holds all that it can: forgetting it changes nothing.
  bool IsRested(const RateLimit& limit, absl::Duration now) const;

 private:
  double TokensAt(const RateLimit& limit, absl::Duration now) const;

  double tokens_;
  absl::Duration at_;  // when tokens_ was true
};

class RateLimiter {
 public:
  // Buckets in memory. Beyond that the newcomers share one, after the rested ones were forgotten.
  static constexpr size_t kMaxPrincipals = 4096;

  explicit RateLimiter(const RateLimit& limit) : limit_(limit) {}

  // Zero: the call may go on. Otherwise: not before this long.
  absl::Duration Admit(absl::string_view principal, absl::Duration now);
  size_t size() const { return buckets_.size(); }

 private:
  const RateLimit limit_;
  std::map<std::string, TokenBucket, std::less<>> buckets_;
};

}  // namespace muster::controller
