#include "common/ckpt/manifest.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"

namespace muster {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxNameBytes = 255;

absl::Status Bad(absl::string_view what) {
  return absl::DataLossError(absl::StrCat(kManifestFile, ": ", what));
}

// The typed members of one JSON object; the first fault is kept and everything after it is skipped.
class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) status_ = Bad(absl::StrCat(where_, "is not an object"));
  }

  template <typename T>
  T Integer(const char* key) {
    const Json* value = Get(key);
    if (value == nullptr) return 0;
    // JSON's other integers (negative ones) are never right here.
    const bool fits =
        value->is_number_unsigned() &&
        value->get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<T>::max());
    if (!fits) return Wrong(key, "a whole number in range"), 0;
    return static_cast<T>(value->get<uint64_t>());
  }
  double Number(const char* key) {
    const Json* value = Get(key);
    if (value == nullptr) return 0;
    if (!value->is_number()) return Wrong(key, "a number"), 0;
    return value->get<double>();
  }
  bool Boolean(const char* key) {
    const Json* value = Get(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) return Wrong(key, "true or false"), false;
    return value->get<bool>();
  }
  std::string String(const char* key) {
    const Json* value = Get(key);
    if (value == nullptr) return "";
    if (!value->is_string()) return Wrong(key, "a string"), "";
    return value->get<std::string>();
  }
  Hash128 Hash(const char* key) {
    const Json* value = Get(key);
    if (value == nullptr) return {};
    return HashOf(*value, key);
  }
  std::vector<Hash128> Hashes(const char* key) {
    const Json* value = Get(key);
    std::vector<Hash128> hashes;
    if (value == nullptr) return hashes;
    if (!value->is_array()) return Wrong(key, "a list of hashes"), hashes;
    hashes.reserve(value->size());
    for (const Json& element : *value) hashes.push_back(HashOf(element, key));
    return hashes;
  }
  const Json* Get(const char* key) {
    if (!status_.ok()) return nullptr;
    const auto it = object_.find(key);
    if (it == object_.end()) {
      status_ = Bad(absl::StrCat(where_, "lacks \"", key, "\""));
      return nullptr;
    }
    return &*it;
  }
  void Wrong(const char* key, absl::string_view want) {
    if (status_.ok()) status_ = Bad(absl::StrCat(where_, "\"", key, "\" is not ", want));
  }
  const absl::Status& status() const { return status_; }

 private:
  Hash128 HashOf(const Json& value, const char* key) {
    std::optional<Hash128> hash;
    if (value.is_string()) hash = HashFromHex(value.get_ref<const std::string&>());
    if (!hash.has_value()) return Wrong(key, "made of 32 hex digits"), Hash128{};
    return *hash;
  }

  const Json& object_;
  const std::string where_;
  absl::Status status_;
};

