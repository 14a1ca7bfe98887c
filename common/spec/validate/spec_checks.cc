#include "common/spec/validate/spec_checks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/protocol/name_rule.h"
#include "common/spec/tree/spec_text.h"

namespace muster {
namespace {

constexpr size_t kMostPairs = 32;

bool IsLabelKey(absl::string_view text) {
  if (text.empty() || text.size() > kMostNameBytes || !absl::ascii_isalnum(text.front()))
    return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '_' && c != '.' && c != '/') return false;
  }
  return true;
}

}  // namespace

// [a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?
std::string MembersOf(const google::protobuf::Descriptor& message, const char* oneof) {
  const google::protobuf::OneofDescriptor* members = message.FindOneofByName(oneof);
  MUSTER_CHECK(members != nullptr, "the message has this oneof");
  std::string text;
  for (int i = 0; i < members->field_count(); ++i)
    absl::StrAppend(&text, i == 0 ? "" : ", ", members->field(i)->name());
  return text;
}

bool SpecChecks::HasControlBytes(absl::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

void SpecChecks::Fault(absl::string_view path, std::string message) {
  faults_.push_back({std::string(path.data(), path.size()), 0, std::move(message)});
}

void SpecChecks::Whole(absl::string_view path, uint64_t value, uint64_t least, uint64_t most) {
  if (value >= least && value <= most) return;
  Fault(path, absl::StrCat("must be from ", least, " to ", most, "; got ", value));
}

void SpecChecks::Range(absl::string_view path, double value, double least, double most) {
  if (value >= least && value <= most) return;
  Fault(path, absl::StrCat("must be from ", least, " to ", most, "; got ", value));
}

void SpecChecks::Below(absl::string_view path, double value, double least, double below) {
  if (value >= least && value < below) return;
  Fault(path, absl::StrCat("must be from ", least, " to below ", below, "; got ", value));
}

void SpecChecks::Above(absl::string_view path, double value, double above, double most) {
  if (value > above && value <= most) return;
  Fault(path, absl::StrCat("must be above ", above, " and at most ", most, "; got ", value));
}

void SpecChecks::Time(absl::string_view path, const google::protobuf::Duration& value,
                      absl::Duration least, absl::Duration most) {
  const absl::Duration given = FromProto(value);
  if (given >= least && given <= most) return;
  Fault(path, absl::StrCat("must be from ", DurationText(ToProto(least)), " to ",
                           DurationText(ToProto(most)), "; got ", DurationText(value)));
}

void SpecChecks::Name(absl::string_view path, const std::string& value) {
  if (IsName(value)) return;
  Fault(path, absl::StrCat("must be 1 to ", kMostNameBytes,
                           " of a-z, 0-9 and '-', with no '-' at either end; got '",
                           ShownValue(value), "'"));
}

void SpecChecks::Status(absl::string_view path, const absl::Status& status) {
  if (!status.ok()) Fault(path, std::string(status.message()));
}

void SpecChecks::Count(absl::string_view path, int given, int most) {
  if (given > most) Fault(path, absl::StrCat("must have at most ", most, " entries; got ", given));
}

void SpecChecks::Text(absl::string_view path, const std::string& value) {
  if (value.empty()) Fault(path, "must not be empty");
  if (HasControlBytes(value)) Fault(path, "must not hold control characters");
  if (value.size() > kMostValueBytes) {
    Fault(path, absl::StrCat("must have at most ", kMostValueBytes, " bytes; got ", value.size()));
  }
}

void SpecChecks::Pairs(absl::string_view path, const Strings& pairs) {
  if (pairs.size() > kMostPairs) {
    Fault(path, absl::StrCat("must have at most ", kMostPairs, " entries; got ", pairs.size()));
  }
  for (const auto& [key, value] : pairs) {
    const std::string at = absl::StrCat(path, ".", ShownValue(key));
    if (!IsLabelKey(key)) {
      Fault(at, absl::StrCat("the name must be 1 to ", kMostNameBytes,
                             " letters, digits, '-', '_', "
                             "'.' and '/', and start with a letter or digit"));
    }
    if (HasControlBytes(value)) Fault(at, "must not hold control characters");
    if (value.size() > kMostValueBytes) {
      Fault(at, absl::StrCat("must have at most ", kMostValueBytes, " bytes; got ", value.size()));
    }
  }
}

void SpecChecks::Path(absl::string_view path, const std::string& value) {
  if (value.size() > kMostPathBytes) {
    Fault(path, absl::StrCat("must have at most ", kMostPathBytes, " bytes; got ", value.size()));
  } else if (HasControlBytes(value)) {
    Fault(path, "must not hold control characters");
  } else if (!absl::StartsWith(value, "/")) {
    Fault(path, absl::StrCat("must be an absolute path, as workers see it; got '",
                             ShownValue(value), "'"));
  }
}

void SpecChecks::Given(absl::string_view path, absl::string_view what, bool given,
                       const std::string& value) {
  if (given) {
    Path(path, value);
  } else {
    Fault(path, absl::StrCat("is required: ", what));
  }
}

}  // namespace muster
