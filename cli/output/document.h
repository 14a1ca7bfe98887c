// What a verb prints, in the form that `-o` asks for. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/output/proto_json.h"

namespace muster::cli {

enum class Format { kTable, kWide, kJson, kJsonl, kYaml, kCsv, kName };

// INVALID_ARGUMENT names the formats there are.
absl::StatusOr<Format> ParseFormat(absl::string_view text);

// Whether errors are to be JSON too.
inline bool IsJson(Format format) { return format == Format::kJson || format == Format::kJsonl; }

// Indented for kJson, one line for kJsonl; bytes that are not UTF-8 are replaced. Ends in a
// newline.
std::string JsonText(const Json& json);
std::string JsonLine(const Json& json);

// Text that any YAML reader takes back as the same value: block style, strings quoted wherever they
// could be misread.
std::string YamlText(const Json& json);

// RFC 4180 with a header made of the first item's keys; what is no scalar stands as JSON, null as
// nothing, what is not finite as nan, inf and -inf.
std::string CsvText(const std::vector<Json>& items);

// The items in one of the machine formats; `name_key` is what kName prints of each, nothing of
// those that lack it. Requires a format other than the tables.
std::string RenderList(Format format, const std::vector<Json>& items, absl::string_view name_key);

// The same for one object: not wrapped in a list.
std::string RenderOne(Format format, const Json& item, absl::string_view name_key);

}  // namespace muster::cli
