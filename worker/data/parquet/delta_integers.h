// Whole numbers as the differences of each from the one before, packed in blocks
// (DELTA_BINARY_PACKED of Parquet's Encodings.md).
//
// Used by value_decoder.cc, also for the lengths of byte arrays. A pure parser of bytes from
// outside, which takes no memory of its own. One thread.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace muster::worker {

class DeltaIntegers {
 public:
  // `bytes` must outlive this; they may go on behind the numbers.
  explicit DeltaIntegers(absl::string_view bytes);

  // The header was one.
  bool ok() const { return ok_; }
  // As the header has it.
  uint64_t count() const { return count_; }
  // False when there is no further number, or what is there is none. Sums wrap around.
  bool Next(int64_t& value);
  // Goes behind all numbers and returns where they end, in bytes; ~0: nowhere. Takes as long as
  // the bytes last, whatever the count.
  uint64_t End();

 private:
  static constexpr uint64_t kMostMiniblocks = 1024;

  bool ReadVarint(uint64_t& value);
  bool ReadZigzag(int64_t& value);
  bool NextMiniblock();

  const absl::string_view bytes_;
  bool ok_ = false;
  uint64_t at_ = 0;     // what was read so far, in bytes
  uint64_t count_ = 0;  // of all numbers
  uint64_t left_ = 0;   // of those that Next has not given
  int64_t last_ = 0;
  bool first_ = true;

  uint64_t miniblocks_ = 0;     // of a block
  uint64_t per_miniblock_ = 0;  // numbers
  uint64_t miniblock_ = 0;      // the next one of this block
  uint64_t widths_at_ = 0;      // in bytes, of this block
  int64_t least_ = 0;           // the smallest difference of this block
  uint64_t in_miniblock_ = 0;   // numbers that are left of this one
  int width_ = 0;               // bits of each
  uint64_t packed_at_ = 0;      // the next of them, in bits
};

}  // namespace muster::worker
