// What the generated trainer_spec/job_spec.cc is made of: strict JSON to plain C++ values and back.
// Only that file includes this one. No protobuf here: the trainer links LibTorch, which brings its
// own.
//
// The text was written by SpecToJson on another machine, so every fault is a Status that names the
// path.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"

namespace muster::trainer_spec::codec {

using Json = nlohmann::ordered_json;

inline absl::Status Fault(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("spec: ", path.empty() ? "(top)" : path, ": ", what));
}

inline std::string Join(const std::string& path, const std::string& key) {
  return path.empty() ? key : absl::StrCat(path, ".", key);
}

inline absl::Status Decode(const Json& json, const std::string& path, bool& out) {
  if (!json.is_boolean()) return Fault(path, "must be true or false");
  out = json.get<bool>();
  return absl::OkStatus();
}

template <typename T>
requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) absl::Status
    Decode(const Json& json, const std::string& path, T& out) {
  // nlohmann keeps what has no sign and no fraction as unsigned, and negative whole numbers as
  // signed.
  if (json.is_number_unsigned()) {
    const uint64_t value = json.get<uint64_t>();
    if (value <= static_cast<uint64_t>(std::numeric_limits<T>::max())) {
      out = static_cast<T>(value);
      return absl::OkStatus();
    }
  } else if (json.is_number_integer() && std::is_signed_v<T>) {
    const int64_t value = json.get<int64_t>();
    if (value >= static_cast<int64_t>(std::numeric_limits<T>::min())) {
      out = static_cast<T>(value);
      return absl::OkStatus();
    }
  }
  return Fault(path, absl::StrCat("must be a whole number from ",
                                  static_cast<int64_t>(std::numeric_limits<T>::min()), " to ",
                                  static_cast<uint64_t>(std::numeric_limits<T>::max())));
}

inline absl::Status Decode(const Json& json, const std::string& path, double& out) {
  if (!json.is_number()) return Fault(path, "must be a number");
  out = json.get<double>();
  return absl::OkStatus();
}

inline absl::Status Decode(const Json& json, const std::string& path, std::string& out) {
  if (!json.is_string()) return Fault(path, "must be a string");
  out = json.get<std::string>();
  return absl::OkStatus();
}

inline absl::Status Decode(const Json& json, const std::string& path, absl::Duration& out) {
  if (!json.is_string()) return Fault(path, "must be a duration such as \"90s\"");
  auto parsed = ParseDuration(json.get<std::string>());
  if (!parsed.ok()) return Fault(path, std::string(parsed.status().message()));
  out = *parsed;
  return absl::OkStatus();
}

template <typename T>
absl::Status Decode(const Json& json, const std::string& path, std::optional<T>& out) {
  return Decode(json, path, out.emplace());
}

template <typename T>
absl::Status Decode(const Json& json, const std::string& path, std::vector<T>& out) {
  if (!json.is_array()) return Fault(path, "must be a list");
  out.clear();
  for (const Json& element : json) {
    T value{};
    MUSTER_RETURN_IF_ERROR(Decode(element, absl::StrCat(path, "[", out.size(), "]"), value));
    out.push_back(std::move(value));
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status Decode(const Json& json, const std::string& path, std::map<std::string, T>& out) {
  if (!json.is_object()) return Fault(path, "must be an object");
  out.clear();
  for (const auto& [key, element] : json.items()) {
    MUSTER_RETURN_IF_ERROR(Decode(element, Join(path, key), out[key]));
  }
  return absl::OkStatus();
}

inline Json Encode(bool value) { return value; }
template <typename T>
requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) Json Encode(T value) { return value; }
inline Json Encode(const std::string& value) { return value; }
inline Json Encode(absl::Duration value) {
  return value == absl::ZeroDuration() ? std::string("0s") : absl::FormatDuration(value);
}
template <typename T>
Json Encode(const std::vector<T>& values) {
  Json out = Json::array();
  for (const T& value : values) out.push_back(Encode(value));
  return out;
}
template <typename T>
Json Encode(const std::map<std::string, T>& values) {
  Json out = Json::object();
  for (const auto& [key, value] : values) out[key] = Encode(value);
  return out;
}

}  // namespace muster::trainer_spec::codec
