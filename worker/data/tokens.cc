#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "worker/data/npy.h"
#include "worker/data/token_rows.h"

namespace muster::worker {
namespace {

constexpr uint64_t kMaxTokenFileBytes = uint64_t{1} << 40;

struct TypeName {
  const char* name;
  TokenType type;
};
constexpr TypeName kTypes[] = {{"|u1", TokenType::kUint8},
                               {"<u2", TokenType::kUint16},
                               {"<u4", TokenType::kUint32},
                               {"<i4", TokenType::kInt32},
                               {"<i8", TokenType::kInt64}};

absl::Status Bad(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, " ", what));
}

absl::StatusOr<TokenSpan> NpySpan(FileSystem& fs, const std::string& path, uint64_t file_bytes) {
  std::string start(std::min(file_bytes, kMaxNpyHeaderBytes), '\0');
  MUSTER_ASSIGN_OR_RETURN(const uint64_t got, fs.ReadAt(path, 0, start.data(), start.size()));
  start.resize(got);
  const auto header = ParseNpyHeader(start);
  if (!header.ok()) return Bad(path, header.status().message());
  if (header->shape.size() != 1) {
    return Bad(path, absl::StrCat("has shape (", absl::StrJoin(header->shape, ", "),
                                  "), want one axis of tokens"));
  }
  for (const TypeName& entry : kTypes) {
    if (header->type != entry.name) continue;
    const uint64_t held =
        (file_bytes - header->data_offset_bytes) / static_cast<uint64_t>(BytesOf(entry.type));
    const uint64_t count = static_cast<uint64_t>(header->shape[0]);
    if (count > held) {
      return Bad(path, absl::StrCat("should have ", count, " tokens, but holds ", held,
                                    ": it is cut off"));
    }
    return TokenSpan{entry.type, header->data_offset_bytes,
                     count * static_cast<uint64_t>(BytesOf(entry.type))};
  }
  return Bad(path,
             absl::StrCat("holds ", header->type, ", want uint8, uint16, uint32, int32 or int64"));
}

absl::StatusOr<TokenSpan> SpanOf(FileSystem& fs, const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const uint64_t file_bytes, fs.FileSize(path));
  if (file_bytes > kMaxTokenFileBytes) {
    return Bad(path, absl::StrCat("has more than ", kMaxTokenFileBytes, " bytes"));
  }
  if (absl::EndsWith(path, ".npy")) return NpySpan(fs, path, file_bytes);
  if (file_bytes % 2 != 0) {
    return Bad(path,
               absl::StrCat("has ", file_bytes, " bytes, which is no whole number of uint16"));
  }
  return TokenSpan{TokenType::kUint16, 0, file_bytes};
}

// The file of one split; empty when there is none.
absl::StatusOr<std::string> FileOf(FileSystem& fs, const std::string& folder, const char* split) {
  const std::string raw = absl::StrCat(folder, "/", split, ".bin");
  const std::string npy = absl::StrCat(folder, "/", split, ".npy");
  MUSTER_ASSIGN_OR_RETURN(const bool has_raw, fs.Exists(raw));
  MUSTER_ASSIGN_OR_RETURN(const bool has_npy, fs.Exists(npy));
  if (has_raw && has_npy) {
    return absl::InvalidArgumentError(
        absl::StrCat("both ", raw, " and ", npy, " are there: keep one of them"));
  }
  return has_raw ? raw : has_npy ? npy : std::string();
}

// Undefined (no tokens) when the split has no file.
absl::StatusOr<RowSplit> ReadSplit(FileSystem& fs, const TokensConfig& config, const char* split,
                                   BlockHasher& hasher) {
  MUSTER_ASSIGN_OR_RETURN(const std::string path, FileOf(fs, config.path, split));
  if (path.empty()) return RowSplit();
  MUSTER_ASSIGN_OR_RETURN(const TokenSpan span, SpanOf(fs, path));
  auto tokens = std::make_shared<TokenStore>(config.vocabulary);
  tokens->Reserve(static_cast<int64_t>(span.size_bytes) / BytesOf(span.type));
  hasher.Update(absl::StrCat(split, ":", span.size_bytes, ":"));
  MUSTER_RETURN_IF_ERROR(AppendFile(fs, path, span, hasher, *tokens));
  const int64_t rows = (tokens->size() - 1) / config.context;
  if (rows < 1) {
    return Bad(path, absl::StrCat("has ", tokens->size(), " tokens, want ", config.context + 1,
                                  " at least: a row of context ", config.context, " and a token"));
  }
  return RowSplit{std::move(tokens), rows, {0}, rows};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> ReadTokens(FileSystem& fs, const TokensConfig& config) {
  BlockHasher hasher;
  std::array<RowSplit, 3> splits;
  constexpr const char* kNames[] = {"train", "val", "test"};
  for (size_t i = 0; i < splits.size(); ++i) {
    MUSTER_ASSIGN_OR_RETURN(splits[i], ReadSplit(fs, config, kNames[i], hasher));
    if (splits[i].tokens != nullptr) continue;
    if (i < 2) {
      return absl::NotFoundError(
          absl::StrCat(config.path, " has neither ", kNames[i], ".bin nor ", kNames[i], ".npy"));
    }
    splits[i] = splits[1];
  }
  return std::make_unique<TokenRows>(
      std::move(splits), config.context, config.vocabulary,
      absl::StrCat("tokens-v1:", config.context, ":", config.vocabulary, ":",
                   HashToHex(hasher.Finish().whole)));
}

}  // namespace muster::worker
