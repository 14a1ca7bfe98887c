#include "worker/data/formats/parse/tf_example.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "worker/data/formats/parse/proto_fields.h"
#include "worker/data/formats/sample_names.h"

namespace muster::worker {
namespace {

constexpr uint64_t kMostFeatureNameBytes = 1024;
constexpr uint64_t kMostTfKeyBytes = 4096;
constexpr size_t kMostNamedFeatures = 20;

// Where bytes lie in the file.
struct ByteSpan {
  uint64_t offset = 0;
  uint64_t size = 0;
};

constexpr uint32_t kBytesList = 1;
constexpr uint32_t kInt64List = 3;

class ExampleReader {
 public:
  ExampleReader(FileCursor& cursor, const TfExampleFeatures& features)
      : cursor_(cursor), features_(features) {}

  absl::StatusOr<TfExample> Read(uint64_t begin, uint64_t end) {
    ProtoFields example(cursor_, begin, end);
    ProtoField field;
    while (true) {
      MUSTER_ASSIGN_OR_RETURN(const bool more, example.Next(field));
      if (!more) break;
      if (!IsMessage(field, 1)) continue;
      MUSTER_RETURN_IF_ERROR(ReadFeatures(field.offset, field.offset + field.size));
    }
    if (!has_input_) {
      return cursor_.Bad(begin,
                         absl::StrCat("has no feature ", features_.input, "; it has ",
                                      names_.empty() ? "none" : absl::StrJoin(names_, ", ")));
    }
    if (!file_name_.empty()) {
      result_.key = std::string(NameOf(file_name_).key);
    } else {
      result_.key = std::move(key_);
    }
    return std::move(result_);
  }

 private:
  static bool IsMessage(const ProtoField& field, uint32_t number) {
    return field.number == number && field.type == ProtoField::Type::kBytes;
  }

  absl::Status ReadFeatures(uint64_t begin, uint64_t end) {
    ProtoFields features(cursor_, begin, end);
    ProtoField field;
    while (true) {
      MUSTER_ASSIGN_OR_RETURN(const bool more, features.Next(field));
      if (!more) return absl::OkStatus();
      if (!IsMessage(field, 1)) continue;
      MUSTER_RETURN_IF_ERROR(ReadEntry(field.offset, field.offset + field.size));
    }
  }

  absl::Status ReadEntry(uint64_t begin, uint64_t end) {
    ProtoFields entry(cursor_, begin, end);
    ProtoField field;
    std::string name;
    ByteSpan value;
    bool has_value = false;
    while (true) {
      MUSTER_ASSIGN_OR_RETURN(const bool more, entry.Next(field));
      if (!more) break;
      if (IsMessage(field, 1)) {
        MUSTER_ASSIGN_OR_RETURN(name, ReadText({field.offset, field.size}, kMostFeatureNameBytes));
      } else if (IsMessage(field, 2)) {
        if (has_value) return cursor_.Bad(begin, "has a feature with two values");
        has_value = true;
        value = {field.offset, field.size};
      }
    }
    if (names_.size() < kMostNamedFeatures) names_.push_back(name);
    return has_value ? TakeFeature(name, value) : absl::OkStatus();
  }

