#include "controller/store/row_codec.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"

namespace muster::controller {
namespace {

using Json = nlohmann::json;

// Text from outside may hold bytes that are no UTF-8; they are replaced, never a reason to fail.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status Broken(absl::string_view json) {
  return absl::DataLossError(absl::StrCat("state.db holds a broken value: ", json));
}

absl::StatusOr<Json> Parse(absl::string_view text, bool object) {
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || (object ? !json.is_object() : !json.is_array())) return Broken(text);
  return json;
}

// Whether the value is a whole number that T holds; it may be an enum's, up to its `last` one.
template <typename T>
bool Holds(const Json& value, uint64_t last = std::numeric_limits<T>::max()) {
  return value.is_number_unsigned() && value.get<uint64_t>() <= last;
}
bool IsFailureClass(const Json& value) {
  return Holds<uint8_t>(value, static_cast<uint64_t>(FailureClass::kTimeLimit));
}
bool IsSlotKind(const Json& value) {
  return Holds<uint8_t>(value, static_cast<uint64_t>(SlotKind::kGpu)) && value != 0;
}
// A time in milliseconds, which may be before 1970.
bool IsTime(const Json& value) {
  return value.is_number_integer() && (!value.is_number_unsigned() ||
                                       Holds<int64_t>(value, std::numeric_limits<int64_t>::max()));
}

}  // namespace

std::string EncodeTexts(const std::map<std::string, std::string>& texts) {
  if (texts.empty()) return "{}";  // nearly always
  Json json = Json::object();
  for (const auto& [key, value] : texts) json[key] = value;
  return Dump(json);
}

std::string EncodeNumbers(const std::map<std::string, double>& numbers) {
  if (numbers.empty()) return "{}";
  Json json = Json::object();
  for (const auto& [key, value] : numbers) json[key] = value;  // NaN and infinity dump as null
  return Dump(json);
}

std::string EncodeIds(const std::vector<uint64_t>& ids) {
  return absl::StrCat("[", absl::StrJoin(ids, ","), "]");
}

std::string EncodeHexList(const std::vector<std::string>& blobs) {
  Json json = Json::array();
  for (const std::string& blob : blobs) json.push_back(absl::BytesToHexString(blob));
  return Dump(json);
}

std::string EncodeSlots(const std::vector<Slot>& slots) {
  Json json = Json::array();
  for (const Slot& slot : slots) {
    json.push_back(
        {slot.index, static_cast<int>(slot.kind), slot.device, slot.uuid, slot.memory_bytes});
  }
  return Dump(json);
}

std::string EncodeWorkerFailures(const std::vector<WorkerFailure>& failures) {
  Json json = Json::array();
  for (const WorkerFailure& failure : failures) {
    json.push_back({absl::ToUnixMillis(failure.time), failure.job_id, failure.attempt,
                    static_cast<int>(failure.failure_class), failure.cause});
  }
  return Dump(json);
}

std::string EncodeCharged(const std::map<FailureClass, uint32_t>& charged) {
  const auto pair = [](std::string* out, const auto& charge) {
    absl::StrAppend(out, "[", static_cast<int>(charge.first), ",", charge.second, "]");
  };
  return absl::StrCat("[", absl::StrJoin(charged, ",", pair), "]");
}

absl::StatusOr<std::map<std::string, std::string>> DecodeTexts(absl::string_view text) {
  MUSTER_ASSIGN_OR_RETURN(const Json json, Parse(text, /*object=*/true));
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) return Broken(text);
    texts[key] = value.get<std::string>();
  }
  return texts;
}

absl::StatusOr<std::map<std::string, double>> DecodeNumbers(absl::string_view text) {
  MUSTER_ASSIGN_OR_RETURN(const Json json, Parse(text, /*object=*/true));
  std::map<std::string, double> numbers;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_number() && !value.is_null()) return Broken(text);
    numbers[key] = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
  }
  return numbers;
}

absl::StatusOr<std::vector<uint64_t>> DecodeIds(absl::string_view text) {
  MUSTER_ASSIGN_OR_RETURN(const Json json, Parse(text, /*object=*/false));
  std::vector<uint64_t> ids;
  for (const Json& id : json) {
    if (!Holds<uint64_t>(id)) return Broken(text);
    ids.push_back(id.get<uint64_t>());
  }
  return ids;
}

