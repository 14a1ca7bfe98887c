#include "common/spec/spec_writer.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/spec/spec_text.h"

namespace muster {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Json = nlohmann::ordered_json;

Json MessageToJson(const Message& message);

// The value of a singular field, or of one element of a repeated one (index >= 0).
Json ValueToJson(const Message& message, const FieldDescriptor* field, int index) {
  const Reflection& r = *message.GetReflection();
  const bool one = index < 0;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return one ? r.GetBool(message, field) : r.GetRepeatedBool(message, field, index);
    case FieldDescriptor::CPPTYPE_INT32:
      return one ? r.GetInt32(message, field) : r.GetRepeatedInt32(message, field, index);
    case FieldDescriptor::CPPTYPE_UINT32:
      return one ? r.GetUInt32(message, field) : r.GetRepeatedUInt32(message, field, index);
    case FieldDescriptor::CPPTYPE_INT64:
      return one ? r.GetInt64(message, field) : r.GetRepeatedInt64(message, field, index);
    case FieldDescriptor::CPPTYPE_UINT64:
      return one ? r.GetUInt64(message, field) : r.GetRepeatedUInt64(message, field, index);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return one ? r.GetDouble(message, field) : r.GetRepeatedDouble(message, field, index);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return one ? r.GetFloat(message, field) : r.GetRepeatedFloat(message, field, index);
    case FieldDescriptor::CPPTYPE_STRING:
      return one ? r.GetString(message, field) : r.GetRepeatedString(message, field, index);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumValueText(
          *(one ? r.GetEnum(message, field) : r.GetRepeatedEnum(message, field, index)));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MessageToJson(one ? r.GetMessage(message, field)
                               : r.GetRepeatedMessage(message, field, index));
  }
  MUSTER_CHECK(false, "a field has a type that the spec cannot have");
}

Json MapToJson(const Message& message, const FieldDescriptor* field) {
  const Reflection& r = *message.GetReflection();
  const FieldDescriptor* key = field->message_type()->map_key();
  const FieldDescriptor* value = field->message_type()->map_value();
  std::map<std::string, Json> sorted;
  for (int i = 0; i < r.FieldSize(message, field); ++i) {
    const Message& entry = r.GetRepeatedMessage(message, field, i);
    sorted[entry.GetReflection()->GetString(entry, key)] = ValueToJson(entry, value, -1);
  }
  Json out = Json::object();
  for (auto& [name, element] : sorted) out[name] = std::move(element);
  return out;
}

Json MessageToJson(const Message& message) {
  if (message.GetDescriptor()->full_name() == "google.protobuf.Duration") {
    google::protobuf::Duration duration;
    duration.CopyFrom(message);
    return DurationText(duration);
  }
  const Reflection& r = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  r.ListFields(message, &fields);
  Json out = Json::object();
  for (const FieldDescriptor* field : fields) {
    Json& slot = out[field->name()];
    if (field->is_map()) {
      slot = MapToJson(message, field);
    } else if (field->is_repeated()) {
      slot = Json::array();
      for (int i = 0; i < r.FieldSize(message, field); ++i) {
        slot.push_back(ValueToJson(message, field, i));
      }
    } else {
      slot = ValueToJson(message, field, -1);
    }
  }
  return out;
}

std::string Dump(const Json& json) {
  // Invalid UTF-8 cannot stand in a proto string; replacing keeps dump() from throwing all the
  // same.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A string that YAML reads back as this very string without quotes.
bool PlainInYaml(const std::string& text) {
  if (text.empty() || text.size() > 200) return false;
  for (const char c : text) {
    const bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-' || c == '.' || c == '/';
    if (!safe) return false;
  }
  const char first = text.front();
  if (!((first >= 'a' && first <= 'z') || first == '/')) return false;
  // What YAML would read as something other than a string.
  for (const char* other : {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}) {
    if (text == other) return false;
  }
  return true;
}

std::string ScalarToYaml(const Json& json) {
  if (json.is_string() && PlainInYaml(json.get_ref<const std::string&>()))
    return json.get<std::string>();
  return Dump(json);
}

void AppendYaml(const Json& object, int indent, std::string& out) {
  for (const auto& [key, value] : object.items()) {
    absl::StrAppend(&out, std::string(indent, ' '), ScalarToYaml(Json(key)), ":");
    if (value.is_object() && !value.empty()) {
      out += '\n';
      AppendYaml(value, indent + 2, out);
    } else {
      absl::StrAppend(&out, " ", ScalarToYaml(value), "\n");
    }
  }
}

}  // namespace

std::string SpecToJson(const v1::JobSpec& spec) { return Dump(MessageToJson(spec)); }

std::string SpecToYaml(const v1::JobSpec& spec) {
  std::string out;
  AppendYaml(MessageToJson(spec), 0, out);
  return out;
}

}  // namespace muster
