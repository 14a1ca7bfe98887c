#include "common/spec/tree/spec_text.h"

#include <cctype>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace muster {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;

// "PRECISION_" for Precision; a nested Optimizer.Name has "NAME_".
std::string Prefix(const EnumDescriptor& type) {
  std::string prefix;
  for (const char c : type.name()) {
    if (std::isupper(static_cast<unsigned char>(c)) && !prefix.empty()) prefix += '_';
    prefix += absl::ascii_toupper(static_cast<unsigned char>(c));
  }
  return prefix + '_';
}

}  // namespace

std::string EnumValueText(const EnumValueDescriptor& value) {
  if (value.number() == 0) return "";
  const std::string prefix = Prefix(*value.type());
  const std::string& name = value.name();
  return absl::AsciiStrToLower(absl::StartsWith(name, prefix) ? name.substr(prefix.size()) : name);
}

std::vector<std::string> EnumValueTexts(const EnumDescriptor& type) {
  std::vector<std::string> texts;
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0) texts.push_back(EnumValueText(*type.value(i)));
  }
  return texts;
}

const EnumValueDescriptor* FindEnumValue(const EnumDescriptor& type, absl::string_view text) {
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0 && EnumValueText(*type.value(i)) == text) return type.value(i);
  }
  return nullptr;
}

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

google::protobuf::Duration ToProto(absl::Duration duration) {
  const int64_t ms = absl::ToInt64Milliseconds(duration + absl::Microseconds(500));
  google::protobuf::Duration proto;
  proto.set_seconds(ms / 1000);
  proto.set_nanos(static_cast<int32_t>(ms % 1000) * 1'000'000);
  return proto;
}

std::string DurationText(const google::protobuf::Duration& duration) {
  const absl::Duration ms = absl::Trunc(FromProto(duration), absl::Milliseconds(1));
  return ms == absl::ZeroDuration() ? "0s" : absl::FormatDuration(ms);
}

}  // namespace muster
