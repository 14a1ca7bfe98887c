// Many tokens in little memory: each takes as many bytes as the vocabulary needs (1, 2 or 4).
//
// Used by the datasets of text. Fill it, then only read it; any thread may read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/ckpt/block_hasher.h"
#include "common/fs/file_system.h"

namespace muster::worker {

// Whole numbers as they stand in a file, little-endian.
enum class TokenType { kUint8, kUint16, kUint32, kInt32, kInt64 };
int64_t BytesOf(TokenType type);

class TokenStore {
 public:
  // Tokens lie in [0, vocabulary); requires 1 <= vocabulary <= 2^32.
  explicit TokenStore(int64_t vocabulary);

  void Reserve(int64_t tokens);
  // OUT_OF_RANGE naming the token and its place when one lies outside of the vocabulary. Requires
  // whole numbers.
  absl::Status Append(TokenType type, absl::string_view bytes);

  int64_t bytes() const { return static_cast<int64_t>(bytes_.size()); }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()) / width_; }
  // The bytes of some tokens, for WidenTokens. Requires begin + count <= size().
  absl::string_view Stored(int64_t begin, int64_t count) const;

 private:
  const int64_t vocabulary_;
  const int64_t width_;  // bytes of a token
  std::vector<uint8_t> bytes_;
};

// `count` tokens from the bytes of a store.
void WidenTokens(absl::string_view stored, int64_t count, int64_t* out);

// Writes the numbers of `bytes` to `out`, which has room for them. Returns the place of the first
// that lies outside of [0, vocabulary), which is written, too, and ends the writing; -1: none does.
// Requires whole numbers.
int64_t ReadNumbers(TokenType type, absl::string_view bytes, int64_t vocabulary, int64_t* out);

// What part of a file holds numbers, and of what type.
struct TokenSpan {
  TokenType type = TokenType::kUint8;
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
};

// Appends the file's tokens piece by piece, and its bytes to the hasher. INVALID_ARGUMENT naming
// the file when a token is outside of the vocabulary, DATA_LOSS when the file is shorter than
// `span`; else fs's codes.
absl::Status AppendFile(FileSystem& fs, const std::string& path, const TokenSpan& span,
                        BlockHasher& hasher, TokenStore& store);

}  // namespace muster::worker
