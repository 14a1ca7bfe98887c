#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/base/data_fingerprint.h"
#include "worker/data/base/dataset.h"
#include "worker/data/base/held_out.h"
#include "worker/data/csv/csv_table.h"
#include "worker/data/images/pixels.h"

namespace muster::worker {
namespace {

Dataset::Part PartOf(const CsvTable& table) {
  const int64_t features = static_cast<int64_t>(table.feature_names.size());
  Dataset::Part part;
  part.inputs = at::empty({table.rows, features}, at::kFloat);
  std::copy(table.features.begin(), table.features.end(), part.inputs.mutable_data_ptr<float>());
  if (table.numbers.empty()) {
    part.targets = at::empty({table.rows}, at::kLong);
    std::copy(table.labels.begin(), table.labels.end(), part.targets.mutable_data_ptr<int64_t>());
  } else {
    part.targets = at::empty({table.rows, 1}, at::kFloat);
    std::copy(table.numbers.begin(), table.numbers.end(), part.targets.mutable_data_ptr<float>());
  }
  return part;
}

// One feature after the other, in double and in the order of the rows: the same on every machine.
PixelScale StandardScale(const at::Tensor& inputs) {
  const int64_t rows = inputs.size(0), features = inputs.size(1);
  const float* values = inputs.const_data_ptr<float>();
  PixelScale scale;
  for (int64_t f = 0; f < features; ++f) {
    double sum = 0, squares = 0;
    for (int64_t row = 0; row < rows; ++row) sum += static_cast<double>(values[row * features + f]);
    const double mean = sum / static_cast<double>(rows);
    for (int64_t row = 0; row < rows; ++row) {
      const double distance = static_cast<double>(values[row * features + f]) - mean;
      squares += distance * distance;
    }
    const float std = static_cast<float>(std::sqrt(squares / static_cast<double>(rows)));
    scale.mean.push_back(static_cast<float>(mean));
    scale.std.push_back(std > 0 && std::isfinite(std) ? std : 1.0f);  // a feature of one value
  }
  return scale;
}

class CsvSource {
 public:
  CsvSource(FileSystem& fs, const CsvSourceConfig& config)
      : fs_(fs),
        path_(config.path),
        columns_{config.target, config.features,
                 config.regress ? CsvTarget::kNumber : CsvTarget::kClass} {}

  // Fills what there is a file for.
  absl::Status ReadParts(std::array<Dataset::Part, 3>& parts, std::array<bool, 3>& given) {
    MUSTER_ASSIGN_OR_RETURN(const bool exists, fs_.Exists(path_));
    if (!exists) {
      return absl::NotFoundError(
          absl::StrCat(path_, " is not there: name a CSV file or the folder of train.csv"));
    }
    const bool is_folder = fs_.List(path_).ok();
    for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
      const size_t index = static_cast<size_t>(split);
      const std::string file =
          is_folder ? absl::StrCat(path_, "/", SplitName(split), ".csv") : path_;
      given[index] = split == Split::kTrain;
      if (is_folder) {
        MUSTER_ASSIGN_OR_RETURN(given[index], fs_.Exists(file));
      }
      if (given[index]) {
        MUSTER_RETURN_IF_ERROR(ReadFile(file, parts[index]));
      } else if (split == Split::kTrain) {
        return absl::NotFoundError(absl::StrCat(file, " is not there"));
      }
    }
    return absl::OkStatus();
  }

  int64_t classes() const { return classes_; }
  const std::vector<std::string>& class_names() const { return columns_.class_names; }
  std::string ContentHash() { return HashToHex(hasher_.Finish().whole); }

 private:
  // The training set is the first: the others have its columns and its classes.
  absl::Status ReadFile(const std::string& file, Dataset::Part& part) {
    MUSTER_ASSIGN_OR_RETURN(const CsvTable table, ReadCsvTable(fs_, file, columns_, hasher_));
    hasher_.Update(absl::StrCat(":", table.rows, ":"));
    part = PartOf(table);
    if (columns_.features.empty()) columns_.features = table.feature_names;
    if (columns_.kind == CsvTarget::kNumber) {
      classes_ = 1;
    } else if (classes_ == 0) {  // the training set
      columns_.class_names = table.class_names;
      classes_ = table.classes;
    } else if (columns_.class_names.empty() && !table.class_names.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ": its classes are names such as ", table.class_names[0],
                       ", and those of the training set are whole numbers"));
    } else if (table.classes > classes_) {
      return absl::InvalidArgumentError(absl::StrCat(file, " has the class ", table.classes - 1,
                                                     ", and the training set has none above ",
                                                     classes_ - 1));
    }
    return absl::OkStatus();
  }

  FileSystem& fs_;
  const std::string& path_;
  CsvConfig columns_;
  BlockHasher hasher_;
  int64_t classes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> ReadCsv(FileSystem& fs, const CsvSourceConfig& config) {
  CsvSource source(fs, config);
  std::array<Dataset::Part, 3> parts;
  std::array<bool, 3> given = {};
  MUSTER_RETURN_IF_ERROR(source.ReadParts(parts, given));
  HoldOutMissing(parts, given);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].inputs.size(0) > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        config.path, ": the ", SplitName(Split(i)),
        " set would be empty: give it a file of its own, or more rows to the training set"));
  }
  PixelScale scale;
  if (config.normalize) {
    scale = StandardScale(parts[0].inputs);
    for (Dataset::Part& part : parts)
      SamplesToInputs(scale, part.inputs.mutable_data_ptr<float>(),
                      absl::MakeConstSpan(part.inputs.sizes().data(), part.inputs.sizes().size()));
  }
  return std::make_unique<InMemoryDataset>(
      std::move(parts), source.classes(),
      CsvFingerprint(config.target, config.features, config.regress, config.normalize,
                     source.ContentHash()),
      std::move(scale), source.class_names());
}

}  // namespace muster::worker
