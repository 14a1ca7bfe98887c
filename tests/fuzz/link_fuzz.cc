// Lines of the socket between agent and rank, and the launch file, of any bytes: they decode or are
// refused, and what decodes encodes to a line that decodes to the same.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <string>

#include "worker/link/launch.h"
#include "worker/link/line_buffer.h"
#include "worker/link/link_messages.h"

namespace {

[[noreturn]] void Broken(const std::string& line) {
  ::fprintf(stderr, "BROKEN: not the same after another round: %s\n", line.c_str());
  ::abort();
}

template <typename Decode>
void Round(const std::string& text, Decode decode) {
  const auto line = decode(text);
  if (!line.ok()) return;
  std::string once = muster::worker::Encode(*line);
  if (once.empty() || once.back() != '\n') Broken(once);
  once.pop_back();
  const auto again = decode(once);
  if (!again.ok() || muster::worker::Encode(*again) != once + "\n") Broken(once);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  // The first byte says in how large pieces the bytes arrive.
  const size_t piece = 1 + data[0];
  muster::worker::LineBuffer lines;
  for (size_t at = 1; at < size; at += piece) {
    const size_t count = piece < size - at ? piece : size - at;
    if (!lines.Append({reinterpret_cast<const char*>(data) + at, count}).ok()) break;
    while (const auto text = lines.Next()) {
      const std::string line(text->data(), text->size());
      Round(line, [](const std::string& t) { return muster::worker::DecodeRankLine(t); });
      Round(line, [](const std::string& t) { return muster::worker::DecodeAgentLine(t); });
      const auto launch = muster::worker::DecodeLaunch(line);
      if (launch.ok()) {
        const std::string once = muster::worker::EncodeLaunch(*launch);
        const auto again = muster::worker::DecodeLaunch(once);
        if (!again.ok() || muster::worker::EncodeLaunch(*again) != once) Broken(once);
      }
    }
  }
  return 0;
}
