#include "worker/data/parquet/footer.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/parquet/thrift_reader.h"

namespace muster::worker {
namespace {

constexpr absl::string_view kMagic = "PAR1";
constexpr absl::string_view kEncryptedMagic = "PARE";
constexpr size_t kMostSchemaElements = 1 << 16;
constexpr size_t kMostRowGroups = 1 << 24;
constexpr int kMostSchemaDepth = 64;
constexpr size_t kMostNameBytes = 4096;  // of a column, with the structs around it
constexpr size_t kMostKeyValues = 1 << 16;

absl::Status BadFooter(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("is no Parquet file that can be read: ", what));
}

enum class Repetition { kRequired = 0, kOptional = 1, kRepeated = 2 };

// A node of the schema, which is a tree written parents first.
struct SchemaElement {
  std::string name;
  std::optional<int64_t> type;  // of a leaf
  int64_t type_length = 0;
  int64_t repetition = 0;
  int64_t children = 0;
};

SchemaElement ReadSchemaElement(ThriftReader& reader, ThriftType type) {
  SchemaElement element;
  reader.ReadStruct(type, [&](int64_t id, ThriftType field) {
    switch (id) {
      case 1:
        element.type = reader.ReadInteger(field);
        return true;
      case 2:
        element.type_length = reader.ReadInteger(field);
        return true;
      case 3:
        element.repetition = reader.ReadInteger(field);
        return true;
      case 4:
        element.name = std::string(reader.ReadBinary(field));
        return true;
      case 5:
        element.children = reader.ReadInteger(field);
        return true;
    }
    return false;
  });
  if (element.repetition < 0 || element.repetition > 2) reader.Fail("a repetition type of no name");
  return element;
}

// A column chunk as it is written.
struct RawChunk {
  bool has_meta_data = false;
  bool in_other_file = false;
  bool is_encrypted = false;
  int64_t type = -1, codec = -1, values = -1, size = -1;
  int64_t data_page_offset = -1, dictionary_page_offset = -1;
};

void ReadColumnMetaData(ThriftReader& reader, ThriftType type, RawChunk& chunk) {
  chunk.has_meta_data = true;
  reader.ReadStruct(type, [&](int64_t id, ThriftType field) {
    int64_t* number = nullptr;
    switch (id) {
      case 1:
        number = &chunk.type;
        break;
      case 4:
        number = &chunk.codec;
        break;
      case 5:
        number = &chunk.values;
        break;
      case 7:
        number = &chunk.size;
        break;
      case 9:
        number = &chunk.data_page_offset;
        break;
      case 11:
        number = &chunk.dictionary_page_offset;
        break;
      default:
        return false;
    }
    *number = reader.ReadInteger(field);
    return true;
  });
}

RawChunk ReadChunk(ThriftReader& reader, ThriftType type) {
  RawChunk chunk;
  reader.ReadStruct(type, [&](int64_t id, ThriftType field) {
    switch (id) {
      case 1:
        chunk.in_other_file = !reader.ReadBinary(field).empty();
        return true;
      case 3:
        ReadColumnMetaData(reader, field, chunk);
        return true;
      case 8:  // crypto_metadata
        chunk.is_encrypted = true;
        return false;
    }
    return false;
  });
  return chunk;
}

absl::StatusOr<ParquetColumnChunk> CheckChunk(const RawChunk& raw, const ParquetColumn& column,
                                              uint64_t data_end) {
  if (raw.is_encrypted) {
    return absl::UnimplementedError(
        absl::StrCat("column ", column.name, " is encrypted, which is not read"));
  }
  if (raw.in_other_file) {
    return absl::UnimplementedError(
        absl::StrCat("column ", column.name, " lies in another file, which is not read"));
  }
  const auto bad = [&](absl::string_view what) {
    return BadFooter(absl::StrCat("column ", column.name, " ", what));
  };
  if (!raw.has_meta_data) return bad("has no metadata");
  if (raw.type != static_cast<int64_t>(column.type)) return bad("has another type in a row group");
  if (raw.codec < 0 || raw.codec > static_cast<int64_t>(ParquetCodec::kLz4Raw)) {
    return bad(absl::StrCat("has codec ", raw.codec, ", which has no name"));
  }
  ParquetColumnChunk chunk;
  chunk.codec = static_cast<ParquetCodec>(raw.codec);
  chunk.values = raw.values;
  // Without a value there is no page, and no place of it.
  if (raw.values == 0) return chunk;
  // Some writers give 0 for no dictionary.
  const int64_t begin =
      raw.dictionary_page_offset > 0 && raw.dictionary_page_offset < raw.data_page_offset
          ? raw.dictionary_page_offset
          : raw.data_page_offset;
  if (raw.values < 0 || raw.size < 0 || begin < static_cast<int64_t>(kMagic.size()) ||
      static_cast<uint64_t>(begin) > data_end ||
      static_cast<uint64_t>(raw.size) > data_end - static_cast<uint64_t>(begin)) {
    return bad("does not lie in the file");
  }
  chunk.offset = static_cast<uint64_t>(begin);
  chunk.size = static_cast<uint64_t>(raw.size);
  return chunk;
}

// Reads a schema's tree from its list: each call takes one subtree off the front.
class SchemaWalk {
 public:
  SchemaWalk(const std::vector<SchemaElement>& elements, std::vector<ParquetColumn>& columns)
      : elements_(elements), columns_(columns) {}

