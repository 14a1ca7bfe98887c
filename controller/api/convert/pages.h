// How much one answer holds. A page ends before it would grow beyond this, whatever was asked for,
// so that every client can take it (gRPC's own bound for a message is 4 MiB). And where the next
// one begins. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"

namespace muster::controller {

inline constexpr size_t kMaxPageBytes = 2 << 20;

class PageBytes {
 public:
  static constexpr size_t kAround = 8;  // a row's tag and length, at most

  explicit PageBytes(size_t most = kMaxPageBytes) : most_(most) {}

  // Whether so many bytes more fit; then they count. The first ones always do.
  bool Take(size_t bytes) {
    if (used_ > 0 && used_ + bytes + kAround > most_) return false;
    used_ += bytes + kAround;
    return true;
  }

 private:
  const size_t most_;
  size_t used_ = 0;
};

// The id that a page's token names; `first` without one.
inline absl::StatusOr<uint64_t> IdOfToken(const std::string& token, uint64_t first) {
  uint64_t id = first;
  if (!token.empty() && !absl::SimpleAtoi(token, &id)) {
    return absl::InvalidArgumentError("page_token: not one that this controller gave");
  }
  return id;
}

}  // namespace muster::controller
