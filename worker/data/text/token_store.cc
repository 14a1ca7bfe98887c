#include "worker/data/text/token_store.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

constexpr uint64_t kPieceBytes = 4u << 20;  // a multiple of every type's size

int64_t WidthFor(int64_t vocabulary) {
  MUSTER_CHECK(vocabulary >= 1 && vocabulary <= int64_t{1} << 32, "a token fits four bytes");
  if (vocabulary <= 1 << 8) return 1;
  return vocabulary <= 1 << 16 ? 2 : 4;
}

// Returns the index of the first number outside of [0, vocabulary), or -1.
template <typename From, typename To>
int64_t Convert(const char* from, int64_t count, int64_t vocabulary, uint8_t* to) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
    const int64_t token = static_cast<int64_t>(value);
    if (token < 0 || token >= vocabulary) return i;
    const To narrow = static_cast<To>(token);
    std::memcpy(to + i * static_cast<int64_t>(sizeof(To)), &narrow, sizeof(To));
  }
  return -1;
}

template <typename From>
int64_t Convert(const char* from, int64_t count, int64_t vocabulary, int64_t width, uint8_t* to) {
  if (width == 1) return Convert<From, uint8_t>(from, count, vocabulary, to);
  if (width == 2) return Convert<From, uint16_t>(from, count, vocabulary, to);
  return Convert<From, uint32_t>(from, count, vocabulary, to);
}

int64_t Convert(TokenType type, const char* from, int64_t count, int64_t vocabulary, int64_t width,
                uint8_t* to) {
  switch (type) {
    case TokenType::kUint8:
      return Convert<uint8_t>(from, count, vocabulary, width, to);
    case TokenType::kUint16:
      return Convert<uint16_t>(from, count, vocabulary, width, to);
    case TokenType::kUint32:
      return Convert<uint32_t>(from, count, vocabulary, width, to);
    case TokenType::kInt32:
      return Convert<int32_t>(from, count, vocabulary, width, to);
    case TokenType::kInt64:
      return Convert<int64_t>(from, count, vocabulary, width, to);
  }
  return 0;
}

int64_t NumberAt(TokenType type, const char* at) {
  const auto read = [&](auto value) {
    std::memcpy(&value, at, sizeof(value));
    return static_cast<int64_t>(value);
  };
  switch (type) {
    case TokenType::kUint8:
      return read(uint8_t{});
    case TokenType::kUint16:
      return read(uint16_t{});
    case TokenType::kUint32:
      return read(uint32_t{});
    case TokenType::kInt32:
      return read(int32_t{});
    case TokenType::kInt64:
      return read(int64_t{});
  }
  return 0;
}

template <typename From>
void Widen(const uint8_t* from, int64_t count, int64_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
    out[i] = static_cast<int64_t>(value);
  }
}

}  // namespace

int64_t BytesOf(TokenType type) {
  switch (type) {
    case TokenType::kUint8:
      return 1;
    case TokenType::kUint16:
      return 2;
    case TokenType::kUint32:
    case TokenType::kInt32:
      return 4;
    case TokenType::kInt64:
      return 8;
  }
  return 1;
}

TokenStore::TokenStore(int64_t vocabulary)
    : vocabulary_(vocabulary), width_(WidthFor(vocabulary)) {}

void TokenStore::Reserve(int64_t tokens) { bytes_.reserve(static_cast<size_t>(tokens * width_)); }

absl::Status TokenStore::Append(TokenType type, absl::string_view bytes) {
  const int64_t from = BytesOf(type);
  const int64_t count = static_cast<int64_t>(bytes.size()) / from;
  const size_t before = bytes_.size();
  bytes_.resize(before + static_cast<size_t>(count * width_));
  const int64_t bad =
      Convert(type, bytes.data(), count, vocabulary_, width_, bytes_.data() + before);
  if (bad < 0) return absl::OkStatus();
  bytes_.resize(before);
  return absl::OutOfRangeError(absl::StrCat("token ", size() + bad, " is ",
                                            NumberAt(type, bytes.data() + bad * from),
                                            ", but the vocabulary has ", vocabulary_));
}

absl::string_view TokenStore::Stored(int64_t begin, int64_t count) const {
  MUSTER_CHECK(begin >= 0 && count >= 0 && begin + count <= size(), "tokens lie in the store");
  return {reinterpret_cast<const char*>(bytes_.data()) + begin * width_,
          static_cast<size_t>(count * width_)};
}

int64_t ReadNumbers(TokenType type, absl::string_view bytes, int64_t vocabulary, int64_t* out) {
  const int64_t width = BytesOf(type);
  const int64_t count = static_cast<int64_t>(bytes.size()) / width;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = NumberAt(type, bytes.data() + i * width);
    if (out[i] < 0 || out[i] >= vocabulary) return i;
  }
  return -1;
}

void WidenTokens(absl::string_view stored, int64_t count, int64_t* out) {
  const auto* from = reinterpret_cast<const uint8_t*>(stored.data());
  const int64_t width = count == 0 ? 1 : static_cast<int64_t>(stored.size()) / count;
  if (width == 1) return Widen<uint8_t>(from, count, out);
  if (width == 2) return Widen<uint16_t>(from, count, out);
  Widen<uint32_t>(from, count, out);
}

absl::Status AppendFile(FileSystem& fs, const std::string& path, const TokenSpan& span,
                        BlockHasher& hasher, TokenStore& store) {
  std::string piece;
  for (uint64_t done = 0; done < span.size_bytes;) {
    piece.resize(std::min(kPieceBytes, span.size_bytes - done));
    for (size_t filled = 0; filled < piece.size();) {
      MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                              fs.ReadAt(path, span.offset_bytes + done + filled,
                                        piece.data() + filled, piece.size() - filled));
      if (got == 0) return absl::DataLossError(absl::StrCat(path, " ended while it was read"));
      filled += got;
    }
    hasher.Update(piece);
    if (absl::Status taken = store.Append(span.type, piece); !taken.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", taken.message()));
    }
    done += piece.size();
  }
  return absl::OkStatus();
}

}  // namespace muster::worker