absl::StatusOr<std::vector<std::string>> DecodeHexList(absl::string_view text) {
  MUSTER_ASSIGN_OR_RETURN(const Json json, Parse(text, /*object=*/false));
  std::vector<std::string> blobs;
  for (const Json& blob : json) {
    if (!blob.is_string()) return Broken(text);
    std::string bytes = absl::HexStringToBytes(blob.get_ref<const std::string&>());
    if (absl::BytesToHexString(bytes) != blob.get_ref<const std::string&>()) return Broken(text);
    blobs.push_back(std::move(bytes));
  }
  return blobs;
}

absl::StatusOr<std::vector<Slot>> DecodeSlots(absl::string_view text) {
  MUSTER_ASSIGN_OR_RETURN(const Json json, Parse(text, /*object=*/false));
  std::vector<Slot> slots;
  for (const Json& slot : json) {
    const bool whole = slot.is_array() && slot.size() == 5 && Holds<uint32_t>(slot[0]) &&
                       IsSlotKind(slot[1]) && slot[2].is_string() && slot[3].is_string() &&
                       Holds<uint64_t>(slot[4]);
    if (!whole) return Broken(text);
    slots.push_back({.index = slot[0].get<uint32_t>(),
                     .kind = static_cast<SlotKind>(slot[1].get<int>()),
                     .device = slot[2].get<std::string>(),
                     .uuid = slot[3].get<std::string>(),
                     .memory_bytes = slot[4].get<uint64_t>()});
  }
  return slots;
}

absl::StatusOr<std::vector<WorkerFailure>> DecodeWorkerFailures(absl::string_view text) {
  MUSTER_ASSIGN_OR_RETURN(const Json json, Parse(text, /*object=*/false));
  std::vector<WorkerFailure> failures;
  for (const Json& failure : json) {
    const bool whole = failure.is_array() && failure.size() == 5 && IsTime(failure[0]) &&
                       Holds<uint64_t>(failure[1]) && Holds<uint32_t>(failure[2]) &&
                       IsFailureClass(failure[3]) && failure[4].is_string();
    if (!whole) return Broken(text);
    failures.push_back({.time = absl::FromUnixMillis(failure[0].get<int64_t>()),
                        .job_id = failure[1].get<uint64_t>(),
                        .attempt = failure[2].get<uint32_t>(),
                        .failure_class = static_cast<FailureClass>(failure[3].get<int>()),
                        .cause = failure[4].get<std::string>()});
  }
  return failures;
}

absl::StatusOr<std::map<FailureClass, uint32_t>> DecodeCharged(absl::string_view text) {
  MUSTER_ASSIGN_OR_RETURN(const Json json, Parse(text, /*object=*/false));
  std::map<FailureClass, uint32_t> charged;
  for (const Json& pair : json) {
    const bool whole =
        pair.is_array() && pair.size() == 2 && IsFailureClass(pair[0]) && Holds<uint32_t>(pair[1]);
    if (!whole) return Broken(text);
    const auto kind = static_cast<FailureClass>(pair[0].get<int>());
    // In their order, each once.
    if (!charged.empty() && charged.rbegin()->first >= kind) return Broken(text);
    charged[kind] = pair[1].get<uint32_t>();
  }
  return charged;
}

std::string FreeText(const SqliteStatement& row, int column) {
  return RepairUtf8(row.Text(column));
}

void BindTime(SqliteStatement& statement, absl::Time time) {
  if (time == absl::InfinitePast() || time == absl::InfiniteFuture()) {
    statement.BindNull();
  } else {
    statement.Bind(absl::ToUnixMillis(time));
  }
}

absl::Time ReadTime(const SqliteStatement& statement, int column, absl::Time when_null) {
  return statement.IsNull(column) ? when_null : absl::FromUnixMillis(statement.Int(column));
}

void BindNanos(SqliteStatement& statement, absl::Time time) {
  if (time == absl::InfinitePast() || time == absl::InfiniteFuture()) {
    statement.BindNull();
  } else {
    statement.Bind(absl::ToUnixNanos(time));
  }
}

absl::Time ReadNanos(const SqliteStatement& statement, int column, absl::Time when_null) {
  return statement.IsNull(column) ? when_null : absl::FromUnixNanos(statement.Int(column));
}

}  // namespace muster::controller
