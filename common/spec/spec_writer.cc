#include "common/spec/spec_writer.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/spec/tree/spec_text.h"

namespace muster {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Json = nlohmann::ordered_json;

std::string Dump(const Json& json) {
  // Invalid UTF-8 cannot stand in a proto string; replacing keeps dump() from throwing all the
  // same.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Writes JSON text straight from the message: every submit is written once, and a tree of values in
// between costs more than all the rest.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  void Put(const Message& message) {
    if (message.GetDescriptor()->full_name() == "google.protobuf.Duration") {
      google::protobuf::Duration duration;
      duration.CopyFrom(message);
      PutText(DurationText(duration));
      return;
    }
    const Reflection& r = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    r.ListFields(message, &fields);
    char before = '{';
    for (const FieldDescriptor* field : fields) {
      out_ += std::exchange(before, ',');
      absl::StrAppend(&out_, "\"", field->name(), "\":");
      if (field->is_map()) {
        PutMap(message, field);
      } else if (field->is_repeated()) {
        PutList(message, field);
      } else {
        PutValue(message, field, -1);
      }
    }
    out_ += before == '{' ? "{}" : "}";
  }

 private:
  // The value of a singular field, or of one element of a repeated one (index >= 0).
  void PutValue(const Message& message, const FieldDescriptor* field, int index) {
    const Reflection& r = *message.GetReflection();
    const bool one = index < 0;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL:
        out_ += (one ? r.GetBool(message, field) : r.GetRepeatedBool(message, field, index))
                    ? "true"
                    : "false";
        return;
      case FieldDescriptor::CPPTYPE_INT32:
        absl::StrAppend(
            &out_, one ? r.GetInt32(message, field) : r.GetRepeatedInt32(message, field, index));
        return;
      case FieldDescriptor::CPPTYPE_UINT32:
        absl::StrAppend(
            &out_, one ? r.GetUInt32(message, field) : r.GetRepeatedUInt32(message, field, index));
        return;
      case FieldDescriptor::CPPTYPE_INT64:
        absl::StrAppend(
            &out_, one ? r.GetInt64(message, field) : r.GetRepeatedInt64(message, field, index));
        return;
      case FieldDescriptor::CPPTYPE_UINT64:
        absl::StrAppend(
            &out_, one ? r.GetUInt64(message, field) : r.GetRepeatedUInt64(message, field, index));
        return;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        PutNumber(one ? r.GetDouble(message, field) : r.GetRepeatedDouble(message, field, index));
        return;
      case FieldDescriptor::CPPTYPE_FLOAT:
        PutNumber(one ? r.GetFloat(message, field) : r.GetRepeatedFloat(message, field, index));
        return;
      case FieldDescriptor::CPPTYPE_STRING: {
        std::string scratch;
        PutText(one ? r.GetStringReference(message, field, &scratch)
                    : r.GetRepeatedStringReference(message, field, index, &scratch));
        return;
      }
      case FieldDescriptor::CPPTYPE_ENUM:
        PutText(EnumValueText(
            *(one ? r.GetEnum(message, field) : r.GetRepeatedEnum(message, field, index))));
        return;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        Put(one ? r.GetMessage(message, field) : r.GetRepeatedMessage(message, field, index));
        return;
    }
    MUSTER_CHECK(false, "a field has a type that the spec cannot have");
  }

  void PutList(const Message& message, const FieldDescriptor* field) {
    out_ += '[';
    for (int i = 0; i < message.GetReflection()->FieldSize(message, field); ++i) {
      if (i > 0) out_ += ',';
      PutValue(message, field, i);
    }
    out_ += ']';
  }

  // In the order of its keys.
  void PutMap(const Message& message, const FieldDescriptor* field) {
    const Reflection& r = *message.GetReflection();
    const FieldDescriptor* key = field->message_type()->map_key();
    const FieldDescriptor* value = field->message_type()->map_value();
    std::map<std::string, const Message*> sorted;
    for (int i = 0; i < r.FieldSize(message, field); ++i) {
      const Message& entry = r.GetRepeatedMessage(message, field, i);
      sorted[entry.GetReflection()->GetString(entry, key)] = &entry;
    }
    char before = '{';
    for (const auto& [name, entry] : sorted) {
      out_ += std::exchange(before, ',');
      PutText(name);
      out_ += ':';
      PutValue(*entry, value, -1);
    }
    out_ += before == '{' ? "{}" : "}";
  }

  // The shortest text that reads back as the same number.
  template <typename Real>
  void PutNumber(Real value) {
    if (!std::isfinite(value)) {
      out_ += "null";
      return;
    }
    std::array<char, 32> buffer;
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    const absl::string_view text(buffer.data(), end - buffer.data());
    absl::StrAppend(&out_, text, text.find_first_of(".e") == text.npos ? ".0" : "");
  }

  void PutText(const std::string& text) {
    const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
      return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
    });
    if (plain) {
      absl::StrAppend(&out_, "\"", text, "\"");
    } else {
      out_ += Dump(text);
    }
  }

  std::string& out_;
};

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

std::string SpecToJson(const v1::JobSpec& spec) {
  std::string out;
  out.reserve(2048);
  Writer(out).Put(spec);
  out.shrink_to_fit();  // it is kept as long as the job
  return out;
}

std::string SpecToYaml(const v1::JobSpec& spec) {
  std::string out;
  AppendYaml(Json::parse(SpecToJson(spec), nullptr, /*allow_exceptions=*/false), 0, out);
  return out;
}

}  // namespace muster
