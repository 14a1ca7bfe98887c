// The bytes of small tars, TFRecords and RecordIO files, for tests and fuzz targets to begin from.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster::testing {

// `count` bytes of `value`, the lowest first.
std::string LittleEndianBytes(uint64_t value, size_t count);

// A header of 512 bytes with a right checksum. ustar; a name of more than 100 bytes is cut off.
struct TarHeaderFields {
  std::string name;
  std::string prefix;
  std::string size_field;  // of up to 12 bytes; empty: `size` in octal
  uint64_t size = 0;
  char type = '0';
  bool gnu = false;  // "ustar  " instead of "ustar\0" "00"
};
std::string TarHeader(const TarHeaderFields& fields);
std::string FixTarChecksum(std::string header);
// A header, contents, and zeros up to a whole block.
std::string TarFile(const std::string& name, const std::string& contents, char type = '0');
std::string PaxRecord(const std::string& key, const std::string& value);
std::string TarEnd();  // two empty blocks

std::string ProtoVarint(uint64_t value);
std::string ProtoBytes(uint32_t field, absl::string_view bytes);
std::string ProtoNumber(uint32_t field, uint64_t value);
// Features of a tf.train.Example.
std::string BytesFeature(absl::string_view bytes);
std::string IntegerFeature(int64_t value, bool packed = true);
std::string TfExampleBytes(const std::vector<std::pair<std::string, std::string>>& features);
std::string TfRecordBytes(absl::string_view record);

// As dmlc's writer does: in parts where an aligned word of it is the magic number.
std::string RecordIoBytes(absl::string_view record);
// IRHeader and picture; several labels: flag is their count.
std::string ImageRecord(const std::vector<float>& labels, absl::string_view picture);

std::string DatumBytes(int32_t label, absl::string_view data, bool encoded = true);

}  // namespace muster::testing