  absl::Status Root() {
    if (elements_.empty()) return BadFooter("it has no schema");
    const int64_t children = elements_[next_++].children;
    for (int64_t i = 0; i < children; ++i) MUSTER_RETURN_IF_ERROR(Subtree("", 0, 0, 0));
    if (next_ != elements_.size()) return BadFooter("its schema has loose ends");
    if (columns_.empty()) return BadFooter("it has no columns");
    return absl::OkStatus();
  }

 private:
  absl::Status Subtree(const std::string& prefix, int definition, int repetition, int depth) {
    if (next_ == elements_.size()) return BadFooter("its schema is cut off");
    if (depth == kMostSchemaDepth) return BadFooter("its schema is too deep");
    const SchemaElement& element = elements_[next_++];
    const std::string name =
        prefix.empty() ? element.name : absl::StrCat(prefix, ".", element.name);
    if (name.size() > kMostNameBytes) return BadFooter("a column's name is too long");
    const Repetition kind = static_cast<Repetition>(element.repetition);
    if (kind != Repetition::kRequired) ++definition;
    if (kind == Repetition::kRepeated) ++repetition;
    if (!element.type.has_value()) {
      for (int64_t i = 0; i < element.children; ++i) {
        MUSTER_RETURN_IF_ERROR(Subtree(name, definition, repetition, depth + 1));
      }
      return absl::OkStatus();
    }
    if (*element.type < 0 ||
        *element.type > static_cast<int64_t>(ParquetType::kFixedLenByteArray)) {
      return BadFooter(absl::StrCat("column ", name, " has a type of no name"));
    }
    ParquetColumn column{name, static_cast<ParquetType>(*element.type), element.type_length,
                         definition, repetition};
    if (column.type == ParquetType::kFixedLenByteArray &&
        (column.type_length < 1 || column.type_length > INT32_MAX)) {
      return BadFooter(
          absl::StrCat("column ", name, " has values of ", column.type_length, " bytes"));
    }
    columns_.push_back(std::move(column));
    return absl::OkStatus();
  }

  const std::vector<SchemaElement>& elements_;
  std::vector<ParquetColumn>& columns_;
  size_t next_ = 0;
};

// Reads the footer's fields in their order: the schema is before the row groups.
class FooterReader {
 public:
  FooterReader(absl::string_view bytes, uint64_t data_end) : reader_(bytes), data_end_(data_end) {}

  absl::StatusOr<ParquetFooter> Read() {
    reader_.ReadStruct([&](int64_t id, ThriftType type) { return OnField(id, type); });
    if (!checks_.ok()) return checks_;
    if (!reader_.ok()) {
      return BadFooter(absl::StrCat("of its footer ", reader_.status().message()));
    }
    int64_t rows = 0;
    for (const ParquetRowGroup& group : footer_.row_groups) {
      if (group.rows > INT64_MAX - rows) return BadFooter("it has too many rows");
      rows += group.rows;
    }
    if (footer_.columns.empty()) return BadFooter("it has no schema");
    if (rows != footer_.rows) {
      return BadFooter(
          absl::StrCat("it says ", footer_.rows, " rows, but its row groups have ", rows));
    }
    return std::move(footer_);
  }

 private:
  bool OnField(int64_t id, ThriftType type) {
    switch (id) {
      case 2:
        ReadSchema(type);
        return true;
      case 3:
        footer_.rows = reader_.ReadInteger(type);
        return true;
      case 4:
        reader_.ReadList(type, [&](ThriftType element) { ReadRowGroup(element); });
        return true;
      case 5:
        reader_.ReadList(type, [&](ThriftType element) { ReadKeyValue(element); });
        return true;
      case 8:
        Stop(absl::UnimplementedError("its columns are encrypted, which is not read"));
        return false;
    }
    return false;
  }

