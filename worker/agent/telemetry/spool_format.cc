#include "worker/agent/telemetry/spool_format.h"

#include <xxhash.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/fs/little_endian.h"

namespace muster::worker {
namespace {

constexpr absl::string_view kSuffix = ".spool";

}  // namespace

std::string EncodeSpoolRecord(SpoolKind kind, absl::string_view payload) {
  std::string body(1, static_cast<char>(kind));
  body.append(payload.data(), payload.size());
  std::string record;
  record.reserve(body.size() + 8);
  AppendLittleEndian(record, static_cast<uint32_t>(payload.size()));
  AppendLittleEndian(record, static_cast<uint32_t>(XXH32(body.data(), body.size(), 0)));
  record += body;
  return record;
}

std::optional<RawSpoolRecord> DecodeSpoolRecord(absl::string_view bytes) {
  if (bytes.size() < kSpoolRecordHeaderBytes) return std::nullopt;
  const uint32_t payload_bytes = ReadLittleEndian<uint32_t>(bytes.data());
  if (payload_bytes > kMaxSpoolPayloadBytes) return std::nullopt;
  const size_t total = kSpoolRecordHeaderBytes + payload_bytes;
  if (bytes.size() < total) return std::nullopt;
  const absl::string_view body = bytes.substr(8, payload_bytes + 1);
  if (XXH32(body.data(), body.size(), 0) != ReadLittleEndian<uint32_t>(bytes.data() + 4)) {
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
  AppendLittleEndian(payload, position.segment);
  AppendLittleEndian(payload, position.offset);
  return payload;
}

std::optional<SpoolPosition> DecodeSpoolPosition(absl::string_view payload) {
  if (payload.size() != 16) return std::nullopt;
  return SpoolPosition{ReadLittleEndian<uint64_t>(payload.data()),
                       ReadLittleEndian<uint64_t>(payload.data() + 8)};
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
