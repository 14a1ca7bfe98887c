// Small whole numbers as Parquet packs levels and places in a dictionary: runs of one number, and
// groups of eight packed bit by bit ("RLE / bit-packing hybrid" of Encodings.md).
//
// Used by value_decoder.cc and column_reader.cc. A pure parser of bytes from outside, which takes
// no memory of its own. One thread.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace muster::worker {

// `count` bits, at most 57, from bit `at` of the bytes on, the lowest first; zeros behind the end.
uint64_t ReadPackedBits(absl::string_view bytes, uint64_t at, int count);

class RunLengthReader {
 public:
  static constexpr int kMostBits = 32;

  // No numbers at all.
  RunLengthReader() = default;
  // Requires 0 <= bits <= kMostBits; `bytes` must outlive the reader.
  RunLengthReader(absl::string_view bytes, int bits) : bytes_(bytes), bits_(bits) {}

  // False when there is no further number.
  bool Next(uint32_t& value);

 private:
  bool NextRun();

  absl::string_view bytes_;
  int bits_ = 0;
  uint64_t at_ = 0;         // the next run, in bytes
  uint64_t left_ = 0;       // numbers of this run
  bool packed_ = false;     // this run's are packed, else all `value_`
  uint64_t packed_at_ = 0;  // the next of them, in bits
  uint32_t value_ = 0;
};

}  // namespace muster::worker
