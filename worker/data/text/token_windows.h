// Rows of tokens read from their files when they are asked for: sets of any size in the memory of
// one row.
//
// For sources that stream. Unlike TokenStore, a token outside of the vocabulary is found when its
// row is read, and the fingerprint looks at samples of the files. Immutable after its making, so
// any thread may read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "common/fs/prefetch.h"
#include "worker/data/text/token_store.h"

namespace muster::worker {

class TokenWindows {
 public:
  // The tokens of all files in their order, cut into rows of `context`: row i is tokens
  // [i x context, (i + 1) x context], of which the last begins the next row. Looks at the files'
  // headers only. `fs` must outlive this. Requires context >= 1 and 1 <= vocabulary <= 2^32.
  // INVALID_ARGUMENT naming a file that holds no tokens; else fs's codes.
  // `fs` is used by several threads.
  static absl::StatusOr<TokenWindows> Open(FileSystem& fs, const std::vector<std::string>& paths,
                                           int64_t context, int64_t vocabulary);

  int64_t tokens() const { return tokens_; }
  int64_t rows() const { return rows_; }

  // Writes the context + 1 tokens of a row, in as many reads as files that it lies in, mostly one.
  // Requires a row in [0, rows). OUT_OF_RANGE naming file and token when one lies outside of the
  // vocabulary, DATA_LOSS when a file ended before; else fs's codes.
  absl::Status ReadRow(int64_t row, int64_t* out) const;

  // Begins to fetch the row's bytes. Requires a row in [0, rows).
  void WillReadRow(int64_t row, Prefetch& prefetch) const;

  // Names the content by sizes, types and kSampledBlocks of each file, evenly spaced: not by all of
  // it, and past a cache. fs's codes.
  static constexpr uint64_t kSampledBlocks = 16;
  static constexpr uint64_t kSampledBlockBytes = 4096;
  absl::StatusOr<std::string> Fingerprint() const;

 private:
  struct Piece {
    std::string path;
    TokenSpan span;
    int64_t begin = 0;  // its first token, of all
    int64_t count = 0;
  };

  TokenWindows(FileSystem& fs, std::vector<Piece> pieces, int64_t context, int64_t vocabulary);
  // Calls it with each piece that the row lies in, and the tokens [begin, begin + count) of it,
  // until it returns an error.
  template <typename Visit>
  absl::Status ForEachPiece(int64_t row, Visit visit) const;
  // Tokens [begin, begin + count) of one file.
  absl::Status ReadPiece(const Piece& piece, int64_t begin, int64_t count, int64_t* out) const;
  // By FileSystem::ReadAt or ReadUncached.
  using ReadCall = absl::StatusOr<uint64_t> (FileSystem::*)(const std::string& path,
                                                            uint64_t offset, char* buffer,
                                                            uint64_t buffer_bytes);
  absl::StatusOr<std::string> ReadBytes(const Piece& piece, uint64_t offset, uint64_t size,
                                        ReadCall read) const;
  // Those that the fingerprint looks at.
  absl::StatusOr<std::string> ReadSampledBlocks(const Piece& piece) const;

  FileSystem* fs_;
  std::vector<Piece> pieces_;
  int64_t context_;
  int64_t vocabulary_;
  int64_t tokens_ = 0;
  int64_t rows_ = 0;
};

}  // namespace muster::worker
