#include "worker/data/parquet/run_length.h"

#include <algorithm>
#include <cstring>

namespace muster::worker {

uint64_t ReadPackedBits(absl::string_view bytes, uint64_t at, int count) {
  const uint64_t byte = at / 8;
  if (byte >= bytes.size()) return 0;
  uint64_t word = 0;
  std::memcpy(&word, bytes.data() + byte, std::min<uint64_t>(8, bytes.size() - byte));
  return (word >> (at % 8)) & ((uint64_t{1} << count) - 1);
}

bool RunLengthReader::NextRun() {
  uint64_t head = 0;
  int shift = 0;
  while (true) {
    if (at_ == bytes_.size() || shift > 28) return false;
    const uint8_t byte = static_cast<uint8_t>(bytes_[at_++]);
    head |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) break;
    shift += 7;
  }
  const uint64_t rest = bytes_.size() - at_;
  packed_ = (head & 1) != 0;
  left_ = head >> 1;
  if (packed_) {
    left_ *= 8;
    packed_at_ = at_ * 8;
    const uint64_t width = static_cast<uint64_t>(bits_);
    // Some writers leave the padding of the last group out.
    if (left_ * width > rest * 8) left_ = rest * 8 / width;
    at_ += std::min(rest, (left_ * width + 7) / 8);
    return true;
  }
  const uint64_t width_bytes = static_cast<uint64_t>((bits_ + 7) / 8);
  if (width_bytes > rest) return false;
  value_ = 0;
  std::memcpy(&value_, bytes_.data() + at_, width_bytes);
  at_ += width_bytes;
  return true;
}

bool RunLengthReader::Next(uint32_t& value) {
  while (left_ == 0) {  // a run may be empty; each takes a byte
    if (!NextRun()) return false;
  }
  --left_;
  if (packed_) {
    value = static_cast<uint32_t>(ReadPackedBits(bytes_, packed_at_, bits_));
    packed_at_ += static_cast<uint64_t>(bits_);
  } else {
    value = value_;
  }
  return true;
}

}  // namespace muster::worker
