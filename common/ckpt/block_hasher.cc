#include "common/ckpt/block_hasher.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/escaping.h"
#include "common/base/check.h"

namespace muster {
namespace {

Hash128 Canonical(const XXH3_state_t* state) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
  Hash128 hash;
  static_assert(sizeof canonical.digest == sizeof hash);
  std::memcpy(hash.data(), canonical.digest, hash.size());
  return hash;
}

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

std::unique_ptr<XXH3_state_t, FreeState> NewState() {
  std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  MUSTER_CHECK(state != nullptr, "no memory for a hash state");
  XXH3_128bits_reset(state.get());
  return state;
}

}  // namespace

std::string HashToHex(const Hash128& hash) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(hash.data()), hash.size()));
}

std::optional<Hash128> HashFromHex(absl::string_view hex) {
  Hash128 hash;
  if (hex.size() != 2 * hash.size() ||
      hex.find_first_not_of("0123456789abcdef") != absl::string_view::npos) {
    return std::nullopt;
  }
  const std::string bytes = absl::HexStringToBytes(hex);
  std::memcpy(hash.data(), bytes.data(), hash.size());
  return hash;
}

struct BlockHasher::States {
  std::unique_ptr<XXH3_state_t, FreeState> whole = NewState();
  std::unique_ptr<XXH3_state_t, FreeState> block = NewState();
};

BlockHasher::BlockHasher() : states_(std::make_unique<States>()) {}
BlockHasher::~BlockHasher() = default;

void BlockHasher::Update(absl::string_view bytes) {
  while (!bytes.empty()) {
    const size_t room = static_cast<size_t>(kHashBlockBytes - block_fill_bytes_);
    const size_t take = std::min(room, bytes.size());
    XXH3_128bits_update(states_->whole.get(), bytes.data(), take);
    XXH3_128bits_update(states_->block.get(), bytes.data(), take);
    block_fill_bytes_ += take;
    result_.size_bytes += take;
    bytes.remove_prefix(take);
    if (block_fill_bytes_ == kHashBlockBytes) EndBlock();
  }
}

void BlockHasher::EndBlock() {
  result_.blocks.push_back(Canonical(states_->block.get()));
  XXH3_128bits_reset(states_->block.get());
  block_fill_bytes_ = 0;
}

BlockHasher::Result BlockHasher::Finish() {
  if (block_fill_bytes_ > 0) EndBlock();
  result_.whole = Canonical(states_->whole.get());
  XXH3_128bits_reset(states_->whole.get());
  return std::exchange(result_, Result());
}

}  // namespace muster
