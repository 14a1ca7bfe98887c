#include "common/base/utf8.h"

namespace muster {
namespace {

unsigned char At(absl::string_view text, size_t i) { return static_cast<unsigned char>(text[i]); }

// How many bytes the character at the front takes; 0: there is none. As Unicode has it: the
// shortest form alone, no surrogates, nothing beyond U+10FFFF.
size_t CharacterBytes(absl::string_view text) {
  const unsigned char lead = At(text, 0);
  if (lead < 0x80) return 1;
  const size_t size = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (size == 0 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((At(text, i) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = At(text, 1);
  const bool too_long = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool none = (lead == 0xED && second > 0x9F) || (lead == 0xF4 && second > 0x8F);
  return too_long || none ? 0 : size;
}

}  // namespace

std::string CutUtf8(absl::string_view text, size_t most) {
  size_t end = text.size();
  if (end > most) {
    end = most;
    // Bytes 10xxxxxx continue a character, of three more at most; back to the start of the one that
    // is cut.
    while (end > 0 && most - end < 4 && (At(text, end) & 0xC0) == 0x80) --end;
  }
  return RepairUtf8(text.substr(0, end));
}

std::string RepairUtf8(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t size = CharacterBytes(text);
    if (size == 0) {
      out += '?';
      text.remove_prefix(1);
    } else {
      out.append(text.data(), size);
      text.remove_prefix(size);
    }
  }
  return out;
}

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const size_t size = CharacterBytes(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

}  // namespace muster
