// CRC32C, the checksum that TFRecord files carry.
//
// The Castagnoli polynomial of iSCSI (RFC 3720, appendix B.4), reflected, 0x82f63b78. Used by the
// TFRecord reader and by whoever writes such files. The processor's own instruction where it has
// one (SSE 4.2), else eight tables (Kounavis and Berry, "Novel Table Lookup-Based Algorithms for
// High-Performance CRC Generation", 2008). Pure; any thread.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace muster::worker {

// Of `bytes` behind those that gave `crc`; 0: there are none before. Crc32c("123456789") is
// 0xe3069283.
uint32_t Crc32c(absl::string_view bytes, uint32_t crc = 0);

// The same without the processor's help.
uint32_t PortableCrc32c(absl::string_view bytes, uint32_t crc = 0);

// As TFRecord stores it, so that a checksum of bytes that hold checksums is no fixed number.
inline uint32_t MaskCrc32c(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

}  // namespace muster::worker
