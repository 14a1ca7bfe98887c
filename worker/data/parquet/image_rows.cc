#include "worker/data/parquet/image_rows.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace muster::worker {
namespace {

using ::nlohmann::json;

constexpr absl::string_view kMetadataKey = "huggingface";
constexpr size_t kMostClasses = 1 << 20;

absl::Status BadColumns(const ParquetFile& file, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(file.path(), " ", what));
}

// What the JSON says; all empty when there is none.
struct Features {
  std::vector<std::string> images;
  std::vector<std::string> labels;
  std::vector<std::vector<std::string>> classes;  // of each label
};

std::vector<std::string> ClassNames(const json& feature) {
  std::vector<std::string> names;
  const auto found = feature.find("names");
  if (found == feature.end() || !found->is_array() || found->size() > kMostClasses) return names;
  for (const json& name : *found) {
    if (!name.is_string()) return {};
    names.push_back(name.get<std::string>());
  }
  return names;
}

Features ReadFeatures(const ParquetFile& file) {
  Features features;
  const auto text = file.KeyValue(kMetadataKey);
  if (!text.has_value()) return features;
  const json object = json::parse(text->begin(), text->end(), nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return features;
  const auto info = object.find("info");
  if (info == object.end() || !info->is_object()) return features;
  const auto listed = info->find("features");
  if (listed == info->end() || !listed->is_object()) return features;
  for (const auto& [name, feature] : listed->items()) {
    if (!feature.is_object()) continue;
    const auto type = feature.find("_type");
    if (type == feature.end() || !type->is_string()) continue;
    if (*type == "Image") features.images.push_back(name);
    if (*type == "ClassLabel") {
      features.labels.push_back(name);
      features.classes.push_back(ClassNames(feature));
    }
  }
  return features;
}

bool HasColumn(const ParquetFile& file, const std::string& name) {
  return file.FindColumn(name).ok();
}

// The column of pictures by its name, without ".bytes".
absl::StatusOr<std::string> ImageName(const ParquetFile& file, const Features& features) {
  std::vector<std::string> images = features.images;
  if (images.empty()) {
    for (const ParquetColumn& column : file.columns()) {
      absl::string_view name = column.name;
      if (absl::ConsumeSuffix(&name, ".bytes")) images.emplace_back(name);
    }
  }
  if (images.empty()) return BadColumns(file, "has no column of pictures: name one");
  if (images.size() > 1) {
    return BadColumns(file, absl::StrCat("has several columns of pictures, ", images[0], " and ",
                                         images[1], " among them: name one"));
  }
  return std::move(images[0]);
}

absl::StatusOr<size_t> FindBytes(const ParquetFile& file, const std::string& image) {
  const std::string in_struct = absl::StrCat(image, ".bytes");
  MUSTER_ASSIGN_OR_RETURN(const size_t place,
                          file.FindColumn(HasColumn(file, in_struct) ? in_struct : image));
  if (file.columns()[place].type != ParquetType::kByteArray) {
    return BadColumns(
        file, absl::StrCat("has pictures of type ", ParquetTypeName(file.columns()[place].type),
                           " in column ", image, ", want BYTE_ARRAY"));
  }
  return place;
}

// Empty: the file has no labels.
std::string LabelName(const ParquetFile& file, const Features& features) {
  if (features.labels.size() == 1 && HasColumn(file, features.labels[0])) return features.labels[0];
  return HasColumn(file, "label") ? "label" : "";
}

absl::Status FindLabel(const ParquetFile& file, const std::string& label, const Features& features,
                       ImageColumns& columns) {
  MUSTER_ASSIGN_OR_RETURN(columns.label, file.FindColumn(label));
  const ParquetType type = file.columns()[*columns.label].type;
  if (type != ParquetType::kInt32 && type != ParquetType::kInt64) {
    return BadColumns(file, absl::StrCat("has labels of type ", ParquetTypeName(type),
                                         " in column ", label, ", want INT32 or INT64"));
  }
  for (size_t i = 0; i < features.labels.size(); ++i) {
    if (features.labels[i] == label) columns.classes = features.classes[i];
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ImageColumns> FindImageColumns(const ParquetFile& file,
                                              const ImageColumnNames& names) {
  const Features features = ReadFeatures(file);
  std::string image = names.image;
  if (image.empty()) {
    MUSTER_ASSIGN_OR_RETURN(image, ImageName(file, features));
  }
  ImageColumns columns;
  MUSTER_ASSIGN_OR_RETURN(columns.bytes, FindBytes(file, image));
  const auto path = file.FindColumn(absl::StrCat(image, ".path"));
  if (path.ok() && file.columns()[*path].type == ParquetType::kByteArray) columns.path = *path;
  const std::string label = names.label.empty() ? LabelName(file, features) : names.label;
  if (!label.empty()) MUSTER_RETURN_IF_ERROR(FindLabel(file, label, features, columns));
  return columns;
}

absl::Status ForEachImage(const ParquetFile& file, const ImageColumns& columns,
                          absl::FunctionRef<absl::Status(const ImageRow&)> on_image) {
  std::vector<size_t> places = {columns.bytes};
  const auto add = [&](const std::optional<size_t>& place) {
    if (place.has_value()) places.push_back(*place);
    return places.size() - 1;
  };
  const size_t path_at = add(columns.path);
  const size_t label_at = add(columns.label);
  return file.ForEachRow(places, [&](int64_t row, absl::Span<const ParquetValue> values) {
    ImageRow image{row, values[0].bytes, values[0].file_offset};
    if (columns.path.has_value()) image.path = values[path_at].bytes;
    if (values[0].is_null) {
      return BadColumns(file, absl::StrCat("has no picture in row ", row,
                                           image.path.empty() ? "" : ", only the path ", image.path,
                                           ": pictures outside of the file are not read"));
    }
    if (columns.label.has_value() && !values[label_at].is_null) {
      image.label = values[label_at].integer;
      const int64_t most =
          columns.classes.empty() ? INT64_MAX : static_cast<int64_t>(columns.classes.size());
      if (image.label < -1 || image.label >= most) {
        return BadColumns(file, absl::StrCat("has class ", image.label, " in row ", row,
                                             ", which is none of its classes"));
      }
    }
    return on_image(image);
  });
}

}  // namespace muster::worker
