#include "worker/data/parquet/thrift_reader.h"

#include "absl/strings/str_cat.h"

namespace muster::worker {
namespace {

int64_t FromZigzag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

}  // namespace

absl::Status ThriftReader::status() const {
  if (ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(fault_.empty() ? "it is cut off" : fault_);
}

void ThriftReader::Fail(absl::string_view what) {
  if (ok()) fault_ = what;
}

uint8_t ThriftReader::ReadByte() {
  if (!ok()) return 0;
  if (at_ == bytes_.size()) {
    ended_ = true;
    return 0;
  }
  return static_cast<uint8_t>(bytes_[at_++]);
}

uint64_t ThriftReader::ReadVarint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint8_t byte = ReadByte();
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return ok() ? value : 0;
  }
  Fail("a number has more than 64 bits");
  return 0;
}

bool ThriftReader::Enter() {
  if (depth_ == kMostDepth) Fail("its structures lie too deep in one another");
  if (!ok()) return false;
  ++depth_;
  return true;
}

void ThriftReader::ReadStruct(absl::FunctionRef<bool(int64_t id, ThriftType type)> on_field) {
  if (!Enter()) return;
  int64_t id = 0;
  while (ok()) {
    const uint8_t head = ReadByte();
    const ThriftType type = static_cast<ThriftType>(head & 0x0f);
    if (!ok() || type == ThriftType::kStop) break;
    const int64_t delta = head >> 4;
    const int64_t next = delta == 0 ? FromZigzag(ReadVarint()) : id + delta;
    if (next < 0 || next > INT16_MAX) Fail("a field's number is out of range");
    if (!ok()) break;
    id = next;
    if (!on_field(id, type)) Skip(type, /*is_element=*/false);
  }
  Leave();
}

void ThriftReader::ReadStruct(ThriftType type,
                              absl::FunctionRef<bool(int64_t id, ThriftType type)> on_field) {
  if (type != ThriftType::kStruct) Fail("a field is no structure where one is wanted");
  ReadStruct(on_field);
}

void ThriftReader::ReadList(ThriftType type, absl::FunctionRef<void(ThriftType type)> on_element) {
  if (type != ThriftType::kList && type != ThriftType::kSet) {
    Fail("a field is no list where one is wanted");
  }
  if (!Enter()) return;
  const uint8_t head = ReadByte();
  const uint64_t count = head >> 4 == 15 ? ReadVarint() : head >> 4;
  const ThriftType element = static_cast<ThriftType>(head & 0x0f);
  // Every element has a byte at least, so `count` cannot keep anyone longer than the bytes last.
  for (uint64_t i = 0; i < count && ok(); ++i) {
    const uint64_t before = at_;
    on_element(element);
    if (ok() && at_ == before) Fail("an element without bytes");
  }
  Leave();
}

int64_t ThriftReader::ReadInteger(ThriftType type) {
  switch (type) {
    case ThriftType::kByte:
      return static_cast<int8_t>(ReadByte());
    case ThriftType::kInt16:
    case ThriftType::kInt32:
    case ThriftType::kInt64:
      return FromZigzag(ReadVarint());
    default:
      Fail("a field is no whole number where one is wanted");
      return 0;
  }
}

bool ThriftReader::ReadBool(ThriftType type) {
  if (type != ThriftType::kTrue && type != ThriftType::kFalse) {
    Fail("a field is no truth where one is wanted");
  }
  return ok() && type == ThriftType::kTrue;
}

absl::string_view ThriftReader::ReadBinary(ThriftType type) {
  if (type != ThriftType::kBinary) Fail("a field has no bytes where some are wanted");
  const uint64_t size = ReadVarint();
  const uint64_t begin = at_;
  SkipBytes(size);
  return ok() ? bytes_.substr(begin, size) : absl::string_view();
}

void ThriftReader::SkipBytes(uint64_t count) {
  if (!ok()) return;
  if (count > bytes_.size() - at_) {
    ended_ = true;
  } else {
    at_ += count;
  }
}

void ThriftReader::Skip(ThriftType type, bool is_element) {
  switch (type) {
    case ThriftType::kTrue:
    case ThriftType::kFalse:
      if (is_element) ReadByte();
      return;
    case ThriftType::kByte:
      ReadByte();
      return;
    case ThriftType::kInt16:
    case ThriftType::kInt32:
    case ThriftType::kInt64:
      ReadVarint();
      return;
    case ThriftType::kDouble:
      return SkipBytes(8);
    case ThriftType::kUuid:
      return SkipBytes(16);
    case ThriftType::kBinary:
      ReadBinary(type);
      return;
    case ThriftType::kList:
    case ThriftType::kSet:
      return ReadList(type, [&](ThriftType element) { Skip(element, /*is_element=*/true); });
    case ThriftType::kMap: {
      if (!Enter()) return;
      const uint64_t count = ReadVarint();
      const uint8_t types = count == 0 ? 0 : ReadByte();
      for (uint64_t i = 0; i < count && ok(); ++i) {
        Skip(static_cast<ThriftType>(types >> 4), /*is_element=*/true);
        Skip(static_cast<ThriftType>(types & 0x0f), /*is_element=*/true);
      }
      return Leave();
    }
    case ThriftType::kStruct:
      return ReadStruct([](int64_t, ThriftType) { return false; });
    default:
      Fail("a field of no known type");
  }
}

}  // namespace muster::worker
