// Reads one JSON object strictly: a key of the wrong type is an error, an unknown key is dropped.
//
// Private to worker/link. The first fault is kept and every later read does nothing, so a decoder
// reads all its keys and asks for status() once. Never throws: types are checked before a value is
// taken.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace muster::worker {

// INVALID_ARGUMENT unless `text` is one JSON object.
absl::StatusOr<nlohmann::json> ParseObject(absl::string_view text);

class JsonReader {
 public:
  // `object` must be an object and outlive the reader; `where` opens each message ("metrics line").
  JsonReader(const nlohmann::json& object, absl::string_view where)
      : object_(object), where_(where.data(), where.size()) {}

  // The key must be there.
  template <typename T>
  void Required(const char* key, T* out) {
    if (const nlohmann::json* value = Find(key, /*required=*/true)) Read(key, *value, out);
  }
  // `out` stays as it is when the key is missing.
  template <typename T>
  void Optional(const char* key, T* out) {
    if (const nlohmann::json* value = Find(key, /*required=*/false)) Read(key, *value, out);
  }
  // base64 text.
  void OptionalBytes(const char* key, std::string* out);
  // The nested value as it stands; null when it is missing.
  const nlohmann::json* Nested(const char* key) { return Find(key, /*required=*/false); }

  void Fail(const char* key, absl::string_view what);
  const absl::Status& status() const { return status_; }

 private:
  const nlohmann::json* Find(const char* key, bool required);
  void Read(const char* key, const nlohmann::json& value, bool* out);
  void Read(const char* key, const nlohmann::json& value, int32_t* out);
  void Read(const char* key, const nlohmann::json& value, int64_t* out);
  void Read(const char* key, const nlohmann::json& value, uint32_t* out);
  void Read(const char* key, const nlohmann::json& value, uint64_t* out);
  void Read(const char* key, const nlohmann::json& value, double* out);
  void Read(const char* key, const nlohmann::json& value, std::string* out);
  void Read(const char* key, const nlohmann::json& value, std::vector<std::string>* out);
  void Read(const char* key, const nlohmann::json& value, std::map<std::string, double>* out);
  bool ToDouble(const nlohmann::json& value, double* out);

  const nlohmann::json& object_;
  std::string where_;
  absl::Status status_;
};

// JSON has no NaN or infinity: they travel as the strings "nan", "inf" and "-inf".
nlohmann::json DoubleToJson(double value);
nlohmann::json DoublesToJson(const std::map<std::string, double>& values);

// On one line; text that is not UTF-8 has its bad bytes replaced.
std::string Dump(const nlohmann::json& value);

}  // namespace muster::worker
