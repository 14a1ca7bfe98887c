#include "common/os/tar_header.h"

#include <cstring>

#include "absl/strings/str_format.h"

namespace muster {
namespace {

constexpr size_t kChecksumAt = 148;

void PutField(std::string& header, size_t at, absl::string_view text) {
  std::memcpy(header.data() + at, text.data(), text.size());
}

}  // namespace

std::string UstarHeader(const TarMember& member) {
  std::string header(kTarBlockBytes, '\0');
  PutField(header, 0, member.name.substr(0, kTarNameBytes));
  PutField(header, 100, absl::StrFormat("%07o", member.mode));
  PutField(header, 108, "0000000");
  PutField(header, 116, "0000000");
  PutField(header, 124, absl::StrFormat("%011o", member.size));
  PutField(header, 136, absl::StrFormat("%011o", member.time_s));
  // The sum is taken over a header whose own field is blank.
  PutField(header, kChecksumAt, "        ");
  header[156] = member.type;
  PutField(header, 257, absl::string_view("ustar\00000", 8));
  uint32_t sum = 0;
  for (const char c : header) sum += static_cast<uint8_t>(c);
  PutField(header, kChecksumAt, absl::StrFormat("%06o", sum));
  header[kChecksumAt + 6] = '\0';
  return header;
}

size_t TarPadding(uint64_t size) {
  return (kTarBlockBytes - size % kTarBlockBytes) % kTarBlockBytes;
}

}  // namespace muster