  // Ends the reading with this status.
  void Stop(absl::Status status) {
    if (checks_.ok() && reader_.ok()) checks_ = std::move(status);
    reader_.Fail("stopped");
  }

  void ReadSchema(ThriftType type) {
    std::vector<SchemaElement> elements;
    reader_.ReadList(type, [&](ThriftType element) {
      elements.push_back(ReadSchemaElement(reader_, element));
      if (elements.size() > kMostSchemaElements) reader_.Fail("the schema has too many columns");
    });
    if (!reader_.ok()) return;
    if (!footer_.columns.empty()) return reader_.Fail("there are two schemas");
    absl::Status walked = SchemaWalk(elements, footer_.columns).Root();
    if (!walked.ok()) Stop(std::move(walked));
  }

  void ReadRowGroup(ThriftType type) {
    if (footer_.columns.empty()) return reader_.Fail("row groups come before the schema");
    if (footer_.row_groups.size() == kMostRowGroups) return reader_.Fail("too many row groups");
    ParquetRowGroup group;
    group.rows = -1;
    reader_.ReadStruct(type, [&](int64_t id, ThriftType field) {
      switch (id) {
        case 1:
          reader_.ReadList(field, [&](ThriftType element) { ReadChunkOf(group, element); });
          return true;
        case 3:
          group.rows = reader_.ReadInteger(field);
          return true;
      }
      return false;
    });
    if (group.rows < 0) reader_.Fail("a row group does not say how many rows it has");
    if (group.chunks.size() != footer_.columns.size()) {
      reader_.Fail("a row group has not all columns of the schema");
    }
    if (reader_.ok()) footer_.row_groups.push_back(std::move(group));
  }

  void ReadChunkOf(ParquetRowGroup& group, ThriftType type) {
    if (group.chunks.size() == footer_.columns.size()) {
      return reader_.Fail("a row group has more columns than the schema");
    }
    const RawChunk raw = ReadChunk(reader_, type);
    if (!reader_.ok()) return;
    auto chunk = CheckChunk(raw, footer_.columns[group.chunks.size()], data_end_);
    if (!chunk.ok()) return Stop(chunk.status());
    group.chunks.push_back(*chunk);
  }

  void ReadKeyValue(ThriftType type) {
    std::pair<std::string, std::string> entry;
    reader_.ReadStruct(type, [&](int64_t id, ThriftType field) {
      if (id == 1) entry.first = std::string(reader_.ReadBinary(field));
      if (id == 2) entry.second = std::string(reader_.ReadBinary(field));
      return id == 1 || id == 2;
    });
    if (footer_.key_values.size() == kMostKeyValues) reader_.Fail("there are too many key-values");
    footer_.key_values.push_back(std::move(entry));
  }

  ThriftReader reader_;
  const uint64_t data_end_;
  absl::Status checks_;
  ParquetFooter footer_;
};

}  // namespace

const char* ParquetTypeName(ParquetType type) {
  static constexpr const char* kNames[] = {
      "BOOLEAN", "INT32",  "INT64",      "INT96",
      "FLOAT",   "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"};
  return kNames[static_cast<size_t>(type)];
}

absl::StatusOr<uint64_t> ParseParquetTail(absl::string_view tail, uint64_t file_bytes) {
  if (absl::EndsWith(tail, kEncryptedMagic)) {
    return absl::UnimplementedError("has an encrypted footer, which is not read");
  }
  if (tail.size() != kParquetTailBytes || !absl::EndsWith(tail, kMagic)) {
    return BadFooter("it does not end as one");
  }
  uint64_t size = 0;
  for (int i = 3; i >= 0; --i)
    size = size << 8 | static_cast<uint8_t>(tail[static_cast<size_t>(i)]);
  if (file_bytes < kMagic.size() + kParquetTailBytes ||
      size > file_bytes - kMagic.size() - kParquetTailBytes) {
    return BadFooter(absl::StrCat("its footer of ", size, " bytes is larger than the file"));
  }
  return size;
}

absl::StatusOr<ParquetFooter> ParseParquetFooter(absl::string_view bytes, uint64_t data_end) {
  return FooterReader(bytes, data_end).Read();
}

}  // namespace muster::worker
