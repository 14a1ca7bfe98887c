#include "worker/data/parquet/delta_integers.h"

#include <algorithm>

#include "worker/data/parquet/run_length.h"

namespace muster::worker {
namespace {

constexpr uint64_t kMostBlock = uint64_t{1} << 31;
constexpr int kHalf = 32;  // a number of 64 bits is read in two halves

}  // namespace

DeltaIntegers::DeltaIntegers(absl::string_view bytes) : bytes_(bytes) {
  uint64_t block = 0;
  ok_ = ReadVarint(block) && ReadVarint(miniblocks_) && ReadVarint(count_) && ReadZigzag(last_) &&
        block > 0 && block <= kMostBlock && miniblocks_ > 0 && miniblocks_ <= kMostMiniblocks &&
        block % miniblocks_ == 0 && (block / miniblocks_) % 32 == 0;
  if (!ok_) return;
  per_miniblock_ = block / miniblocks_;
  miniblock_ = miniblocks_;  // the first block begins with the second number
  left_ = count_;
}

bool DeltaIntegers::ReadVarint(uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && at_ < bytes_.size(); shift += 7) {
    const uint8_t byte = static_cast<uint8_t>(bytes_[at_++]);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

bool DeltaIntegers::ReadZigzag(int64_t& value) {
  uint64_t raw = 0;
  if (!ReadVarint(raw)) return false;
  value = static_cast<int64_t>(raw >> 1) ^ -static_cast<int64_t>(raw & 1);
  return true;
}

bool DeltaIntegers::NextMiniblock() {
  if (miniblock_ == miniblocks_) {
    if (!ReadZigzag(least_) || miniblocks_ > bytes_.size() - at_) return false;
    widths_at_ = at_;
    at_ += miniblocks_;
    miniblock_ = 0;
  }
  width_ = static_cast<uint8_t>(bytes_[widths_at_ + miniblock_++]);
  if (width_ > 64) return false;
  const uint64_t size = per_miniblock_ / 8 * static_cast<uint64_t>(width_);
  if (size > bytes_.size() - at_) return false;
  packed_at_ = at_ * 8;
  at_ += size;
  in_miniblock_ = per_miniblock_;
  return true;
}

bool DeltaIntegers::Next(int64_t& value) {
  if (!ok_ || left_ == 0) return false;
  if (!first_) {
    if (in_miniblock_ == 0 && !NextMiniblock()) {
      ok_ = false;
      return false;
    }
    --in_miniblock_;
    const int low_bits = std::min(width_, kHalf);
    uint64_t delta = ReadPackedBits(bytes_, packed_at_, low_bits);
    if (width_ > kHalf) {
      delta |= ReadPackedBits(bytes_, packed_at_ + kHalf, width_ - kHalf) << kHalf;
    }
    packed_at_ += static_cast<uint64_t>(width_);
    last_ =
        static_cast<int64_t>(static_cast<uint64_t>(last_) + static_cast<uint64_t>(least_) + delta);
  }
  first_ = false;
  --left_;
  value = last_;
  return true;
}

uint64_t DeltaIntegers::End() {
  uint64_t behind_first = left_ - (first_ && left_ > 0 ? 1 : 0);
  behind_first -= std::min(behind_first, in_miniblock_);
  while (ok_ && behind_first > 0) {
    ok_ = NextMiniblock();
    behind_first -= std::min(behind_first, per_miniblock_);
  }
  left_ = 0;
  return ok_ ? at_ : ~uint64_t{0};
}

}  // namespace muster::worker
