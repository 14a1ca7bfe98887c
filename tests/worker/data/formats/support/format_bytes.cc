#include "tests/worker/data/formats/support/format_bytes.h"

#include <string.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "worker/data/formats/parse/crc32c.h"

namespace muster::testing {
namespace {

constexpr size_t kBlock = 512;
constexpr char kRecordIoMagic[] = "\x0a\x23\xd7\xce";

void Put(std::string& header, size_t at, absl::string_view text, size_t most) {
  const size_t count = std::min(text.size(), most);
  header.replace(at, count, text.data(), count);
}

std::string Pad(std::string bytes, size_t multiple) {
  bytes.resize((bytes.size() + multiple - 1) / multiple * multiple);
  return bytes;
}

}  // namespace

std::string LittleEndianBytes(uint64_t value, size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += static_cast<char>(i < 8 ? value >> (8 * i) : 0);
  return bytes;
}

std::string FixTarChecksum(std::string header) {
  header.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<uint8_t>(c);
  header.replace(148, 7, absl::StrFormat("%06o", sum) + '\0');
  return header;
}

std::string TarHeader(const TarHeaderFields& fields) {
  std::string header(kBlock, '\0');
  Put(header, 0, fields.name, 100);
  Put(header, 100, "0000644", 8);
  Put(header, 108, "0000000", 8);
  Put(header, 116, "0000000", 8);
  Put(header, 124,
      fields.size_field.empty() ? absl::StrFormat("%011o", fields.size) : fields.size_field, 12);
  Put(header, 136, "00000000000", 12);
  header[156] = fields.type;
  Put(header, 257,
      fields.gnu ? absl::string_view("ustar  \0", 8) : absl::string_view("ustar\00000", 8), 8);
  Put(header, 345, fields.prefix, 155);
  return FixTarChecksum(std::move(header));
}

std::string TarFile(const std::string& name, const std::string& contents, char type) {
  TarHeaderFields fields;
  fields.name = name;
  fields.size = contents.size();
  fields.type = type;
  return TarHeader(fields) + Pad(contents, kBlock);
}

std::string PaxRecord(const std::string& key, const std::string& value) {
  const std::string rest = absl::StrCat(" ", key, "=", value, "\n");
  size_t length = rest.size() + 1;
  while (absl::StrCat(length).size() + rest.size() != length) ++length;
  return absl::StrCat(length, rest);
}

std::string TarEnd() { return std::string(2 * kBlock, '\0'); }

std::string ProtoVarint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string ProtoBytes(uint32_t field, absl::string_view bytes) {
  return absl::StrCat(ProtoVarint(field << 3 | 2), ProtoVarint(bytes.size()), bytes);
}

std::string ProtoNumber(uint32_t field, uint64_t value) {
  return ProtoVarint(field << 3) + ProtoVarint(value);
}

std::string BytesFeature(absl::string_view bytes) { return ProtoBytes(1, ProtoBytes(1, bytes)); }

std::string IntegerFeature(int64_t value, bool packed) {
  const std::string number = ProtoVarint(static_cast<uint64_t>(value));
  return ProtoBytes(3,
                    packed ? ProtoBytes(1, number) : ProtoNumber(1, static_cast<uint64_t>(value)));
}

std::string TfExampleBytes(const std::vector<std::pair<std::string, std::string>>& features) {
  std::string entries;
  for (const auto& [name, feature] : features) {
    entries += ProtoBytes(1, ProtoBytes(1, name) + ProtoBytes(2, feature));
  }
  return ProtoBytes(1, entries);
}

std::string TfRecordBytes(absl::string_view record) {
  const auto checksum = [](absl::string_view bytes) {
    return LittleEndianBytes(worker::MaskCrc32c(worker::Crc32c(bytes)), 4);
  };
  const std::string length = LittleEndianBytes(record.size(), 8);
  return absl::StrCat(length, checksum(length), record, checksum(record));
}

std::string RecordIoBytes(absl::string_view record) {
  std::vector<absl::string_view> parts;
  size_t begin = 0;
  for (size_t at = 0; at + 4 <= record.size(); at += 4) {
    if (record.substr(at, 4) != kRecordIoMagic) continue;
    parts.push_back(record.substr(begin, at - begin));
    begin = at + 4;
  }
  parts.push_back(record.substr(begin));
  std::string bytes;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool first = i == 0, last = i + 1 == parts.size();
    const uint32_t flag = parts.size() == 1 ? 0 : first ? 1 : last ? 3 : 2;
    absl::StrAppend(&bytes, kRecordIoMagic,
                    LittleEndianBytes(flag << 29 | static_cast<uint32_t>(parts[i].size()), 4),
                    Pad(std::string(parts[i]), 4));
  }
  return bytes;
}

std::string ImageRecord(const std::vector<float>& labels, absl::string_view picture) {
  const auto bits = [](float value) {
    uint32_t word;
    ::memcpy(&word, &value, 4);
    return LittleEndianBytes(word, 4);
  };
  const bool one = labels.size() == 1;
  std::string record = LittleEndianBytes(one ? 0 : labels.size(), 4);
  record += one ? bits(labels[0]) : bits(0);
  record += LittleEndianBytes(7, 8) + LittleEndianBytes(0, 8);
  if (!one) {
    for (const float label : labels) record += bits(label);
  }
  return absl::StrCat(record, picture);
}

std::string DatumBytes(int32_t label, absl::string_view data, bool encoded) {
  return absl::StrCat(ProtoNumber(1, 3), ProtoNumber(2, 2), ProtoNumber(3, 2), ProtoBytes(4, data),
                      ProtoNumber(5, static_cast<uint64_t>(int64_t{label})),
                      ProtoNumber(7, encoded ? 1 : 0));
}

}  // namespace muster::testing
