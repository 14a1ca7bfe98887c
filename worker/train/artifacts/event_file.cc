#include "worker/train/artifacts/event_file.h"

#include <array>
#include <cstring>
#include <utility>

#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

// CRC-32C (Castagnoli), reflected, a byte at a time: event files are small.
constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

// TFRecord's mask: a checksum that is stored beside checksummed data must not look like one.
uint32_t MaskedCrc(absl::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char byte : bytes)
    crc = kCrcTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff] ^ crc >> 8;
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

// Little-endian, as the format and every machine that torch runs on.
template <typename T>
std::string Fixed(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

// Fields in protobuf's wire format.
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string Tag(int field, WireType type) {
  return Varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type));
}
std::string BytesField(int field, absl::string_view bytes) {
  std::string out = Tag(field, kBytes) + Varint(bytes.size());
  out.append(bytes.data(), bytes.size());
  return out;
}

// event.proto: Event.wall_time = 1 and .step = 2.
std::string EventAt(int64_t step, absl::Time now) {
  return Tag(1, kFixed64) + Fixed(absl::ToDoubleSeconds(now - absl::UnixEpoch())) +
         Tag(2, kVarint) + Varint(static_cast<uint64_t>(step));
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Create(FileSystem& fs,
                                                             const std::string& path, int64_t step,
                                                             absl::Time now) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, fs.CreateExclusive(path));
  std::unique_ptr<EventFile> events(new EventFile(std::move(file)));
  // Event.file_version = 3; Event.session_log = 7 with SessionLog.status = 1, START.
  MUSTER_RETURN_IF_ERROR(events->AppendRecord(EventAt(0, now) + BytesField(3, "brain.Event:2")));
  MUSTER_RETURN_IF_ERROR(
      events->AppendRecord(EventAt(step, now) + BytesField(7, Tag(1, kVarint) + Varint(1))));
  return events;
}

absl::Status EventFile::AddScalars(int64_t step, const std::map<std::string, double>& values,
                                   absl::Time now) {
  // summary.proto: Summary.value = 1 with Value.tag = 1 and .simple_value = 2.
  std::string summary;
  for (const auto& [name, value] : values) {
    summary +=
        BytesField(1, BytesField(1, name) + Tag(2, kFixed32) + Fixed(static_cast<float>(value)));
  }
  return AppendRecord(EventAt(step, now) + BytesField(5, summary));  // Event.summary = 5
}

absl::Status EventFile::AppendRecord(absl::string_view event) {
  const std::string length = Fixed(static_cast<uint64_t>(event.size()));
  std::string record = length + Fixed(MaskedCrc(length));
  record.append(event.data(), event.size());
  return file_->Append(record + Fixed(MaskedCrc(event)));
}

}  // namespace muster::worker
