#include "worker/data/base/npy.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kMostAxes = 32;  // as NumPy itself had for long

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("is no NumPy file that can be read: ", what));
}

// The text behind `'key':` in the header's dictionary, which NumPy always writes in the same form.
absl::StatusOr<absl::string_view> ValueOf(absl::string_view dictionary, absl::string_view key) {
  const std::string name = absl::StrCat("'", key, "':");
  const size_t at = dictionary.find(name);
  if (at == absl::string_view::npos) return Bad(absl::StrCat("its header has no ", key));
  return absl::StripLeadingAsciiWhitespace(dictionary.substr(at + name.size()));
}

absl::StatusOr<std::string> ParseType(absl::string_view value) {
  const size_t end = value.empty() ? absl::string_view::npos : value.find('\'', 1);
  if (!absl::StartsWith(value, "'") || end == absl::string_view::npos) {
    return Bad("its descr is no single type");
  }
  const absl::string_view type = value.substr(1, end - 1);
  if (type.empty()) return Bad("its descr is empty");
  if (absl::StartsWith(type, ">")) return Bad(absl::StrCat("type ", type, " is big-endian"));
  return std::string(type);
}

absl::StatusOr<std::vector<int64_t>> ParseShape(absl::string_view value) {
  const size_t end = value.find(')');
  if (!absl::StartsWith(value, "(") || end == absl::string_view::npos) {
    return Bad("its shape is no tuple");
  }
  std::vector<int64_t> shape;
  for (absl::string_view text : absl::StrSplit(value.substr(1, end - 1), ',')) {
    text = absl::StripAsciiWhitespace(text);
    if (text.empty()) continue;
    int64_t extent = 0;
    if (!absl::SimpleAtoi(text, &extent) || extent < 0 || shape.size() == kMostAxes) {
      return Bad("its shape is no list of sizes");
    }
    shape.push_back(extent);
  }
  return shape;
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view start) {
  if (!absl::StartsWith(start, kMagic) || start.size() < 12) return Bad("it does not begin as one");
  const auto byte = [&](size_t at) {
    return static_cast<uint64_t>(static_cast<uint8_t>(start[at]));
  };
  const uint64_t version = byte(6);
  if (version < 1 || version > 3) return Bad(absl::StrCat("version ", version));
  // Version 1 has a length of two bytes, the later ones of four.
  const size_t text_at = version == 1 ? 10 : 12;
  uint64_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > start.size() - text_at) return Bad("its header is cut off or too long");
  const absl::string_view dictionary = start.substr(text_at, length);

  NpyHeader header;
  header.data_offset_bytes = text_at + length;
  MUSTER_ASSIGN_OR_RETURN(const absl::string_view type, ValueOf(dictionary, "descr"));
  MUSTER_ASSIGN_OR_RETURN(header.type, ParseType(type));
  MUSTER_ASSIGN_OR_RETURN(const absl::string_view order, ValueOf(dictionary, "fortran_order"));
  header.fortran_order = absl::StartsWith(order, "True");
  MUSTER_ASSIGN_OR_RETURN(const absl::string_view shape, ValueOf(dictionary, "shape"));
  MUSTER_ASSIGN_OR_RETURN(header.shape, ParseShape(shape));
  return header;
}

}  // namespace muster::worker
