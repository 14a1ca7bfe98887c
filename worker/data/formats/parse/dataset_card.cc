#include "worker/data/formats/parse/dataset_card.h"

#include <yaml-cpp/yaml.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace muster::worker {
namespace {

constexpr absl::string_view kFence = "---\n";

// What goes wrong inside of yaml-cpp's calls; never leaves this file.
struct BadCard {
  int line;
  std::string what;
};

// Between the fences; empty where there is no header with a part `configs`.
std::string CardHeader(absl::string_view text) {
  text = text.substr(0, kMostCardBytes);
  const std::string lines = absl::StrJoin(absl::StrSplit(text, "\r\n"), "\n");
  absl::string_view header = lines;
  if (!absl::ConsumePrefix(&header, kFence)) return "";
  const size_t end = absl::StrCat("\n", header).find("\n---");
  if (end == std::string::npos) return "";
  header = header.substr(0, end);
  if (!absl::StartsWith(header, "configs:") && !absl::StrContains(header, "\nconfigs:")) return "";
  return std::string(header);
}

[[noreturn]] void Refuse(const YAML::Node& node, std::string what) {
  throw BadCard{node.Mark().line, std::move(what)};
}

std::string Word(const YAML::Node& node, const char* what) {
  if (!node.IsScalar() || node.Scalar().empty()) Refuse(node, absl::StrCat("has no ", what));
  return node.Scalar();
}

std::vector<std::string> Patterns(const YAML::Node& node) {
  if (!node.IsSequence()) return {Word(node, "path")};
  std::vector<std::string> patterns;
  for (const YAML::Node& item : node) patterns.push_back(Word(item, "path"));
  if (patterns.empty()) Refuse(node, "has no path");
  return patterns;
}

std::vector<CardSplit> SplitsOf(const YAML::Node& files) {
  const bool names_splits = files.IsSequence() && files.size() > 0 && files[0].IsMap();
  // Patterns alone are for training.
  if (!names_splits) return {{"train", Patterns(files)}};
  std::vector<CardSplit> splits;
  for (const YAML::Node& item : files) {
    if (!item.IsMap() || !item["split"] || !item["path"]) Refuse(item, "has no split and path");
    splits.push_back({Word(item["split"], "split"), Patterns(item["path"])});
  }
  return splits;
}

std::vector<CardConfig> ConfigsOf(const YAML::Node& header) {
  std::vector<CardConfig> configs;
  if (!header["configs"].IsSequence()) return configs;
  for (const YAML::Node& item : header["configs"]) {
    if (!item.IsMap() || !item["data_files"]) continue;
    CardConfig config;
    config.name = item["config_name"] ? Word(item["config_name"], "config_name") : "default";
    config.is_default = item["default"].as<bool>(false);
    config.splits = SplitsOf(item["data_files"]);
    configs.push_back(std::move(config));
  }
  return configs;
}

}  // namespace

absl::StatusOr<std::vector<CardConfig>> ParseDatasetCard(absl::string_view text) {
  const std::string header = CardHeader(text);
  if (header.empty()) return std::vector<CardConfig>();
  const auto fault = [](int line, absl::string_view what) {  // of the header, from 0 on
    return absl::InvalidArgumentError(
        absl::StrCat("line ", line + 2, ": ", what,
                     "; name the files by a pattern instead, such as data/train-*.parquet"));
  };
  try {
    const YAML::Node root = YAML::Load(header);
    if (!root.IsMap()) return std::vector<CardConfig>();
    return ConfigsOf(root);
  } catch (const BadCard& bad) {
    return fault(bad.line, bad.what);
  } catch (const YAML::Exception& exception) {
    return fault(exception.mark.line, exception.msg);
  }
}

}  // namespace muster::worker
