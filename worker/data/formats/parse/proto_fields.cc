#include "worker/data/formats/parse/proto_fields.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

constexpr uint64_t kMostVarintBytes = 10;
constexpr uint64_t kLastFieldNumber = (1 << 29) - 1;

}  // namespace

absl::StatusOr<uint64_t> ProtoFields::NextVarint() {
  cursor_.SeekTo(at_);
  MUSTER_ASSIGN_OR_RETURN(const absl::string_view bytes,
                          cursor_.Read(std::min(kMostVarintBytes, end_ - at_)));
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint8_t byte = static_cast<uint8_t>(bytes[i]);
    if (i == kMostVarintBytes - 1 && byte > 1) break;
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      at_ += i + 1;
      return value;
    }
  }
  return cursor_.Bad(at_, "is no number of a Protocol Buffers message");
}

absl::StatusOr<bool> ProtoFields::Next(ProtoField& field) {
  if (done()) return false;
  const uint64_t start = at_;
  MUSTER_ASSIGN_OR_RETURN(const uint64_t tag, NextVarint());
  const uint64_t number = tag >> 3;
  if (number == 0 || number > kLastFieldNumber) {
    return cursor_.Bad(start, absl::StrCat("is no Protocol Buffers message: field ", number));
  }
  field = ProtoField{static_cast<uint32_t>(number)};
  switch (tag & 7) {
    case 0: {
      if (done()) return cursor_.Bad(start, "is a field without its number");
      MUSTER_ASSIGN_OR_RETURN(field.value, NextVarint());
      return true;
    }
    case 1:
      field.type = ProtoField::Type::kFixed64;
      field.size = 8;
      break;
    case 2: {
      field.type = ProtoField::Type::kBytes;
      if (done()) return cursor_.Bad(start, "is a field without its length");
      MUSTER_ASSIGN_OR_RETURN(field.size, NextVarint());
      break;
    }
    case 5:
      field.type = ProtoField::Type::kFixed32;
      field.size = 4;
      break;
    default:
      return cursor_.Bad(start, absl::StrCat("is no Protocol Buffers message: field ", number,
                                             " has wire type ", tag & 7));
  }
  field.offset = at_;
  if (field.size > end_ - at_) {
    return cursor_.Bad(start, absl::StrCat("has a field of ", field.size, " bytes where ",
                                           end_ - at_, " are left"));
  }
  at_ += field.size;
  return true;
}

}  // namespace muster::worker
