#include "worker/data/csv/csv_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "worker/data/csv/csv_records.h"

namespace muster::worker {
namespace {

constexpr size_t kMostNamesInError = 40;
constexpr size_t kMostShownBytes = 40;  // of a value in an error

std::string Shown(absl::string_view value) {
  return absl::StrCat("\"", value.substr(0, kMostShownBytes), "\"",
                      value.size() > kMostShownBytes ? "..." : "");
}

absl::Status NoColumn(const std::string& path, absl::string_view name,
                      const std::vector<std::string>& header) {
  const size_t shown = std::min(header.size(), kMostNamesInError);
  return absl::NotFoundError(absl::StrCat(
      path, " has no column ", Shown(name), "; it has ",
      absl::StrJoin(header.begin(), header.begin() + static_cast<int64_t>(shown), ", "),
      shown < header.size() ? " and others" : ""));
}

class CsvTableReader {
 public:
  CsvTableReader(const std::string& path, const CsvConfig& config, CsvRecords& records)
      : path_(path), config_(config), records_(records) {}

  absl::StatusOr<CsvTable> Read() {
    MUSTER_RETURN_IF_ERROR(ReadHeader());
    std::vector<std::string> fields;
    while (true) {
      MUSTER_ASSIGN_OR_RETURN(const bool more, records_.Next(fields));
      if (!more) break;
      MUSTER_RETURN_IF_ERROR(AddRow(fields));
    }
    if (table_.rows == 0) {
      return absl::InvalidArgumentError(absl::StrCat(path_, " has no row below its header"));
    }
    if (config_.kind == CsvTarget::kClass) NumberClasses();
    return std::move(table_);
  }

