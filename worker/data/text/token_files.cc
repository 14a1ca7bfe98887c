#include "worker/data/text/token_files.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "worker/data/base/npy.h"
#include "worker/data/text/megatron_index.h"
#include "worker/data/text/shard_header.h"

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

// At most so many bytes of the file's beginning.
absl::StatusOr<std::string> ReadStart(FileSystem& fs, const std::string& path, uint64_t most) {
  std::string start(most, '\0');
  MUSTER_ASSIGN_OR_RETURN(const uint64_t got, fs.ReadUncached(path, 0, start.data(), start.size()));
  start.resize(got);
  return start;
}

absl::StatusOr<TokenSpan> NpySpan(FileSystem& fs, const std::string& path, uint64_t file_bytes) {
  MUSTER_ASSIGN_OR_RETURN(const std::string start,
                          ReadStart(fs, path, std::min(file_bytes, kMaxNpyHeaderBytes)));
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

absl::StatusOr<std::vector<std::string>> FindShards(FileSystem& fs, const std::string& folder,
                                                    const std::string& split) {
  const auto entries = fs.List(folder);
  if (absl::IsNotFound(entries.status())) return std::vector<std::string>();
  if (!entries.ok()) return entries.status();
  const std::string last = absl::StrCat("_", split, ".bin");
  const std::string inside = absl::StrCat("_", split, "_");
  std::vector<std::string> shards;
  for (const FileInfo& entry : *entries) {
    if (entry.is_directory || absl::StartsWith(entry.name, ".")) continue;
    if (!absl::EndsWith(entry.name, last) &&
        !(absl::EndsWith(entry.name, ".bin") && absl::StrContains(entry.name, inside))) {
      continue;
    }
    if (shards.size() == kMostTokenShards) {
      return Bad(folder, absl::StrCat("has more than ", kMostTokenShards, " shards"));
    }
    shards.push_back(absl::StrCat(folder, "/", entry.name));
  }
  std::sort(shards.begin(), shards.end());
  return shards;
}

}  // namespace

absl::StatusOr<TokenSpan> FindTokens(FileSystem& fs, const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const uint64_t file_bytes, fs.FileSize(path));
  if (file_bytes > kMaxTokenFileBytes) {
    return Bad(path, absl::StrCat("has more than ", kMaxTokenFileBytes, " bytes"));
  }
  if (absl::EndsWith(path, ".npy")) return NpySpan(fs, path, file_bytes);
  const std::string stem(absl::StripSuffix(path, ".bin"));
  MUSTER_ASSIGN_OR_RETURN(const std::optional<TokenSpan> indexed,
                          ReadMegatronIndex(fs, stem + ".idx", file_bytes));
  if (indexed.has_value()) return *indexed;
  MUSTER_ASSIGN_OR_RETURN(const std::string start,
                          ReadStart(fs, path, std::min(file_bytes, kShardHeaderBytes)));
  const auto shard = ParseShardHeader(start, file_bytes);
  if (!shard.ok()) return Bad(path, shard.status().message());
  if (shard->has_value()) return **shard;
  if (file_bytes % 2 != 0) {
    return Bad(path,
               absl::StrCat("has ", file_bytes, " bytes, which is no whole number of uint16"));
  }
  return TokenSpan{TokenType::kUint16, 0, file_bytes};
}

absl::StatusOr<std::vector<std::string>> FindTokenFiles(FileSystem& fs, const std::string& folder,
                                                        const std::string& split) {
  const std::string raw = absl::StrCat(folder, "/", split, ".bin");
  const std::string npy = absl::StrCat(folder, "/", split, ".npy");
  MUSTER_ASSIGN_OR_RETURN(const bool has_raw, ExistsIfAllowed(fs, raw));
  MUSTER_ASSIGN_OR_RETURN(const bool has_npy, ExistsIfAllowed(fs, npy));
  if (has_raw && has_npy) {
    return absl::InvalidArgumentError(
        absl::StrCat("both ", raw, " and ", npy, " are there: keep one of them"));
  }
  if (has_raw || has_npy) return std::vector<std::string>{has_raw ? raw : npy};
  return FindShards(fs, folder, split);
}

}  // namespace muster::worker
