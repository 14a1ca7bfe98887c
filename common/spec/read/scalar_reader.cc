#include "common/spec/read/scalar_reader.h"

#include <google/protobuf/duration.pb.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/units.h"
#include "common/spec/tree/spec_text.h"

namespace muster {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr absl::Duration kLongestDuration = absl::Hours(24 * 365 * 100);

bool IsOneOf(absl::string_view text, std::initializer_list<absl::string_view> words) {
  for (const absl::string_view word : words) {
    if (text == word) return true;
  }
  return false;
}

bool IsTrue(absl::string_view text) { return IsOneOf(text, {"true", "True", "TRUE"}); }
bool IsFalse(absl::string_view text) { return IsOneOf(text, {"false", "False", "FALSE"}); }

size_t SkipDigits(absl::string_view text, size_t at) {
  while (at < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[at]))) ++at;
  return at;
}

enum class NumberKind { kNone, kWhole, kReal };

// YAML 1.2 (JSON with a sign and bare dots): no hexadecimal, no underscores, no infinity.
NumberKind Classify(absl::string_view text) {
  size_t at = (!text.empty() && (text[0] == '-' || text[0] == '+')) ? 1 : 0;
  const size_t whole = SkipDigits(text, at) - at;
  at += whole;
  if (at == text.size()) return whole > 0 ? NumberKind::kWhole : NumberKind::kNone;
  size_t fraction = 0;
  if (text[at] == '.') {
    fraction = SkipDigits(text, at + 1) - (at + 1);
    at += 1 + fraction;
  }
  if (whole + fraction == 0) return NumberKind::kNone;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    const size_t end = SkipDigits(text, at);
    if (end == at) return NumberKind::kNone;
    at = end;
  }
  return at == text.size() ? NumberKind::kReal : NumberKind::kNone;
}

// "; got the string \"12\"" or "; got 12".
std::string Got(const SpecNode& node) {
  return node.quoted ? absl::StrCat("; got the string \"", ShownValue(node.text), "\"")
                     : absl::StrCat("; got ", ShownValue(node.text));
}

template <typename T>
std::string ReadWhole(const SpecNode& node, T& out) {
  if (!node.quoted && Classify(node.text) == NumberKind::kWhole) {
    absl::string_view text = node.text;
    if (text[0] == '+') text.remove_prefix(1);
    if (absl::SimpleAtoi(text, &out)) return "";
  }
  return absl::StrCat("must be a whole number from ", std::numeric_limits<T>::min(), " to ",
                      std::numeric_limits<T>::max(), Got(node));
}

std::string ReadReal(const SpecNode& node, double& out) {
  if (!node.quoted && Classify(node.text) != NumberKind::kNone) {
    absl::string_view text = node.text;
    if (text[0] == '+') text.remove_prefix(1);
    if (absl::SimpleAtod(text, &out) && std::isfinite(out)) return "";
  }
  return absl::StrCat("must be a finite number", Got(node));
}

std::string ReadBool(const SpecNode& node, bool& out) {
  if (node.quoted || (!IsTrue(node.text) && !IsFalse(node.text))) {
    return absl::StrCat("must be true or false", Got(node));
  }
  out = IsTrue(node.text);
  return "";
}

std::string ReadDuration(const SpecNode& node, google::protobuf::Duration& out) {
  const auto parsed = ParseDuration(node.text);
  if (!parsed.ok()) {
    return absl::StrCat("must be a duration such as 90s, 5m, 1h30m or 2d", Got(node));
  }
  if (*parsed > kLongestDuration) return absl::StrCat("must be at most 100 years", Got(node));
  out = ToProto(*parsed);
  if (absl::AbsDuration(FromProto(out) - *parsed) > absl::Microseconds(1)) {
    return absl::StrCat("must be in whole milliseconds", Got(node));
  }
  return "";
}

