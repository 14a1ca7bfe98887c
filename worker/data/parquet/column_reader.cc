#include "worker/data/parquet/column_reader.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/data/parquet/page_codec.h"

namespace muster::worker {
namespace {

// A header has a page's statistics in it, so it may be large where values are.
constexpr uint64_t kLikelyHeaderBytes = 4u << 10;
constexpr uint64_t kMostHeaderBytes = 16u << 20;
constexpr uint64_t kLevelsLengthBytes = 4;

absl::Status BadPage(absl::string_view what) { return absl::InvalidArgumentError(what); }

uint32_t Crc32(absl::string_view bytes) {
  return static_cast<uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

ColumnReader::ColumnReader(FileSystem& fs, const std::string& path, const ParquetColumn& column,
                           const ParquetColumnChunk& chunk, const ParquetLimits& limits)
    : path_(path),
      column_(column),
      chunk_(chunk),
      limits_(limits),
      level_bits_(std::bit_width(static_cast<unsigned>(column.max_definition_level))),
      window_(fs, path, chunk.offset, chunk.offset + chunk.size),
      page_at_(chunk.offset),
      next_at_(chunk.offset) {
  MUSTER_CHECK(column.max_repetition_level == 0, "the column is no list");
}

absl::Status ColumnReader::Named(const absl::Status& status) const {
  return absl::Status(status.code(),
                      absl::StrCat(path_, ": column ", column_.name, ", page at byte ", page_at_,
                                   ": ", status.message()));
}

absl::Status ColumnReader::Next(ParquetValue& value) {
  while (left_ == 0) {  // a page may have no value
    if (absl::Status page = NextPage(); !page.ok()) return Named(page);
  }
  absl::Status read = NextOfPage(value);
  return read.ok() ? read : Named(read);
}

absl::Status ColumnReader::NextOfPage(ParquetValue& value) {
  value = ParquetValue();
  --left_;
  if (level_bits_ > 0) {
    uint32_t level = 0;
    if (!levels_.Next(level)) return BadPage("it has fewer levels than values");
    const uint32_t most = static_cast<uint32_t>(column_.max_definition_level);
    if (level > most) return BadPage(absl::StrCat("it has a definition level of ", level));
    if (level < most) return absl::OkStatus();
  }
  if (!values_->Next(value)) return BadPage("it has fewer values than it says, or a bad one");
  value.is_null = false;
  if (column_.type == ParquetType::kFixedLenByteArray &&
      value.bytes.size() != static_cast<size_t>(column_.type_length)) {
    return BadPage(absl::StrCat("a value has ", value.bytes.size(), " bytes"));
  }
  if (value.file_offset == ParquetValue::kNowhere) value.file_offset = page_.OffsetOf(value.bytes);
  return absl::OkStatus();
}

uint64_t ColumnReader::PageBytes::OffsetOf(absl::string_view value) const {
  const std::less_equal<const char*> not_behind;  // which also compares what is not of one array
  if (file_offset == ParquetValue::kNowhere || value.data() == nullptr ||
      !not_behind(bytes.data(), value.data()) ||
      !not_behind(value.data() + value.size(), bytes.data() + bytes.size())) {
    return ParquetValue::kNowhere;
  }
  return file_offset + static_cast<uint64_t>(value.data() - bytes.data());
}

absl::StatusOr<ParquetPageHeader> ColumnReader::ReadHeader() {
  const uint64_t rest = window_.end() - page_at_;
  for (uint64_t size = kLikelyHeaderBytes;; size *= 8) {
    MUSTER_ASSIGN_OR_RETURN(const absl::string_view start,
                            window_.Fetch(page_at_, std::min(size, rest)));
    auto header = ParseParquetPageHeader(start);
    if (header.ok()) return header;
    if (!absl::IsOutOfRange(header.status())) {
      return BadPage(absl::StrCat("of its header ", header.status().message()));
    }
    if (size >= std::min(rest, kMostHeaderBytes)) return BadPage("its header is cut off");
  }
}

absl::Status ColumnReader::CheckPage(const ParquetPageHeader& header) const {
  const uint64_t compressed = static_cast<uint64_t>(header.compressed_bytes);
  const uint64_t uncompressed = static_cast<uint64_t>(header.uncompressed_bytes);
  if (compressed > window_.end() - page_at_ - header.header_bytes) {
    return BadPage("it goes on behind its column");
  }
  if (std::max(compressed, uncompressed) > limits_.page_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("it has ", uncompressed, " bytes, more than the ", limits_.page_bytes,
                     " that a page may have: write the file with smaller pages"));
  }
  const uint64_t levels =
      static_cast<uint64_t>(header.definition_level_bytes + header.repetition_level_bytes);
  if (header.type == ParquetPageType::kDataV2 && levels > std::min(compressed, uncompressed)) {
    return BadPage("its levels have more bytes than itself");
  }
  return absl::OkStatus();
}

absl::Status ColumnReader::NextPage() {
  page_at_ = next_at_;
  if (page_at_ == window_.end()) return BadPage("there is none, but not all rows were read");
  MUSTER_ASSIGN_OR_RETURN(const ParquetPageHeader header, ReadHeader());
  MUSTER_RETURN_IF_ERROR(CheckPage(header));
  const uint64_t begin = page_at_ + header.header_bytes;
  next_at_ = begin + static_cast<uint64_t>(header.compressed_bytes);
  if (header.type == ParquetPageType::kIndex) return absl::OkStatus();

  MUSTER_ASSIGN_OR_RETURN(const absl::string_view stored,
                          window_.Fetch(begin, static_cast<uint64_t>(header.compressed_bytes)));
  if (header.crc.has_value() && *header.crc != Crc32(stored)) {
    return absl::DataLossError("its CRC is not that of its bytes: the file is damaged");
  }
  return header.type == ParquetPageType::kDictionary ? ReadDictionary(header, stored, begin)
                                                     : BeginPage(header, stored, begin);
}

absl::StatusOr<ColumnReader::PageBytes> ColumnReader::Unpack(const ParquetPageHeader& header,
                                                             absl::string_view stored,
                                                             uint64_t file_offset,
                                                             std::string& buffer) const {
  const uint64_t levels =
      static_cast<uint64_t>(header.definition_level_bytes + header.repetition_level_bytes);
  const uint64_t size = static_cast<uint64_t>(header.uncompressed_bytes) - levels;
  if (chunk_.codec == ParquetCodec::kUncompressed || !header.is_compressed) {
    if (stored.size() != size) return BadPage("it is not compressed, but has two sizes");
    return PageBytes{stored, file_offset};
  }
  MUSTER_RETURN_IF_ERROR(DecompressPage(chunk_.codec, stored, size, buffer));
  return PageBytes{buffer};
}

absl::Status ColumnReader::ReadDictionary(const ParquetPageHeader& header, absl::string_view stored,
                                          uint64_t file_offset) {
  if (has_dictionary_ || page_at_ != chunk_.offset) return BadPage("a dictionary must come first");
  if (header.encoding != ParquetEncoding::kPlain &&
      header.encoding != ParquetEncoding::kPlainDictionary) {
    return absl::UnimplementedError("a dictionary that is not plain is not read");
  }
  if (static_cast<uint64_t>(header.values) > limits_.dictionary_values) {
    return absl::ResourceExhaustedError(
        absl::StrCat("its dictionary has ", header.values, " values, more than the ",
                     limits_.dictionary_values, " that it may have"));
  }
  MUSTER_ASSIGN_OR_RETURN(PageBytes page, Unpack(header, stored, file_offset, dictionary_bytes_));
  // The window will move on.
  if (page.bytes.data() != dictionary_bytes_.data()) {
    dictionary_bytes_.assign(page.bytes.data(), page.bytes.size());
    page.bytes = dictionary_bytes_;
  }
  const uint64_t count = static_cast<uint64_t>(header.values);
  MUSTER_ASSIGN_OR_RETURN(const auto decoder, MakeValueDecoder(column_, ParquetEncoding::kPlain,
                                                               page.bytes, count, nullptr));
  for (uint64_t i = 0; i < count; ++i) {
    ParquetValue value;
    if (!decoder->Next(value)) return BadPage("its dictionary has fewer values than it says");
    value.file_offset = page.OffsetOf(value.bytes);
    dictionary_.push_back(value);
  }
  has_dictionary_ = true;
  return absl::OkStatus();
}

absl::Status ColumnReader::BeginPage(const ParquetPageHeader& header, absl::string_view stored,
                                     uint64_t file_offset) {
  absl::string_view levels;
  if (header.type == ParquetPageType::kDataV2) {
    const uint64_t before = static_cast<uint64_t>(header.repetition_level_bytes);
    const uint64_t size = static_cast<uint64_t>(header.definition_level_bytes);
    levels = stored.substr(before, size);
    stored.remove_prefix(before + size);
    file_offset += before + size;
  }
  MUSTER_ASSIGN_OR_RETURN(page_, Unpack(header, stored, file_offset, unpacked_));
  absl::string_view values = page_.bytes;
  if (header.type == ParquetPageType::kData && level_bits_ > 0) {
    if (header.definition_level_encoding != ParquetEncoding::kRle) {
      return absl::UnimplementedError("definition levels that are not run-length encoded (RLE)");
    }
    uint32_t size = 0;
    if (values.size() >= kLevelsLengthBytes) std::memcpy(&size, values.data(), sizeof(size));
    if (values.size() < kLevelsLengthBytes || size > values.size() - kLevelsLengthBytes) {
      return BadPage("its levels have more bytes than itself");
    }
    levels = values.substr(kLevelsLengthBytes, size);
    values.remove_prefix(kLevelsLengthBytes + size);
  }
  levels_ = RunLengthReader(levels, level_bits_);
  MUSTER_ASSIGN_OR_RETURN(values_, MakeValueDecoder(column_, header.encoding, values,
                                                    static_cast<uint64_t>(header.values),
                                                    has_dictionary_ ? &dictionary_ : nullptr));
  left_ = header.values;
  return absl::OkStatus();
}

}  // namespace muster::worker
