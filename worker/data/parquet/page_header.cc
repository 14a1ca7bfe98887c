#include "worker/data/parquet/page_header.h"

#include "absl/strings/str_cat.h"
#include "worker/data/parquet/thrift_reader.h"

namespace muster::worker {
namespace {

ParquetEncoding ReadEncoding(ThriftReader& reader, ThriftType type) {
  const int64_t encoding = reader.ReadInteger(type);
  if (encoding < 0 || encoding > static_cast<int64_t>(ParquetEncoding::kByteStreamSplit)) {
    reader.Fail("an encoding has no name");
    return ParquetEncoding::kPlain;
  }
  return static_cast<ParquetEncoding>(encoding);
}

// DataPageHeader and, with the first two fields alone, DictionaryPageHeader.
void ReadDataPage(ThriftReader& reader, ThriftType type, ParquetPageHeader& header) {
  reader.ReadStruct(type, [&](int64_t id, ThriftType field) {
    switch (id) {
      case 1:
        header.values = reader.ReadInteger(field);
        return true;
      case 2:
        header.encoding = ReadEncoding(reader, field);
        return true;
      case 3:
        if (header.type != ParquetPageType::kData) return false;
        header.definition_level_encoding = ReadEncoding(reader, field);
        return true;
    }
    return false;
  });
}

void ReadDataPageV2(ThriftReader& reader, ThriftType type, ParquetPageHeader& header) {
  reader.ReadStruct(type, [&](int64_t id, ThriftType field) {
    switch (id) {
      case 1:
        header.values = reader.ReadInteger(field);
        return true;
      case 4:
        header.encoding = ReadEncoding(reader, field);
        return true;
      case 5:
        header.definition_level_bytes = reader.ReadInteger(field);
        return true;
      case 6:
        header.repetition_level_bytes = reader.ReadInteger(field);
        return true;
      case 7:
        header.is_compressed = reader.ReadBool(field);
        return true;
    }
    return false;
  });
}

bool IsSize(int64_t value) { return value >= 0 && value <= INT32_MAX; }

}  // namespace

absl::StatusOr<ParquetPageHeader> ParseParquetPageHeader(absl::string_view start) {
  ParquetPageHeader header;
  header.compressed_bytes = header.uncompressed_bytes = header.values = -1;
  int64_t type = -1;
  bool has_body = false;
  ThriftReader reader(start);
  reader.ReadStruct([&](int64_t id, ThriftType field) {
    switch (id) {
      case 1:
        type = reader.ReadInteger(field);
        if (type < 0 || type > 3) reader.Fail("its type has no name");
        header.type = static_cast<ParquetPageType>(type);
        return true;
      case 2:
        header.uncompressed_bytes = reader.ReadInteger(field);
        return true;
      case 3:
        header.compressed_bytes = reader.ReadInteger(field);
        return true;
      case 4:
        header.crc = static_cast<uint32_t>(reader.ReadInteger(field));
        return true;
      case 5:
      case 7:
        if ((id == 5) != (header.type == ParquetPageType::kData)) return false;
        has_body = true;
        ReadDataPage(reader, field, header);
        return true;
      case 8:
        if (header.type != ParquetPageType::kDataV2) return false;
        has_body = true;
        ReadDataPageV2(reader, field, header);
        return true;
    }
    return false;
  });
  if (reader.ended()) return absl::OutOfRangeError("the header goes on");
  if (!reader.ok()) return reader.status();
  if (type < 0) return absl::InvalidArgumentError("it has no type");
  if (!IsSize(header.compressed_bytes) || !IsSize(header.uncompressed_bytes)) {
    return absl::InvalidArgumentError("it has no size");
  }
  if (header.type != ParquetPageType::kIndex && (!has_body || !IsSize(header.values))) {
    return absl::InvalidArgumentError("it does not say how many values it has");
  }
  if (!IsSize(header.definition_level_bytes) || !IsSize(header.repetition_level_bytes)) {
    return absl::InvalidArgumentError("its levels have no size");
  }
  header.header_bytes = reader.position();
  return header;
}

}  // namespace muster::worker
