// The fields of a message in Protocol Buffers' wire format, one after the other, read by hand.
//
// Used for tf.train.Example and Caffe's Datum: the trainer links no protobuf, since torch carries
// one of its own. Only tags and lengths are read; what a field holds is skipped and told by where
// it lies. Format: protobuf.dev/programming-guides/encoding. One thread.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/data/formats/parse/file_cursor.h"

namespace muster::worker {

struct ProtoField {
  enum class Type { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  uint32_t number = 0;
  Type type = Type::kVarint;
  uint64_t value = 0;   // of a varint
  uint64_t offset = 0;  // of what it holds in the file, where it is no varint
  uint64_t size = 0;    // of that, in bytes
};

class ProtoFields {
 public:
  // The message lies in [begin, end) of the cursor's file. Requires begin <= end <= its size. The
  // cursor is moved; between calls others may move it too.
  ProtoFields(FileCursor& cursor, uint64_t begin, uint64_t end)
      : cursor_(cursor), at_(begin), end_(end) {}

  // False behind the last. INVALID_ARGUMENT for what is no message: a field that reaches out of it,
  // a number of more than 64 bits, a group.
  absl::StatusOr<bool> Next(ProtoField& field);

  // The next of the numbers that a packed field holds; requires !done().
  absl::StatusOr<uint64_t> NextVarint();
  bool done() const { return at_ >= end_; }

 private:
  FileCursor& cursor_;
  uint64_t at_;
  const uint64_t end_;
};

}  // namespace muster::worker
