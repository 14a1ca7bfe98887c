#include "worker/data/text/token_windows.h"

#include <algorithm>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/ckpt/block_hasher.h"
#include "worker/data/text/token_files.h"

namespace muster::worker {
namespace {

// A store far away takes its time for each request.
constexpr size_t kFilesAtOnce = 32;
// A thread of its own, made at once; where the user may have no more of them, or memory is short,
// the work is done by whoever asks for what it gives. With async alone that is an exception.
constexpr std::launch kWhereAThreadCanBeMade = std::launch::async | std::launch::deferred;

// Calls `work` with each number below `count`, several at a time where there are threads to be had,
// and `take` with the number and what it gave, in order. Ends with the first error.
template <typename Work, typename Take>
absl::Status ForEachFile(size_t count, Work work, Take take) {
  for (size_t begin = 0; begin < count; begin += kFilesAtOnce) {
    std::vector<std::future<decltype(work(begin))>> running;
    for (size_t i = begin; i < std::min(count, begin + kFilesAtOnce); ++i)
      running.push_back(std::async(kWhereAThreadCanBeMade, work, i));
    for (size_t i = 0; i < running.size(); ++i) {
      MUSTER_ASSIGN_OR_RETURN(auto result, running[i].get());
      take(begin + i, std::move(result));
    }
  }
  return absl::OkStatus();
}

}  // namespace

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
  MUSTER_RETURN_IF_ERROR(ForEachFile(
      paths.size(), [&](size_t i) { return FindTokens(fs, paths[i]); },
      [&](size_t i, const TokenSpan& span) {
        const int64_t count = static_cast<int64_t>(span.size_bytes) / BytesOf(span.type);
        if (count == 0) return;  // so that each piece begins at another token
        pieces.push_back({paths[i], span, begin, count});
        begin += count;
      }));
  return TokenWindows(fs, std::move(pieces), context, vocabulary);
}

absl::StatusOr<std::string> TokenWindows::ReadBytes(const Piece& piece, uint64_t offset,
                                                    uint64_t size, ReadCall read) const {
  std::string bytes(size, '\0');
  for (uint64_t filled = 0; filled < size;) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                            (fs_->*read)(piece.path, piece.span.offset_bytes + offset + filled,
                                         bytes.data() + filled, size - filled));
    if (got == 0) return absl::DataLossError(absl::StrCat(piece.path, " ended while it was read"));
    filled += got;
  }
  return bytes;
}

absl::Status TokenWindows::ReadPiece(const Piece& piece, int64_t begin, int64_t count,
                                     int64_t* out) const {
  const int64_t width = BytesOf(piece.span.type);
  MUSTER_ASSIGN_OR_RETURN(const std::string bytes,
                          ReadBytes(piece, static_cast<uint64_t>(begin * width),
                                    static_cast<uint64_t>(count * width), &FileSystem::ReadAt));
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

absl::StatusOr<std::string> TokenWindows::ReadSampledBlocks(const Piece& piece) const {
  const uint64_t size = std::min(kSampledBlockBytes, piece.span.size_bytes);
  const uint64_t last = piece.span.size_bytes - size;  // where the last block begins
  std::string blocks;
  for (uint64_t i = 0; i < kSampledBlocks; ++i) {
    const uint64_t offset = i + 1 == kSampledBlocks ? last : last / (kSampledBlocks - 1) * i;
    MUSTER_ASSIGN_OR_RETURN(const std::string block,
                            ReadBytes(piece, offset, size, &FileSystem::ReadUncached));
    blocks += block;
  }
  return blocks;
}

absl::StatusOr<std::string> TokenWindows::Fingerprint() const {
  BlockHasher hasher;
  hasher.Update(absl::StrCat(context_, ":", vocabulary_, ":"));
  MUSTER_RETURN_IF_ERROR(ForEachFile(
      pieces_.size(), [this](size_t i) { return ReadSampledBlocks(pieces_[i]); },
      [&](size_t i, const std::string& blocks) {
        const TokenSpan& span = pieces_[i].span;
        hasher.Update(absl::StrCat(BytesOf(span.type), ":", span.size_bytes, ":"));
        hasher.Update(blocks);
      }));
  return absl::StrCat("token-windows-v1:", HashToHex(hasher.Finish().whole));
}

}  // namespace muster::worker
