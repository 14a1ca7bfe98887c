// Thrift's compact protocol, as Parquet's footer and page headers are written in it
// (https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md).
//
// Used by footer.cc and page_header.cc. A pure parser of bytes from outside: after its first fault
// every answer is zero or empty, so a caller looks at status() once, at the end. One thread.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster::worker {

// The types of fields, by their numbers in the protocol. A field that is a truth has it as its
// type; a list of truths has kTrue as the type of its elements, whose bytes are 1 and 2.
enum class ThriftType : uint8_t {
  kStop = 0,
  kTrue = 1,
  kFalse = 2,
  kByte = 3,
  kInt16 = 4,
  kInt32 = 5,
  kInt64 = 6,
  kDouble = 7,
  kBinary = 8,
  kList = 9,
  kSet = 10,
  kMap = 11,
  kStruct = 12,
  kUuid = 13,
};

class ThriftReader {
 public:
  // Structs, lists and maps may lie in one another so deep.
  static constexpr int kMostDepth = 32;

  // `bytes` must outlive the reader and what it returns.
  explicit ThriftReader(absl::string_view bytes) : bytes_(bytes) {}

  // Calls `on_field` for each field of the struct that begins here. It reads the value and returns
  // true, or returns false and the value is skipped.
  void ReadStruct(absl::FunctionRef<bool(int64_t id, ThriftType type)> on_field);
  // As ReadStruct, for the value of a field or an element: a fault unless `type` is a struct.
  void ReadStruct(ThriftType type, absl::FunctionRef<bool(int64_t id, ThriftType type)> on_field);
  // Calls `on_element` for each element, which it must read. A fault unless `type` is a list.
  void ReadList(ThriftType type, absl::FunctionRef<void(ThriftType type)> on_element);

  // The value of a field of this type; a fault when the type is another.
  int64_t ReadInteger(ThriftType type);
  bool ReadBool(ThriftType type);
  absl::string_view ReadBinary(ThriftType type);

  // A fault of the caller's: the value that was read cannot be. The first one is kept.
  void Fail(absl::string_view what);

  bool ok() const { return fault_.empty() && !ended_; }
  // The bytes ended before the value did; more of them may help.
  bool ended() const { return fault_.empty() && ended_; }
  // INVALID_ARGUMENT saying what is wrong, without the file's name.
  absl::Status status() const;
  // What was read so far.
  uint64_t position() const { return at_; }

 private:
  uint8_t ReadByte();
  uint64_t ReadVarint();
  bool Enter();
  void Leave() { --depth_; }
  void Skip(ThriftType type, bool is_element);
  void SkipBytes(uint64_t count);

  const absl::string_view bytes_;
  uint64_t at_ = 0;
  int depth_ = 0;
  bool ended_ = false;
  absl::string_view fault_;
};

}  // namespace muster::worker
