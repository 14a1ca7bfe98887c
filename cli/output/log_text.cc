#include "cli/output/log_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/output/text.h"

namespace muster::cli {
namespace {

// A rank that writes no newline must not fill our memory: what is longer is printed in pieces.
constexpr size_t kMaxPartial = 1 << 20;

}  // namespace

v1::StreamLogsResponse LogText::Fresh(v1::StreamLogsResponse chunk) {
  Stream& stream = streams_[{chunk.attempt(), chunk.rank(), chunk.is_stderr()}];
  if (stream.seen && chunk.offset() < stream.next_offset) {
    const uint64_t known =
        std::min<uint64_t>(stream.next_offset - chunk.offset(), chunk.text().size());
    chunk.set_offset(chunk.offset() + known);
    chunk.mutable_text()->erase(0, known);
    chunk.clear_lost_bytes();  // told when what is behind them came for the first time
  }
  if (!chunk.text().empty()) {
    stream.seen = true;
    stream.next_offset = chunk.offset() + chunk.text().size();
  }
  return chunk;
}

std::string LogText::Lines(const v1::StreamLogsResponse& fresh) {
  const Key key = {fresh.attempt(), fresh.rank(), fresh.is_stderr()};
  Stream& stream = streams_[key];
  std::string& partial = stream.partial;
  std::string text;
  if (fresh.lost_bytes() > 0) {
    // They may have ended the line that is begun.
    if (!partial.empty()) text += Written(key, stream.written_ms, std::exchange(partial, ""));
    text += Line(key, fresh.written_ms(),
                 absl::StrCat("[", fresh.lost_bytes(), " bytes of output are lost here]"));
  }
  stream.written_ms = fresh.written_ms();
  partial += fresh.text();
  size_t start = 0;
  for (size_t end = partial.find('\n'); end != std::string::npos; end = partial.find('\n', start)) {
    text += Written(key, stream.written_ms, absl::string_view(partial).substr(start, end - start));
    start = end + 1;
  }
  partial.erase(0, start);
  if (partial.size() > kMaxPartial) {
    text += Written(key, stream.written_ms, std::exchange(partial, ""));
  }
  return text;
}

std::string LogText::Rest() {
  std::string text;
  for (auto& [key, stream] : streams_) {
    if (stream.partial.empty()) continue;
    text += Written(key, stream.written_ms, std::exchange(stream.partial, ""));
  }
  return text;
}

std::string LogText::Written(const Key& key, int64_t written_ms, absl::string_view line) const {
  return options_.wanted == nullptr || options_.wanted(line) ? Line(key, written_ms, line) : "";
}

std::string LogText::Line(const Key& key, int64_t written_ms, absl::string_view line) const {
  return absl::StrCat(
      options_.times ? absl::StrCat(TimeText(written_ms), " ") : "",
      options_.origin ? absl::StrCat("a", std::get<0>(key), ".r", std::get<1>(key), " | ") : "",
      options_.tame ? ForTerminal(line) : std::string(line), "\n");
}

}  // namespace muster::cli
