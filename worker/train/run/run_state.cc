#include "worker/train/run/run_state.h"

#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace muster::worker {
namespace {

using nlohmann::json;

constexpr int64_t kFormatVersion = 1;

json Number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

std::optional<double> ToNumber(const json& value) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (value.is_number()) return value.get<double>();
  // As such states were once written: whatever it was, it was not finite.
  if (value.is_null() || value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return kInfinity;
  if (value == "-inf") return -kInfinity;
  return std::nullopt;
}

// Takes keys out of one object; remembers the first that does not fit.
class Reader {
 public:
  explicit Reader(const json& object) : object_(object) {}

  void Take(const char* key, int64_t* out) {
    const json* value = Find(key);
    if (value != nullptr && value->is_number_integer())
      *out = value->get<int64_t>();
    else
      Fail(key);
  }
  void Take(const char* key, uint64_t* out) {
    const json* value = Find(key);
    if (value != nullptr && value->is_number_integer())
      *out = value->get<uint64_t>();
    else
      Fail(key);
  }
  void Take(const char* key, double* out) {
    const json* value = Find(key);
    const std::optional<double> number = value == nullptr ? std::nullopt : ToNumber(*value);
    if (number.has_value())
      *out = *number;
    else
      Fail(key);
  }
  void Take(const char* key, bool* out) {
    const json* value = Find(key);
    if (value != nullptr && value->is_boolean())
      *out = value->get<bool>();
    else
      Fail(key);
  }
  void Take(const char* key, std::map<std::string, std::string>* out) {
    const json* value = Find(key);
    if (value == nullptr || !value->is_object()) return Fail(key);
    for (const auto& [name, text] : value->items()) {
      if (!text.is_string()) return Fail(key);
      (*out)[name] = text.get<std::string>();
    }
  }
  void Take(const char* key, std::vector<std::string>* out) {
    const json* value = Find(key);
    if (value == nullptr || !value->is_array()) return Fail(key);
    for (const json& text : *value) {
      if (!text.is_string()) return Fail(key);
      out->push_back(text.get<std::string>());
    }
  }
  void Take(const char* key, std::string* out) {
    const json* value = Find(key);
    if (value != nullptr && value->is_string())
      *out = value->get<std::string>();
    else
      Fail(key);
  }
  const std::string& bad_key() const { return bad_key_; }

 private:
  const json* Find(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() ? nullptr : &*it;
  }
  void Fail(const char* key) {
    if (bad_key_.empty()) bad_key_ = key;
  }

  const json& object_;
  std::string bad_key_;
};

// "libjpeg turbo 2.1.5 -> turbo 3.0.1". Those that only one of both names are not compared: an
// older program did not look at them, or the data are of another kind.
void AddChangedLibraries(const std::map<std::string, std::string>& saved,
                         const std::map<std::string, std::string>& now,
                         std::vector<std::string>& changes) {
  for (const auto& [name, version] : saved) {
    const auto found = now.find(name);
    if (found != now.end() && found->second != version)
      changes.push_back(absl::StrCat(name, " ", version, " -> ", found->second));
  }
}

}  // namespace

std::vector<std::string> ChangesOfBits(const RunIdentity& saved, const RunIdentity& now) {
  std::vector<std::string> changes;
  if (saved.world_size != now.world_size) changes.push_back("world_size");
  if (saved.threads_per_rank != now.threads_per_rank) changes.push_back("threads_per_rank");
  if (saved.device != now.device) changes.push_back("device");
  if (saved.torch_version != now.torch_version) changes.push_back("torch_version");
  // Of states that hold the whole record.
  if (!saved.code_version.empty()) {
    if (saved.device_name != now.device_name) changes.push_back("device_name");
    if (saved.precision != now.precision) changes.push_back("precision");
    AddChangedLibraries(saved.libraries, now.libraries, changes);
    if (saved.code_version != now.code_version) changes.push_back("code_version");
    if (saved.muster_version != now.muster_version) changes.push_back("muster_version");
  }
  // A rank alone has none to work together with.
  if (!saved.transport.empty() && now.world_size > 1) {
    if (saved.transport != now.transport) changes.push_back("transport");
    if (saved.compression != now.compression) changes.push_back("compression");
    if (saved.sync_batch_norm != now.sync_batch_norm) changes.push_back("sync_batch_norm");
  }
  return changes;
}

bool SameMemory(const RunIdentity& saved, const RunIdentity& now) {
  return ChangesOfBits(saved, now).empty() && ChangedRecipe(saved.spec_json, now.spec_json).empty();
}

