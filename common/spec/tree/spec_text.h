// How a JobSpec is spelled as text: the one place that both directions share. Pure.
//
// Keys are proto field names; enum values are lower case without their prefix (`PRECISION_BF16` is
// `bf16`); durations are whole milliseconds, written so that ParseDuration reads them back.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/duration.pb.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

// "bf16" for PRECISION_BF16; empty for the unspecified value (number 0).
std::string EnumValueText(const google::protobuf::EnumValueDescriptor& value);
// Every value that may be written, in order of their numbers.
std::vector<std::string> EnumValueTexts(const google::protobuf::EnumDescriptor& type);
// nullptr when `text` names none.
const google::protobuf::EnumValueDescriptor* FindEnumValue(
    const google::protobuf::EnumDescriptor& type, absl::string_view text);

// "1h30m", "250ms", "0s".
std::string DurationText(const google::protobuf::Duration& duration);
absl::Duration FromProto(const google::protobuf::Duration& duration);
// Rounded to whole milliseconds.
google::protobuf::Duration ToProto(absl::Duration duration);

}  // namespace muster