  absl::Status TakeFeature(const std::string& name, ByteSpan value) {
    if (name == features_.input) {
      if (has_input_) return Twice(name, value);
      has_input_ = true;
      MUSTER_ASSIGN_OR_RETURN(const ByteSpan input, OneBytes(name, value));
      result_.offset = input.offset;
      result_.size = input.size;
    } else if (name == features_.label) {
      if (has_label_) return Twice(name, value);
      has_label_ = true;
      MUSTER_ASSIGN_OR_RETURN(result_.label, OneInteger(name, value));
      if (result_.label < kNoLabel) {
        return cursor_.Bad(value.offset, absl::StrCat(name, " is ", result_.label));
      }
    } else if (name == features_.file_name) {
      if (!file_name_.empty()) return Twice(name, value);
      MUSTER_ASSIGN_OR_RETURN(const ByteSpan text, OneBytes(name, value));
      MUSTER_ASSIGN_OR_RETURN(file_name_, ReadText(text, kMostTfKeyBytes));
    } else if (name == features_.key) {
      if (!key_.empty()) return Twice(name, value);
      MUSTER_ASSIGN_OR_RETURN(const ByteSpan text, OneBytes(name, value));
      MUSTER_ASSIGN_OR_RETURN(key_, ReadText(text, kMostTfKeyBytes));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ReadText(ByteSpan text, uint64_t most_bytes) {
    if (text.size > most_bytes) {
      return cursor_.Bad(
          text.offset, absl::StrCat("has a name of ", text.size, " bytes, more than ", most_bytes));
    }
    cursor_.SeekTo(text.offset);
    MUSTER_ASSIGN_OR_RETURN(const absl::string_view bytes, cursor_.Read(text.size));
    return std::string(bytes);
  }

  // The list that a feature holds, which must be of the kind `list`.
  absl::StatusOr<ByteSpan> ListOf(const std::string& name, ByteSpan feature, uint32_t list) {
    ProtoFields kinds(cursor_, feature.offset, feature.offset + feature.size);
    ProtoField field;
    ByteSpan found;
    size_t count = 0;
    while (true) {
      MUSTER_ASSIGN_OR_RETURN(const bool more, kinds.Next(field));
      if (!more) break;
      if (field.number > kInt64List) continue;
      ++count;
      if (!IsMessage(field, list)) {
        return cursor_.Bad(feature.offset,
                           absl::StrCat(name, " holds ",
                                        field.number == kBytesList   ? "bytes"
                                        : field.number == kInt64List ? "integers"
                                                                     : "floats",
                                        ", want ", list == kBytesList ? "bytes" : "an integer"));
      }
      found = {field.offset, field.size};
    }
    if (count != 1) return cursor_.Bad(feature.offset, absl::StrCat(name, " holds no single list"));
    return found;
  }

  absl::StatusOr<ByteSpan> OneBytes(const std::string& name, ByteSpan feature) {
    MUSTER_ASSIGN_OR_RETURN(const ByteSpan list, ListOf(name, feature, kBytesList));
    ProtoFields values(cursor_, list.offset, list.offset + list.size);
    ProtoField field;
    ByteSpan found;
    uint64_t count = 0;
    while (true) {
      MUSTER_ASSIGN_OR_RETURN(const bool more, values.Next(field));
      if (!more) break;
      if (!IsMessage(field, 1)) continue;
      found = {field.offset, field.size};
      ++count;
    }
    if (count != 1) return NotOne(name, feature, count);
    return found;
  }

  absl::StatusOr<int64_t> OneInteger(const std::string& name, ByteSpan feature) {
    MUSTER_ASSIGN_OR_RETURN(const ByteSpan list, ListOf(name, feature, kInt64List));
    ProtoFields values(cursor_, list.offset, list.offset + list.size);
    ProtoField field;
    uint64_t found = 0;
    uint64_t count = 0;
    while (true) {
      MUSTER_ASSIGN_OR_RETURN(const bool more, values.Next(field));
      if (!more) break;
      if (field.number != 1) continue;
      if (field.type == ProtoField::Type::kVarint) {
        found = field.value;
        ++count;
      } else if (field.type == ProtoField::Type::kBytes) {
        ProtoFields packed(cursor_, field.offset, field.offset + field.size);
        for (; !packed.done(); ++count) {
          MUSTER_ASSIGN_OR_RETURN(found, packed.NextVarint());
        }
      }
    }
    if (count != 1) return NotOne(name, feature, count);
    return static_cast<int64_t>(found);
  }

  absl::Status NotOne(const std::string& name, ByteSpan feature, uint64_t count) const {
    return cursor_.Bad(feature.offset, absl::StrCat(name, " has ", count, " values, want one"));
  }
  absl::Status Twice(const std::string& name, ByteSpan feature) const {
    return cursor_.Bad(feature.offset, absl::StrCat("feature ", name, " comes twice"));
  }

  FileCursor& cursor_;
  const TfExampleFeatures& features_;
  TfExample result_;
  bool has_input_ = false;
  bool has_label_ = false;
  std::string file_name_;
  std::string key_;
  std::vector<std::string> names_;  // the first of them, for the error
};

}  // namespace

absl::StatusOr<TfExample> ReadTfExample(FileCursor& cursor, uint64_t begin, uint64_t end,
                                        const TfExampleFeatures& features) {
  return ExampleReader(cursor, features).Read(begin, end);
}

}  // namespace muster::worker
