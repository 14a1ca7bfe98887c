#include "worker/agent/telemetry/spool_format.h"

#include <xxhash.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace muster::worker {
namespace {

constexpr absl::string_view kSuffix = ".spool";

template <typename T>
void PutLittleEndian(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

template <typename T>
T GetLittleEndian(absl::string_view bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  }
  return value;
}

}  // namespace

std::string EncodeSpoolRecord(SpoolKind kind, absl::string_view payload) {
  std::string body(1, static_cast<char>(kind));
  body.append(payload.data(), payload.size());
  std::string record;
  record.reserve(body.size() + 8);
  PutLittleEndian(record, static_cast<uint32_t>(payload.size()));
  PutLittleEndian(record, static_cast<uint32_t>(XXH32(body.data(), body.size(), 0)));
  record += body;
  return record;
}

std::optional<RawSpoolRecord> DecodeSpoolRecord(absl::string_view bytes) {
  if (bytes.size() < kSpoolRecordHeaderBytes) return std::nullopt;
  const uint32_t payload_bytes = GetLittleEndian<uint32_t>(bytes);
  if (payload_bytes > kMaxSpoolPayloadBytes) return std::nullopt;
  const size_t total = kSpoolRecordHeaderBytes + payload_bytes;
  if (bytes.size() < total) return std::nullopt;
  const absl::string_view body = bytes.substr(8, payload_bytes + 1);
  if (XXH32(body.data(), body.size(), 0) != GetLittleEndian<uint32_t>(bytes.substr(4))) {
    return std::nullopt;
  }
  const uint8_t kind = static_cast<uint8_t>(body[0]);
  if (kind < static_cast<uint8_t>(SpoolKind::kMetrics) ||
      kind > static_cast<uint8_t>(SpoolKind::kLogMark)) {
    return std::nullopt;
  }
  return RawSpoolRecord{static_cast<SpoolKind>(kind), body.substr(1), total};
}

std::string EncodeSpoolPosition(SpoolPosition position) {
  std::string payload;
  PutLittleEndian(payload, position.segment);
  PutLittleEndian(payload, position.offset);
  return payload;
}

std::optional<SpoolPosition> DecodeSpoolPosition(absl::string_view payload) {
  if (payload.size() != 16) return std::nullopt;
  return SpoolPosition{GetLittleEndian<uint64_t>(payload),
                       GetLittleEndian<uint64_t>(payload.substr(8))};
}

std::string SpoolSegmentName(uint64_t segment) {
  return absl::StrCat(absl::Dec(segment, absl::kZeroPad20), kSuffix);
}

std::optional<uint64_t> ParseSpoolSegmentName(absl::string_view name) {
  absl::string_view digits = name;
  uint64_t segment = 0;
  if (!absl::ConsumeSuffix(&digits, kSuffix) || !absl::SimpleAtoi(digits, &segment) ||
      SpoolSegmentName(segment) != name) {
    return std::nullopt;
  }
  return segment;
}

}  // namespace muster::worker
