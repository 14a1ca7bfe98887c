#include "worker/link/link_json.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace muster::worker {

using nlohmann::json;

constexpr size_t kMaxShownKey = 64;  // of a text from outside, in a message

namespace {

// Python's json writes these as they stand here; JSON knows none of them.
std::string WhyNotJson(absl::string_view text) {
  for (const absl::string_view word : {"-Infinity", "Infinity", "NaN"}) {
    const size_t at = text.find(word);
    if (at == absl::string_view::npos) continue;
    const absl::string_view until = text.substr(0, at);
    const size_t comma = until.rfind(',');
    const size_t brace = until.rfind('{');
    size_t from = std::max(comma == absl::string_view::npos ? 0 : comma + 1,
                           brace == absl::string_view::npos ? 0 : brace + 1);
    from = std::min(from, at);
    absl::string_view key = absl::StripAsciiWhitespace(until.substr(from));
    if (key.size() > kMaxShownKey) key = key.substr(0, kMaxShownKey);
    const char* instead = word == "NaN" ? "nan" : word == "Infinity" ? "inf" : "-inf";
    return absl::StrCat("not JSON: ", key, " ", word, "; write it as the string \"", instead,
                        "\", or leave it out");
  }
  return "not JSON";
}

}  // namespace

absl::StatusOr<json> ParseObject(absl::string_view text) {
  json value = json::parse(text.begin(), text.end(), /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return absl::InvalidArgumentError(WhyNotJson(text));
  if (!value.is_object()) return absl::InvalidArgumentError("not a JSON object");
  return value;
}

void JsonReader::Fail(const char* key, absl::string_view what) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(absl::StrCat(where_, ": key '", key, "' ", what));
}

const json* JsonReader::Find(const char* key, bool required) {
  if (!status_.ok()) return nullptr;
  const auto it = object_.find(key);
  if (it != object_.end()) return &*it;
  if (required) Fail(key, "is missing");
  return nullptr;
}

void JsonReader::OptionalBytes(const char* key, std::string* out) {
  std::string text;
  Optional(key, &text);
  if (!status_.ok()) return;
  std::string bytes;
  // absl forgives white space and other alphabets' signs; only its own spelling counts here.
  if (!absl::Base64Unescape(text, &bytes) || absl::Base64Escape(bytes) != text) {
    return Fail(key, "is not base64");
  }
  *out = std::move(bytes);
}

void JsonReader::Read(const char* key, const json& value, bool* out) {
  if (!value.is_boolean()) return Fail(key, "is not true or false");
  *out = value.get<bool>();
}

void JsonReader::Read(const char* key, const json& value, int64_t* out) {
  if (!value.is_number_integer()) return Fail(key, "is not an integer");
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return Fail(key, "is too large");
  }
  *out = value.get<int64_t>();
}

void JsonReader::Read(const char* key, const json& value, int32_t* out) {
  int64_t wide = 0;
  Read(key, value, &wide);
  if (!status_.ok()) return;
  if (wide < std::numeric_limits<int32_t>::min() || wide > std::numeric_limits<int32_t>::max()) {
    return Fail(key, "is out of range");
  }
  *out = static_cast<int32_t>(wide);
}

void JsonReader::Read(const char* key, const json& value, uint64_t* out) {
  if (!value.is_number_unsigned()) return Fail(key, "is not a non-negative integer");
  *out = value.get<uint64_t>();
}

void JsonReader::Read(const char* key, const json& value, uint32_t* out) {
  uint64_t wide = 0;
  Read(key, value, &wide);
  if (!status_.ok()) return;
  if (wide > std::numeric_limits<uint32_t>::max()) return Fail(key, "is out of range");
  *out = static_cast<uint32_t>(wide);
}

bool JsonReader::ToDouble(const json& value, double* out) {
  if (value.is_number()) {
    *out = value.get<double>();
    return true;
  }
  if (!value.is_string()) return false;
  const std::string& text = value.get_ref<const std::string&>();
  if (text == "nan") {
    *out = std::numeric_limits<double>::quiet_NaN();
  } else if (text == "inf") {
    *out = std::numeric_limits<double>::infinity();
  } else if (text == "-inf") {
    *out = -std::numeric_limits<double>::infinity();
  } else {
    return false;
  }
  return true;
}

void JsonReader::Read(const char* key, const json& value, double* out) {
  if (!ToDouble(value, out)) Fail(key, "is not a number");
}

void JsonReader::Read(const char* key, const json& value, std::string* out) {
  if (!value.is_string()) return Fail(key, "is not a string");
  *out = value.get<std::string>();
}

void JsonReader::Read(const char* key, const json& value, std::vector<std::string>* out) {
  if (!value.is_array()) return Fail(key, "is not a list");
  out->clear();
  for (const json& item : value) {
    if (!item.is_string()) return Fail(key, "has an item that is not a string");
    out->push_back(item.get<std::string>());
  }
}

void JsonReader::Read(const char* key, const json& value, std::map<std::string, double>* out) {
  if (!value.is_object()) return Fail(key, "is not an object");
  out->clear();
  for (const auto& [name, item] : value.items()) {
    double number = 0;
    if (!ToDouble(item, &number))
      return Fail(key, absl::StrCat("has '", name, "' that is not a number"));
    (*out)[name] = number;
  }
}

json DoubleToJson(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

json DoublesToJson(const std::map<std::string, double>& values) {
  json object = json::object();
  for (const auto& [name, value] : values) object[name] = DoubleToJson(value);
  return object;
}

std::string Dump(const json& value) {
  return value.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
}

}  // namespace muster::worker
