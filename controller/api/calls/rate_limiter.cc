#include "controller/api/calls/rate_limiter.h"

#include <algorithm>
#include <utility>

namespace muster::controller {
namespace {

// Of all who came when there was no room for a bucket of their own.
constexpr char kOthers[] = "others";

}  // namespace

double TokenBucket::TokensAt(const RateLimit& limit, absl::Duration now) const {
  const double grown = absl::ToDoubleSeconds(now - at_) * limit.per_second;
  return std::min(limit.burst, tokens_ + std::max(grown, 0.0));
}

absl::Duration TokenBucket::Take(const RateLimit& limit, absl::Duration now) {
  tokens_ = TokensAt(limit, now);
  at_ = std::max(at_, now);
  if (tokens_ < 1) return absl::Seconds((1 - tokens_) / limit.per_second);
  tokens_ -= 1;
  return absl::ZeroDuration();
}

bool TokenBucket::IsRested(const RateLimit& limit, absl::Duration now) const {
  return TokensAt(limit, now) >= limit.burst;
}

absl::Duration RateLimiter::Admit(absl::string_view principal, absl::Duration now) {
  if (limit_.per_second <= 0) return absl::ZeroDuration();
  std::string key(principal.data(), principal.size());
  auto bucket = buckets_.find(key);
  if (bucket == buckets_.end()) {
    if (buckets_.size() >= kMaxPrincipals) {
      std::erase_if(buckets_,
                    [&](const auto& entry) { return entry.second.IsRested(limit_, now); });
    }
    if (buckets_.size() >= kMaxPrincipals) key = kOthers;
    bucket = buckets_.try_emplace(std::move(key), limit_, now).first;
  }
  return bucket->second.Take(limit_, now);
}

}  // namespace muster::controller
