// How one record of the spool stands on disk. Pure.
//
//   segment = magic, record*          record = u32 payload bytes, u32 checksum, u8 kind, payload
//
// Integers are little-endian; the checksum is XXH32 over kind and payload. A record that is cut off
// or does not match ends its segment: the agent or the machine died while it was written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace muster::worker {

inline constexpr absl::string_view kSpoolMagic = "MSPOOL1\n";
inline constexpr size_t kSpoolRecordHeaderBytes = 9;
// Larger than any line of a rank.
inline constexpr size_t kMaxSpoolPayloadBytes = 8u << 20;

// No agent comes to begin so many segments: a file of a higher number is none of ours.
inline constexpr uint64_t kMaxSpoolSegment = uint64_t{1} << 62;

enum class SpoolKind : uint8_t {
  kMetrics = 1,     // MetricRecord
  kLog = 2,         // LogRecord
  kGap = 3,         // GapRecord
  kAck = 4,         // u64 segment, u64 offset: everything before is at the controller
  kMetricMark = 5,  // MetricRecord without points: this sequence number was spooled
  kLogMark = 6,     // LogRecord without text: the stream was spooled up to this offset
};

struct SpoolPosition {
  uint64_t segment = 0;
  uint64_t offset = 0;
  friend auto operator<=>(const SpoolPosition&, const SpoolPosition&) = default;
};

std::string EncodeSpoolRecord(SpoolKind kind, absl::string_view payload);

struct RawSpoolRecord {
  SpoolKind kind = SpoolKind::kMetrics;
  absl::string_view payload;  // into the caller's bytes
  size_t total_bytes = 0;
};

// The record at the start of `bytes`; nothing when it is cut off, broken, or of an unknown kind.
std::optional<RawSpoolRecord> DecodeSpoolRecord(absl::string_view bytes);

std::string EncodeSpoolPosition(SpoolPosition position);
std::optional<SpoolPosition> DecodeSpoolPosition(absl::string_view payload);

// "00000000000000000007.spool"; names sort by number.
std::string SpoolSegmentName(uint64_t segment);
std::optional<uint64_t> ParseSpoolSegmentName(absl::string_view name);

}  // namespace muster::worker
