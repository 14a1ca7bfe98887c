#include "cli/output/document.h"

#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace muster::cli {
namespace {

constexpr std::array<std::pair<const char*, Format>, 7> kFormats = {{{"table", Format::kTable},
                                                                     {"wide", Format::kWide},
                                                                     {"json", Format::kJson},
                                                                     {"jsonl", Format::kJsonl},
                                                                     {"yaml", Format::kYaml},
                                                                     {"csv", Format::kCsv},
                                                                     {"name", Format::kName}}};

std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// Words that some YAML reader takes for something else than text.
bool IsYamlKeyword(const std::string& text) {
  static constexpr std::array<const char*, 9> kWords = {"null", "true", "false", "yes", "no",
                                                        "on",   "off",  "y",     "n"};
  for (const char* word : kWords) {
    if (absl::EqualsIgnoreCase(text, word)) return true;
  }
  return false;
}

bool IsPlainYaml(const std::string& text) {
  if (text.empty() || IsYamlKeyword(text)) return false;
  if (!absl::ascii_isalpha(static_cast<unsigned char>(text[0])) && text[0] != '/') return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        !absl::StrContains("/_.-", absl::string_view(&c, 1))) {
      return false;
    }
  }
  return true;
}

std::string YamlScalar(const Json& json) {
  if (json.is_string() && IsPlainYaml(json.get_ref<const std::string&>()))
    return json.get<std::string>();
  return Dump(json, -1);
}

bool IsBlock(const Json& json) { return json.is_structured() && !json.empty(); }

// `first` is what the first line starts with: the indent itself, or the indent and a dash of the
// list around it.
void AppendYaml(const Json& json, size_t depth, std::string first, std::string* text) {
  const std::string indent(2 * depth, ' ');
  if (!IsBlock(json)) {
    absl::StrAppend(text, first, YamlScalar(json), "\n");
  } else if (json.is_array()) {
    for (const Json& item : json) {
      AppendYaml(item, depth + 1, absl::StrCat(std::exchange(first, indent), "- "), text);
    }
  } else {
    for (const auto& [key, value] : json.items()) {
      absl::StrAppend(text, std::exchange(first, indent), YamlScalar(key), ":");
      if (IsBlock(value)) {
        absl::StrAppend(text, "\n");
        AppendYaml(value, depth + 1, std::string(2 * (depth + 1), ' '), text);
      } else {
        AppendYaml(value, 0, " ", text);
      }
    }
  }
}

std::string CsvCell(const Json& json) {
  if (json.is_null()) return "";
  if (json.is_number_float() && !std::isfinite(json.get<double>())) {
    return absl::StrCat(json.get<double>());
  }
  const std::string text = json.is_string() ? json.get<std::string>() : Dump(json, -1);
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string NameLine(const Json& item, absl::string_view name_key) {
  const auto name = item.find(std::string(name_key));
  if (name == item.end()) return "";
  return absl::StrCat(name->is_string() ? name->get<std::string>() : Dump(*name, -1), "\n");
}

}  // namespace

absl::StatusOr<Format> ParseFormat(absl::string_view text) {
  std::vector<std::string> names;
  for (const auto& [name, format] : kFormats) {
    if (text == name) return format;
    names.push_back(name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("-o ", text, ": no such format; there are ", absl::StrJoin(names, ", ")));
}

std::string JsonText(const Json& json) { return absl::StrCat(Dump(json, 2), "\n"); }

std::string JsonLine(const Json& json) { return absl::StrCat(Dump(json, -1), "\n"); }

std::string YamlText(const Json& json) {
  std::string text;
  AppendYaml(json, 0, "", &text);
  return text;
}

std::string CsvText(const std::vector<Json>& items) {
  std::string text;
  if (items.empty()) return text;
  std::vector<std::string> keys;
  for (const auto& [key, value] : items.front().items()) keys.push_back(key);
  const auto line = [&](const std::vector<std::string>& cells) {
    absl::StrAppend(&text, absl::StrJoin(cells, ","), "\n");
  };
  line(keys);
  for (const Json& item : items) {
    std::vector<std::string> cells;
    for (const std::string& key : keys)
      cells.push_back(item.contains(key) ? CsvCell(item[key]) : "");
    line(cells);
  }
  return text;
}

std::string RenderList(Format format, const std::vector<Json>& items, absl::string_view name_key) {
  std::string text;
  switch (format) {
    case Format::kYaml:
      return YamlText(items);
    case Format::kCsv:
      return CsvText(items);
    case Format::kJsonl:
      for (const Json& item : items) text += JsonLine(item);
      return text;
    case Format::kName:
      for (const Json& item : items) text += NameLine(item, name_key);
      return text;
    default:
      return JsonText(items);
  }
}

std::string RenderOne(Format format, const Json& item, absl::string_view name_key) {
  switch (format) {
    case Format::kYaml:
      return YamlText(item);
    case Format::kCsv:
      return CsvText({item});
    case Format::kJsonl:
      return JsonLine(item);
    case Format::kName:
      return NameLine(item, name_key);
    default:
      return JsonText(item);
  }
}

}  // namespace muster::cli