std::string ReadEnum(const SpecNode& node, const FieldDescriptor* field, Message& message) {
  const google::protobuf::EnumDescriptor& type = *field->enum_type();
  const auto* value = FindEnumValue(type, node.text);
  if (value == nullptr) {
    const std::vector<std::string> names = EnumValueTexts(type);
    const std::string near = NearestName(node.text, names);
    return absl::StrCat("must be one of ", absl::StrJoin(names, ", "), Got(node),
                        near.empty() ? "" : absl::StrCat("; did you mean `", near, "`?"));
  }
  const Reflection& r = *message.GetReflection();
  field->is_repeated() ? r.AddEnum(&message, field, value) : r.SetEnum(&message, field, value);
  return "";
}

std::string StoreDuration(const SpecNode& node, const FieldDescriptor* field, Message& message) {
  google::protobuf::Duration value;
  std::string wrong = ReadDuration(node, value);
  if (!wrong.empty()) return wrong;
  const Reflection& r = *message.GetReflection();
  (field->is_repeated() ? r.AddMessage(&message, field) : r.MutableMessage(&message, field))
      ->CopyFrom(value);
  return wrong;
}

// Reads with `read` and stores with one of the two setters.
template <typename T, typename Read>
std::string Store(Message& message, const FieldDescriptor* field, Read read,
                  void (Reflection::*set)(Message*, const FieldDescriptor*, T) const,
                  void (Reflection::*add)(Message*, const FieldDescriptor*, T) const) {
  T value{};
  std::string wrong = read(value);
  if (wrong.empty())
    (message.GetReflection()->*(field->is_repeated() ? add : set))(&message, field, value);
  return wrong;
}

}  // namespace

std::string ReadString(const SpecNode& node, std::string& out) {
  if (node.kind != SpecNode::Kind::kScalar) return "must be a string";
  if (!node.quoted &&
      (Classify(node.text) != NumberKind::kNone || IsTrue(node.text) || IsFalse(node.text))) {
    return absl::StrCat("must be a string: put it in quotes", Got(node));
  }
  out = node.text;
  return "";
}

std::string SetScalar(const SpecNode& node, const FieldDescriptor* field, Message& message) {
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return Store<bool>(
          message, field, [&](bool& v) { return ReadBool(node, v); }, &Reflection::SetBool,
          &Reflection::AddBool);
    case FieldDescriptor::CPPTYPE_INT32:
      return Store<int32_t>(
          message, field, [&](int32_t& v) { return ReadWhole(node, v); }, &Reflection::SetInt32,
          &Reflection::AddInt32);
    case FieldDescriptor::CPPTYPE_UINT32:
      return Store<uint32_t>(
          message, field, [&](uint32_t& v) { return ReadWhole(node, v); }, &Reflection::SetUInt32,
          &Reflection::AddUInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return Store<int64_t>(
          message, field, [&](int64_t& v) { return ReadWhole(node, v); }, &Reflection::SetInt64,
          &Reflection::AddInt64);
    case FieldDescriptor::CPPTYPE_UINT64:
      return Store<uint64_t>(
          message, field, [&](uint64_t& v) { return ReadWhole(node, v); }, &Reflection::SetUInt64,
          &Reflection::AddUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Store<double>(
          message, field, [&](double& v) { return ReadReal(node, v); }, &Reflection::SetDouble,
          &Reflection::AddDouble);
    case FieldDescriptor::CPPTYPE_STRING:
      return Store<std::string>(
          message, field, [&](std::string& v) { return ReadString(node, v); },
          &Reflection::SetString, &Reflection::AddString);
    case FieldDescriptor::CPPTYPE_ENUM:
      return ReadEnum(node, field, message);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return StoreDuration(node, field, message);
    case FieldDescriptor::CPPTYPE_FLOAT:
      break;  // the spec writes double
  }
  MUSTER_CHECK(false, "a field has a type that the spec cannot have");
}

}  // namespace muster