std::string EncodeRunState(const RunState& state, const RunIdentity& identity) {
  json object = {
      {"format_version", kFormatVersion},
      {"step", state.step},
      {"epoch", Number(state.epoch)},
      {"validation_step", state.validation_step},
      {"validation_accuracy", Number(state.validation_accuracy)},
      {"validation_loss", Number(state.validation_loss)},
      {"validation_owed", state.validation_owed},
      {"best_step", state.best_step},
      {"best_accuracy", Number(state.best_accuracy)},
      {"best_loss", Number(state.best_loss)},
      {"loss_scale", Number(state.loss_scale.scale)},
      {"loss_scale_growth_tracker", state.loss_scale.growth_tracker},
      {"skips_in_row", state.loss_scale.skips_in_row},
      {"skipped_steps", state.loss_scale.skipped_steps},
      {"data_fingerprint", identity.data_fingerprint},
      {"seed", identity.seed},
      {"world_size", identity.world_size},
      {"threads_per_rank", identity.threads_per_rank},
      {"device", identity.device},
      {"device_name", identity.device_name},
      {"ranks_on_other_devices", identity.ranks_on_other_devices},
      {"precision", identity.precision},
      {"transport", identity.transport},
      {"compression", identity.compression},
      {"sync_batch_norm", identity.sync_batch_norm},
      {"deterministic", identity.deterministic},
      {"torch_version", identity.torch_version},
      {"libraries", identity.libraries},
      {"muster_version", identity.muster_version},
      {"code_version", identity.code_version},
      {"classes", identity.classes},
  };
  if (state.rehearsed.activations >= 0) {
    object["rehearsed_memory"] = {{"activations", state.rehearsed.activations},
                                  {"program", state.rehearsed.program},
                                  {"holes", state.rehearsed.holes}};
  }
  if (!identity.class_names.empty()) object["class_names"] = identity.class_names;
  if (!identity.weights_fingerprint.empty())
    object["weights_fingerprint"] = identity.weights_fingerprint;
  if (!identity.teacher_fingerprint.empty())
    object["teacher_fingerprint"] = identity.teacher_fingerprint;
  json spec = json::parse(identity.spec_json, nullptr, /*allow_exceptions=*/false);
  object["spec"] = spec.is_object() ? std::move(spec) : json::object();
  return object.dump(2, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<DecodedRunState> DecodeRunState(absl::string_view text) {
  const json object = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return absl::DataLossError("state.json is not a JSON object");
  Reader reader(object);
  int64_t version = 0;
  DecodedRunState decoded;
  reader.Take("format_version", &version);
  if (reader.bad_key().empty() && version != kFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat("state.json has format version ", version,
                                                      ", this program knows ", kFormatVersion));
  }
  RunState& state = decoded.state;
  reader.Take("step", &state.step);
  reader.Take("epoch", &state.epoch);
  reader.Take("validation_step", &state.validation_step);
  reader.Take("validation_accuracy", &state.validation_accuracy);
  reader.Take("validation_loss", &state.validation_loss);
  reader.Take("best_step", &state.best_step);
  reader.Take("best_accuracy", &state.best_accuracy);
  reader.Take("best_loss", &state.best_loss);
  if (std::isnan(state.best_loss) || std::isnan(state.best_accuracy)) {
    state.best_step = -1;
    state.best_accuracy = state.best_loss = 0;
  }
  // Absent in states of before a validation could be left off.
  if (object.contains("validation_owed")) reader.Take("validation_owed", &state.validation_owed);
  // Absent in states that were written before there was a loss scale.
  if (object.contains("loss_scale")) {
    reader.Take("loss_scale", &state.loss_scale.scale);
    reader.Take("loss_scale_growth_tracker", &state.loss_scale.growth_tracker);
    reader.Take("skips_in_row", &state.loss_scale.skips_in_row);
    reader.Take("skipped_steps", &state.loss_scale.skipped_steps);
  }
  // Absent where there was no rehearsal, and in states of before it was noted.
  const auto rehearsed = object.find("rehearsed_memory");
  if (rehearsed != object.end()) {
    Reader memory(*rehearsed);
    memory.Take("activations", &state.rehearsed.activations);
    memory.Take("program", &state.rehearsed.program);
    memory.Take("holes", &state.rehearsed.holes);
    if (!memory.bad_key().empty())
      return absl::DataLossError("state.json: `rehearsed_memory` is not what it should be");
  }
  RunIdentity& identity = decoded.identity;
  reader.Take("data_fingerprint", &identity.data_fingerprint);
  reader.Take("seed", &identity.seed);
  reader.Take("world_size", &identity.world_size);
  reader.Take("threads_per_rank", &identity.threads_per_rank);
  reader.Take("device", &identity.device);
  reader.Take("torch_version", &identity.torch_version);
  reader.Take("muster_version", &identity.muster_version);
  reader.Take("classes", &identity.classes);
  if (object.contains("class_names")) reader.Take("class_names", &identity.class_names);
  if (object.contains("weights_fingerprint"))
    reader.Take("weights_fingerprint", &identity.weights_fingerprint);
  if (object.contains("teacher_fingerprint"))
    reader.Take("teacher_fingerprint", &identity.teacher_fingerprint);
  // Absent in states of before there was such a record.
  if (object.contains("code_version")) {
    reader.Take("code_version", &identity.code_version);
    reader.Take("device_name", &identity.device_name);
    reader.Take("ranks_on_other_devices", &identity.ranks_on_other_devices);
    reader.Take("precision", &identity.precision);
    reader.Take("deterministic", &identity.deterministic);
    reader.Take("libraries", &identity.libraries);
  }
  if (object.contains("transport")) {
    reader.Take("transport", &identity.transport);
    reader.Take("compression", &identity.compression);
    reader.Take("sync_batch_norm", &identity.sync_batch_norm);
  }
  if (!reader.bad_key().empty()) {
    return absl::DataLossError(
        absl::StrCat("state.json: `", reader.bad_key(), "` is missing or of the wrong type"));
  }
  const auto spec = object.find("spec");
  if (spec != object.end())
    identity.spec_json = spec->dump(-1, ' ', false, json::error_handler_t::replace);
  return decoded;
}

std::vector<std::string> ChangedRecipe(absl::string_view one, absl::string_view other) {
  const auto train = [](absl::string_view text) {
    const json spec = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
    if (!spec.is_object()) return json::object();
    const auto found = spec.find("train");
    return found != spec.end() && found->is_object() ? *found : json::object();
  };
  const json before = train(one);
  const json after = train(other);
  std::vector<std::string> changed;
  for (const auto& [key, value] : before.items()) {
    const auto found = after.find(key);
    if (found == after.end() || *found != value) changed.push_back(absl::StrCat("train.", key));
  }
  for (const auto& [key, value] : after.items()) {
    if (!before.contains(key)) changed.push_back(absl::StrCat("train.", key));
  }
  return changed;
}

}  // namespace muster::worker