// A name that stays in the folder, is no other file of the protocol, prints well and can stand in
// JSON.
bool IsPlainName(absl::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes || name == "." || name == ".." ||
      name == kManifestFile || !IsUtf8(name)) {
    return false;
  }
  for (const char c : name) {
    if (c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  return true;
}

absl::StatusOr<ManifestFile> DecodeFile(const Json& json, size_t index) {
  Fields fields(json, absl::StrCat("files[", index, "] "));
  ManifestFile file;
  file.name = fields.String("name");
  file.size_bytes = fields.Integer<uint64_t>("size_bytes");
  file.hash = fields.Hash("xxh3_128");
  file.blocks = fields.Hashes("blocks");
  MUSTER_RETURN_IF_ERROR(fields.status());
  if (!IsPlainName(file.name)) {
    return Bad(absl::StrCat("files[", index, "] has a name that is not a plain file name"));
  }
  const uint64_t want =
      file.size_bytes / kHashBlockBytes + (file.size_bytes % kHashBlockBytes != 0);
  if (file.blocks.size() != want) {
    return Bad(absl::StrCat(file.name, " has ", file.blocks.size(), " block hashes, want ", want));
  }
  return file;
}

absl::Status DecodeFiles(const Json& json, std::vector<ManifestFile>* files) {
  if (!json.is_array()) return Bad("\"files\" is not a list");
  if (json.size() > kMaxManifestFiles) return Bad(absl::StrCat("names ", json.size(), " files"));
  std::set<std::string> names;
  uint64_t total = 0;
  for (size_t i = 0; i < json.size(); ++i) {
    MUSTER_ASSIGN_OR_RETURN(ManifestFile file, DecodeFile(json[i], i));
    if (!names.insert(file.name).second) return Bad(absl::StrCat(file.name, " stands twice"));
    if (__builtin_add_overflow(total, file.size_bytes, &total)) return Bad("sizes overflow");
    files->push_back(std::move(file));
  }
  return absl::OkStatus();
}

absl::Status DecodeMetrics(const Json& json, std::map<std::string, double>* metrics) {
  if (!json.is_object()) return Bad("\"metrics\" is not an object");
  for (const auto& [name, value] : json.items()) {
    if (!value.is_number()) return Bad(absl::StrCat("metrics: \"", name, "\" is not a number"));
    (*metrics)[name] = value.get<double>();
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFileName(absl::string_view name) {
  if (IsPlainName(name)) return absl::OkStatus();
  const std::string shown = absl::CHexEscape(name);
  if (name == kManifestFile) {
    return absl::InvalidArgumentError(absl::StrCat(shown, ": this name is Muster's own"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", shown, "\" cannot name a file of a checkpoint: a name is 1 to ", kMaxNameBytes,
      " bytes of UTF-8 without slash, backslash and control characters, and not \".\" or \"..\""));
}

uint64_t Manifest::TotalBytes() const {
  uint64_t total = 0;
  for (const ManifestFile& file : files) total += file.size_bytes;
  return total;
}

const ManifestFile* Manifest::Find(absl::string_view name) const {
  for (const ManifestFile& file : files) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

std::string EncodeManifest(const Manifest& manifest) {
  Json files = Json::array();
  for (const ManifestFile& file : manifest.files) {
    Json blocks = Json::array();
    for (const Hash128& block : file.blocks) blocks.push_back(HashToHex(block));
    files.push_back({{"name", file.name},
                     {"size_bytes", file.size_bytes},
                     {"xxh3_128", HashToHex(file.hash)},
                     {"blocks", std::move(blocks)}});
  }
  Json metrics = Json::object();
  for (const auto& [name, value] : manifest.metrics) {
    if (std::isfinite(value)) metrics[name] = value;
  }
  const Json json = {{"format_version", manifest.format_version},
                     {"job_id", manifest.job_id},
                     {"job_name", manifest.job_name},
                     {"attempt", manifest.attempt},
                     {"generation", manifest.generation},
                     {"step", manifest.step},
                     {"epoch", manifest.epoch},
                     {"best", manifest.best},
                     {"metrics", std::move(metrics)},
                     {"block_bytes", kHashBlockBytes},
                     {"files", std::move(files)}};
  return json.dump(1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<Manifest> DecodeManifest(absl::string_view text) {
  if (text.size() > kMaxManifestBytes) return Bad("is too large");
  const Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Bad("is not JSON");
  Fields fields(json, "");
  Manifest manifest;
  manifest.format_version = fields.Integer<int64_t>("format_version");
  MUSTER_RETURN_IF_ERROR(fields.status());
  if (manifest.format_version != kManifestFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(kManifestFile, ": format version ", manifest.format_version,
                     " is not known to this program (it knows ", kManifestFormatVersion, ")"));
  }
  manifest.job_id = fields.Integer<uint64_t>("job_id");
  manifest.job_name = fields.String("job_name");
  manifest.attempt = fields.Integer<uint32_t>("attempt");
  manifest.generation = fields.Integer<uint32_t>("generation");
  manifest.step = fields.Integer<int64_t>("step");
  manifest.epoch = fields.Number("epoch");
  manifest.best = fields.Boolean("best");
  if (fields.Integer<uint64_t>("block_bytes") != kHashBlockBytes) {
    fields.Wrong("block_bytes", absl::StrCat(kHashBlockBytes));
  }
  const Json* metrics = fields.Get("metrics");
  const Json* files = fields.Get("files");
  MUSTER_RETURN_IF_ERROR(fields.status());
  MUSTER_RETURN_IF_ERROR(DecodeMetrics(*metrics, &manifest.metrics));
  MUSTER_RETURN_IF_ERROR(DecodeFiles(*files, &manifest.files));
  return manifest;
}

}  // namespace muster
