#include "cli/output/proto_json.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"

namespace muster::cli {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

Json EnumJson(const EnumValueDescriptor& value) {
  if (value.number() == 0 && absl::EndsWith(value.name(), "UNSPECIFIED")) return nullptr;
  return value.name();
}

Json SingleJson(const Message& message, const FieldDescriptor& field) {
  const auto& access = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return access.GetInt32(message, &field);
    case FieldDescriptor::CPPTYPE_INT64:
      return access.GetInt64(message, &field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return access.GetUInt32(message, &field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return access.GetUInt64(message, &field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return access.GetDouble(message, &field);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return access.GetFloat(message, &field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return access.GetBool(message, &field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumJson(*access.GetEnum(message, &field));
    case FieldDescriptor::CPPTYPE_STRING:
      return access.GetString(message, &field);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(access.GetMessage(message, &field));
  }
  return nullptr;
}

Json RepeatedJson(const Message& message, const FieldDescriptor& field, int i) {
  const auto& access = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return access.GetRepeatedInt32(message, &field, i);
    case FieldDescriptor::CPPTYPE_INT64:
      return access.GetRepeatedInt64(message, &field, i);
    case FieldDescriptor::CPPTYPE_UINT32:
      return access.GetRepeatedUInt32(message, &field, i);
    case FieldDescriptor::CPPTYPE_UINT64:
      return access.GetRepeatedUInt64(message, &field, i);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return access.GetRepeatedDouble(message, &field, i);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return access.GetRepeatedFloat(message, &field, i);
    case FieldDescriptor::CPPTYPE_BOOL:
      return access.GetRepeatedBool(message, &field, i);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumJson(*access.GetRepeatedEnum(message, &field, i));
    case FieldDescriptor::CPPTYPE_STRING:
      return access.GetRepeatedString(message, &field, i);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(access.GetRepeatedMessage(message, &field, i));
  }
  return nullptr;
}

// A map in the order of its keys: protobuf's own order changes from run to run.
Json MapJson(const Message& message, const FieldDescriptor& field) {
  const auto& access = *message.GetReflection();
  std::vector<std::pair<std::string, Json>> entries;
  for (int i = 0; i < access.FieldSize(message, &field); ++i) {
    const Message& entry = access.GetRepeatedMessage(message, &field, i);
    const Json key = SingleJson(entry, *entry.GetDescriptor()->map_key());
    entries.emplace_back(key.is_string() ? key.get<std::string>() : key.dump(),
                         SingleJson(entry, *entry.GetDescriptor()->map_value()));
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  Json map = Json::object();
  for (auto& [key, value] : entries) map[key] = std::move(value);
  return map;
}

}  // namespace

Json ToJson(const Message& message) {
  const auto& type = *message.GetDescriptor();
  const auto& access = *message.GetReflection();
  Json json = Json::object();
  for (int f = 0; f < type.field_count(); ++f) {
    const FieldDescriptor& field = *type.field(f);
    Json& value = json[field.name()];
    if (field.is_map()) {
      value = MapJson(message, field);
    } else if (field.is_repeated()) {
      value = Json::array();
      for (int i = 0; i < access.FieldSize(message, &field); ++i) {
        value.push_back(RepeatedJson(message, field, i));
      }
    } else if (!field.has_presence() || access.HasField(message, &field)) {
      value = SingleJson(message, field);
    }
  }
  return json;
}

}  // namespace muster::cli
