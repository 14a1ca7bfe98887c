#include "common/spec/tree/spec_tree.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/spec/tree/json_reader.h"
#include "common/spec/tree/yaml_reader.h"

namespace muster {
namespace {

// How many bytes the UTF-8 character at the front has; 0: none that may stand in a text.
size_t CharacterBytes(absl::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned first = byte(0);
  if (first < 0x80)
    return (first >= ' ' || first == '\n' || first == '\r' || first == '\t') ? 1 : 0;
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  uint32_t code = first & (0xFFu >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3F);
  }
  const bool overlong = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return overlong || surrogate || code > 0x10FFFF ? 0 : size;
}

}  // namespace

const SpecNode::Entry* SpecNode::Find(absl::string_view key) const {
  for (const Entry& entry : entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

SpecNode::Entry* SpecNode::Find(absl::string_view key) {
  return const_cast<Entry*>(static_cast<const SpecNode*>(this)->Find(key));
}

SpecNode ParseSpecTree(absl::string_view text, std::vector<SpecFault>& faults) {
  if (text.size() > kMaxSpecBytes) {
    faults.push_back(
        {"", 0,
         absl::StrCat("is ", text.size(), " bytes long; at most ", kMaxSpecBytes, " are read")});
    return {};
  }
  int line = 1;
  for (absl::string_view rest = text; !rest.empty();) {
    const size_t bytes = CharacterBytes(rest);
    if (bytes == 0) {
      faults.push_back({"", line, "holds a byte that is not text in UTF-8"});
      return {};
    }
    if (rest[0] == '\n') ++line;
    rest.remove_prefix(bytes);
  }
  if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "{")) {
    // YAML's flow style starts the same way, so a document that is no JSON may still be YAML.
    if (IsJson(text)) return ReadJsonTree(text, faults);
  }
  return ReadYamlTree(text, faults);
}

}  // namespace muster
