#include "controller/store/metrics/points/point_codec.h"

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster::controller {
namespace {

constexpr int kMaxVarintBytes = 10;

void PutVarint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

uint64_t ZigZag(uint64_t delta) { return (delta << 1) ^ (0 - (delta >> 63)); }
uint64_t UnZigZag(uint64_t coded) { return (coded >> 1) ^ (0 - (coded & 1)); }

absl::Status Broken(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("packed points: ", what));
}

// Takes bytes from the front of a blob that may be cut or damaged.
class Reader {
 public:
  explicit Reader(absl::string_view bytes) : bytes_(bytes) {}
  bool AtEnd() const { return bytes_.empty(); }

  absl::Status Varint(uint64_t& value) {
    value = 0;
    for (int i = 0; i < kMaxVarintBytes; ++i) {
      if (bytes_.empty()) return Broken("cut inside a number");
      const auto byte = static_cast<uint8_t>(bytes_[0]);
      bytes_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if ((byte & 0x80) == 0) return absl::OkStatus();
    }
    return Broken("a number longer than ten bytes");
  }

  absl::Status Bytes(uint64_t count, absl::string_view& out) {
    if (count > bytes_.size()) return Broken("cut inside a section");
    out = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return absl::OkStatus();
  }

 private:
  absl::string_view bytes_;
};

void PutDouble(std::string& out, double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(bits >> (8 * i)));
}

double GetDouble(absl::string_view bytes) {
  uint64_t bits = 0;
  for (int i = 0; i < 8; ++i)
    bits |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  return std::bit_cast<double>(bits);
}

absl::Status UnpackSeries(absl::string_view section, uint64_t count,
                          std::vector<PackedPoint>& out) {
  Reader reader(section);
  uint64_t step = 0;
  uint64_t time_ms = 0;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t delta = 0;
    MUSTER_RETURN_IF_ERROR(reader.Varint(delta));
    step += UnZigZag(delta);
    MUSTER_RETURN_IF_ERROR(reader.Varint(delta));
    time_ms += UnZigZag(delta);
    absl::string_view value;
    MUSTER_RETURN_IF_ERROR(reader.Bytes(8, value));
    out.push_back({static_cast<int64_t>(step), static_cast<int64_t>(time_ms), GetDouble(value)});
  }
  return reader.AtEnd() ? absl::OkStatus() : Broken("bytes left over in a section");
}

// Gives each name with how many points there are and their bytes, until one is refused.
template <typename Take>
absl::Status ForEachSection(absl::string_view blob, Take take) {
  Reader reader(blob);
  while (!reader.AtEnd()) {
    uint64_t id = 0;
    uint64_t count = 0;
    uint64_t bytes = 0;
    MUSTER_RETURN_IF_ERROR(reader.Varint(id));
    MUSTER_RETURN_IF_ERROR(reader.Varint(count));
    MUSTER_RETURN_IF_ERROR(reader.Varint(bytes));
    absl::string_view section;
    MUSTER_RETURN_IF_ERROR(reader.Bytes(bytes, section));
    MUSTER_RETURN_IF_ERROR(take(id, count, section));
  }
  return absl::OkStatus();
}

}  // namespace

std::string PackPoints(const PointsByName& points) {
  std::string blob;
  for (const auto& [name_id, series] : points) {
    std::string section;
    uint64_t step = 0;  // unsigned: deltas wrap instead of overflowing
    uint64_t time_ms = 0;
    for (const PackedPoint& point : series) {
      PutVarint(section, ZigZag(static_cast<uint64_t>(point.step) - step));
      PutVarint(section, ZigZag(static_cast<uint64_t>(point.time_ms) - time_ms));
      PutDouble(section, point.value);
      step = static_cast<uint64_t>(point.step);
      time_ms = static_cast<uint64_t>(point.time_ms);
    }
    PutVarint(blob, name_id);
    PutVarint(blob, series.size());
    PutVarint(blob, section.size());
    blob += section;
  }
  return blob;
}

absl::Status UnpackPoints(absl::string_view blob, uint64_t name_id, std::vector<PackedPoint>& out) {
  return ForEachSection(blob, [&](uint64_t id, uint64_t count, absl::string_view section) {
    return id == name_id ? UnpackSeries(section, count, out) : absl::OkStatus();
  });
}

absl::Status UnpackAll(absl::string_view blob, PointsByName& out) {
  return ForEachSection(blob, [&](uint64_t id, uint64_t count, absl::string_view section) {
    return UnpackSeries(section, count, out[id]);
  });
}

}  // namespace muster::controller