 private:
  absl::Status ReadHeader() {
    MUSTER_ASSIGN_OR_RETURN(const bool has_header, records_.Next(header_));
    if (!has_header) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, " is empty: its first line must name the columns"));
    }
    for (std::string& name : header_) absl::StripAsciiWhitespace(&name);
    std::map<std::string, size_t> places;
    for (size_t i = 0; i < header_.size(); ++i) {
      if (!places.emplace(header_[i], i).second && !header_[i].empty()) {
        return records_.Bad(absl::StrCat("two columns are called ", Shown(header_[i])));
      }
    }
    const auto target = places.find(config_.target);
    if (config_.target.empty() || target == places.end()) {
      return NoColumn(path_, config_.target, header_);
    }
    target_at_ = target->second;
    for (const std::string& name : config_.features) {
      const auto found = places.find(name);
      if (name.empty() || found == places.end()) return NoColumn(path_, name, header_);
      if (found->second == target_at_) {
        return records_.Bad(absl::StrCat("column ", Shown(name), " is target and feature"));
      }
      features_at_.push_back(found->second);
    }
    for (size_t i = 0; config_.features.empty() && i < header_.size(); ++i) {
      if (i == target_at_) continue;
      if (header_[i].empty()) {
        return records_.Bad(absl::StrCat("column ", i + 1,
                                         " has no name, like an index that a program added: name "
                                         "the features, or write the file without it"));
      }
      features_at_.push_back(i);
    }
    if (features_at_.empty()) return records_.Bad("there is no column besides the target");
    for (const size_t place : features_at_) table_.feature_names.push_back(header_[place]);
    for (size_t i = 0; i < config_.class_names.size(); ++i) {
      known_classes_[config_.class_names[i]] = static_cast<int64_t>(i);
    }
    return absl::OkStatus();
  }

  absl::Status BadValue(size_t place, absl::string_view value, absl::string_view wanted) const {
    return records_.Bad(absl::StrCat("column ", header_[place], " is ",
                                     value.empty() ? "missing" : Shown(value), ", want ", wanted));
  }

  absl::StatusOr<float> Number(const std::vector<std::string>& fields, size_t place) const {
    double value = 0;
    // Not a number is not below anything either.
    if (!absl::SimpleAtod(fields[place], &value) ||
        !(std::abs(value) <= static_cast<double>(std::numeric_limits<float>::max()))) {
      return BadValue(place, fields[place], "a finite number");
    }
    return static_cast<float>(value);
  }

  absl::Status AddRow(const std::vector<std::string>& fields) {
    if (fields.size() != header_.size()) {
      return records_.Bad(
          absl::StrCat(fields.size(), " fields, want ", header_.size(), " as in the first line"));
    }
    for (const size_t place : features_at_) {
      MUSTER_ASSIGN_OR_RETURN(table_.features.emplace_back(), Number(fields, place));
    }
    if (config_.kind == CsvTarget::kNumber) {
      MUSTER_ASSIGN_OR_RETURN(table_.numbers.emplace_back(), Number(fields, target_at_));
    } else {
      MUSTER_RETURN_IF_ERROR(AddLabel(fields[target_at_]));
    }
    ++table_.rows;
    return absl::OkStatus();
  }

  // Labels are numbered as their names come, until all are known.
  absl::Status AddLabel(const std::string& field) {
    const absl::string_view label = absl::StripAsciiWhitespace(field);
    if (label.empty()) return BadValue(target_at_, label, "a class");
    const std::string name(label);
    if (!config_.class_names.empty()) {
      const auto known = known_classes_.find(name);
      if (known == known_classes_.end()) {
        return BadValue(target_at_, name, "one of the classes of the training set");
      }
      table_.labels.push_back(known->second);
      return absl::OkStatus();
    }
    const int64_t next = static_cast<int64_t>(known_classes_.size());
    const auto [entry, is_new] = known_classes_.emplace(name, next);
    if (is_new && known_classes_.size() > kMostCsvClasses) {
      return records_.Bad(absl::StrCat("more than ", kMostCsvClasses, " classes: is column ",
                                       config_.target, " a number to be learnt?"));
    }
    table_.labels.push_back(entry->second);
    return absl::OkStatus();
  }

  // From the order in which they came to the order that the table promises.
  void NumberClasses() {
    if (!config_.class_names.empty()) {
      table_.class_names = config_.class_names;
      table_.classes = static_cast<int64_t>(config_.class_names.size());
      return;
    }
    std::vector<int64_t> numbers(known_classes_.size());  // by the order in which they came
    bool whole = true;
    for (const auto& [name, came] : known_classes_) {
      int64_t number = 0;
      whole = whole && absl::SimpleAtoi(name, &number) && number >= 0 &&
              number < static_cast<int64_t>(kMostCsvClasses);
      numbers[static_cast<size_t>(came)] = number;
      table_.classes = std::max(table_.classes, number + 1);
    }
    if (!whole) {
      int64_t place = 0;
      for (const auto& [name, came] : known_classes_) {
        numbers[static_cast<size_t>(came)] = place++;
        table_.class_names.push_back(name);
      }
      table_.classes = place;
    }
    for (int64_t& label : table_.labels) label = numbers[static_cast<size_t>(label)];
  }

  const std::string& path_;
  const CsvConfig& config_;
  CsvRecords& records_;
  std::vector<std::string> header_;
  size_t target_at_ = 0;
  std::vector<size_t> features_at_;
  std::map<std::string, int64_t> known_classes_;  // by the bytes of their names
  CsvTable table_;
};

}  // namespace

absl::StatusOr<CsvTable> ReadCsvTable(FileSystem& fs, const std::string& path,
                                      const CsvConfig& config, BlockHasher& hasher) {
  if (absl::string_view("\"\r\n").find(config.delimiter) != absl::string_view::npos) {
    return absl::InvalidArgumentError("a quote or the end of a line cannot be between fields");
  }
  MUSTER_ASSIGN_OR_RETURN(const uint64_t size, fs.FileSize(path));
  if (size > kMostCsvBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", size, " bytes, at most ", kMostCsvBytes, " are read"));
  }
  CsvRecords records(fs, path, config.delimiter, hasher);
  return CsvTableReader(path, config, records).Read();
}

}  // namespace muster::worker
