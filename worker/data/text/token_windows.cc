#include "worker/data/text/token_windows.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/ckpt/block_hasher.h"
#include "worker/data/text/token_files.h"

namespace muster::worker {

TokenWindows::TokenWindows(FileSystem& fs, std::vector<Piece> pieces, int64_t context,
                           int64_t vocabulary)
    : fs_(&fs), pieces_(std::move(pieces)), context_(context), vocabulary_(vocabulary) {
  if (!pieces_.empty()) tokens_ = pieces_.back().begin + pieces_.back().count;
  rows_ = tokens_ == 0 ? 0 : (tokens_ - 1) / context_;
}

absl::StatusOr<TokenWindows> TokenWindows::Open(FileSystem& fs,
                                                const std::vector<std::string>& paths,
                                                int64_t context, int64_t vocabulary) {
  MUSTER_CHECK(context >= 1 && vocabulary >= 1, "rows have tokens, and there are some to tell");
  std::vector<Piece> pieces;
  int64_t begin = 0;
  for (const std::string& path : paths) {
    MUSTER_ASSIGN_OR_RETURN(const TokenSpan span, FindTokens(fs, path));
    const int64_t count = static_cast<int64_t>(span.size_bytes) / BytesOf(span.type);
    if (count == 0) continue;  // so that each piece begins at another token
    pieces.push_back({path, span, begin, count});
    begin += count;
  }
  return TokenWindows(fs, std::move(pieces), context, vocabulary);
}

absl::StatusOr<std::string> TokenWindows::ReadBytes(const Piece& piece, uint64_t offset,
                                                    uint64_t size) const {
  std::string bytes(size, '\0');
  for (uint64_t filled = 0; filled < size;) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                            fs_->ReadAt(piece.path, piece.span.offset_bytes + offset + filled,
                                        bytes.data() + filled, size - filled));
    if (got == 0) return absl::DataLossError(absl::StrCat(piece.path, " ended while it was read"));
    filled += got;
  }
  return bytes;
}

absl::Status TokenWindows::ReadPiece(const Piece& piece, int64_t begin, int64_t count,
                                     int64_t* out) const {
  const int64_t width = BytesOf(piece.span.type);
  MUSTER_ASSIGN_OR_RETURN(
      const std::string bytes,
      ReadBytes(piece, static_cast<uint64_t>(begin * width), static_cast<uint64_t>(count * width)));
  const int64_t bad = ReadNumbers(piece.span.type, bytes, vocabulary_, out);
  if (bad < 0) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(piece.path, ": token ", begin + bad, " is ", out[bad],
                                            ", but the vocabulary has ", vocabulary_));
}

template <typename Visit>
absl::Status TokenWindows::ForEachPiece(int64_t row, Visit visit) const {
  MUSTER_CHECK(row >= 0 && row < rows_, "a row is one of the rows");
  int64_t at = row * context_;
  int64_t left = context_ + 1;
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), at,
                                [](int64_t token, const Piece& p) { return token < p.begin; });
  for (--piece; left > 0; ++piece) {
    const int64_t begin = at - piece->begin;
    const int64_t count = std::min(left, piece->count - begin);
    MUSTER_RETURN_IF_ERROR(visit(*piece, begin, count));
    at += count;
    left -= count;
  }
  return absl::OkStatus();
}

absl::Status TokenWindows::ReadRow(int64_t row, int64_t* out) const {
  return ForEachPiece(row, [&](const Piece& piece, int64_t begin, int64_t count) {
    const absl::Status read = ReadPiece(piece, begin, count, out);
    out += count;
    return read;
  });
}

void TokenWindows::WillReadRow(int64_t row, Prefetch& prefetch) const {
  ForEachPiece(row, [&](const Piece& piece, int64_t begin, int64_t count) {
    const int64_t width = BytesOf(piece.span.type);
    prefetch.WillRead(piece.path, piece.span.offset_bytes + static_cast<uint64_t>(begin * width),
                      static_cast<uint64_t>(count * width));
    return absl::OkStatus();
  }).IgnoreError();
}

absl::StatusOr<std::string> TokenWindows::Fingerprint() const {
  BlockHasher hasher;
  hasher.Update(absl::StrCat(context_, ":", vocabulary_, ":"));
  for (const Piece& piece : pieces_) {
    hasher.Update(absl::StrCat(BytesOf(piece.span.type), ":", piece.span.size_bytes, ":"));
    const uint64_t size = std::min(kSampledBlockBytes, piece.span.size_bytes);
    const uint64_t last = piece.span.size_bytes - size;  // where the last block begins
    for (uint64_t i = 0; i < kSampledBlocks; ++i) {
      const uint64_t offset = last / (kSampledBlocks - 1) * i;
      MUSTER_ASSIGN_OR_RETURN(const std::string block,
                              ReadBytes(piece, i + 1 == kSampledBlocks ? last : offset, size));
      hasher.Update(block);
    }
  }
  return absl::StrCat("token-windows-v1:", HashToHex(hasher.Finish().whole));
}

}  // namespace muster::worker
