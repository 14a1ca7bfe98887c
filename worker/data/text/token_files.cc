#include "worker/data/text/token_files.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "worker/data/base/npy.h"

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

}  // namespace

absl::StatusOr<TokenSpan> FindTokens(FileSystem& fs, const std::string& path) {
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

absl::StatusOr<std::string> FindTokenFile(FileSystem& fs, const std::string& folder,
                                          const std::string& split) {
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

}  // namespace muster::worker
