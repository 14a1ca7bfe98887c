#include "worker/data/text/shard_header.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace muster::worker {
namespace {

struct ShardKind {
  uint32_t magic;
  uint32_t version;
  TokenType type;
};
constexpr ShardKind kShardKinds[] = {{20240520, 1, TokenType::kUint16},   // tokens of GPT-2
                                     {20240801, 7, TokenType::kUint32}};  // of Llama 3

uint32_t WordAt(absl::string_view bytes, size_t index) {
  uint32_t word = 0;
  std::memcpy(&word, bytes.data() + 4 * index, sizeof(word));
  return word;
}

}  // namespace

absl::StatusOr<std::optional<TokenSpan>> ParseShardHeader(absl::string_view start,
                                                          uint64_t file_bytes) {
  if (start.size() < kShardHeaderBytes) return std::optional<TokenSpan>();
  for (const ShardKind& kind : kShardKinds) {
    if (WordAt(start, 0) != kind.magic) continue;
    const uint32_t version = WordAt(start, 1);
    if (version != kind.version) {
      return absl::InvalidArgumentError(absl::StrCat("is a shard of version ", version, ", want ",
                                                     kind.version, ": write it anew"));
    }
    const uint64_t count = WordAt(start, 2);
    const uint64_t size = count * static_cast<uint64_t>(BytesOf(kind.type));
    if (size != file_bytes - kShardHeaderBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("should have ", count, " tokens, but holds ",
                       (file_bytes - kShardHeaderBytes) / static_cast<uint64_t>(BytesOf(kind.type)),
                       ": it is cut off or was written on"));
    }
    return std::optional<TokenSpan>({kind.type, kShardHeaderBytes, size});
  }
  return std::optional<TokenSpan>();
}

}  // namespace muster::worker
