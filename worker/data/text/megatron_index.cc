#include "worker/data/text/megatron_index.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

constexpr absl::string_view kIndexMagic("MMIDIDX\0\0", 9);
// The magic, the version, the code of the type, and how many sequences and documents there are.
constexpr uint64_t kIndexHeaderBytes = 9 + 8 + 1 + 8 + 8;
constexpr uint64_t kLengthBytes = 4;
constexpr uint64_t kPointerBytes = 8;
constexpr uint64_t kDocumentBytes = 8;
constexpr uint64_t kSequencesAtOnce = 1 << 16;

absl::Status BadIndex(const std::string& index, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(index, " ", what));
}

template <typename T>
T NumberIn(absl::string_view bytes, uint64_t at) {
  T number;
  std::memcpy(&number, bytes.data() + at, sizeof(T));
  return number;
}

absl::StatusOr<TokenType> TypeOfCode(const std::string& index, uint8_t code) {
  switch (code) {
    case 1:
      return TokenType::kUint8;
    case 4:
      return TokenType::kInt32;
    case 5:
      return TokenType::kInt64;
    case 8:
      return TokenType::kUint16;
    default:
      return BadIndex(index, absl::StrCat("says numbers of type ", code,
                                          ", want 1, 4, 5 or 8: uint8, int32, int64 or uint16"));
  }
}

// [offset, offset + size) of the index.
absl::Status ReadPart(FileSystem& fs, const std::string& index, uint64_t offset, uint64_t size,
                      std::string& part) {
  part.resize(size);
  for (uint64_t filled = 0; filled < size;) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                            fs.ReadAt(index, offset + filled, part.data() + filled, size - filled));
    if (got == 0) return absl::DataLossError(absl::StrCat(index, " ended while it was read"));
    filled += got;
  }
  return absl::OkStatus();
}

// The bytes of all sequences, each of which must begin where the one before it ends.
absl::StatusOr<uint64_t> SumSequences(FileSystem& fs, const std::string& index, uint64_t sequences,
                                      uint64_t token_bytes, uint64_t bin_bytes) {
  const uint64_t pointers_at = kIndexHeaderBytes + sequences * kLengthBytes;
  std::string lengths, pointers;
  uint64_t end = 0;
  for (uint64_t done = 0; done < sequences;) {
    const uint64_t count = std::min(kSequencesAtOnce, sequences - done);
    MUSTER_RETURN_IF_ERROR(ReadPart(fs, index, kIndexHeaderBytes + done * kLengthBytes,
                                    count * kLengthBytes, lengths));
    MUSTER_RETURN_IF_ERROR(
        ReadPart(fs, index, pointers_at + done * kPointerBytes, count * kPointerBytes, pointers));
    for (uint64_t i = 0; i < count; ++i) {
      const int32_t length = NumberIn<int32_t>(lengths, i * kLengthBytes);
      const uint64_t pointer = NumberIn<uint64_t>(pointers, i * kPointerBytes);
      if (length < 0 || pointer != end) {
        return BadIndex(
            index, absl::StrCat("has sequence ", done + i, " at byte ", pointer, ", want ", end,
                                ": only sequences that follow each other are read"));
      }
      end += static_cast<uint64_t>(length) * token_bytes;
      if (end > bin_bytes) {
        return BadIndex(index, absl::StrCat("has more tokens than the .bin beside it, of ",
                                            bin_bytes, " bytes: it is cut off"));
      }
    }
    done += count;
  }
  return end;
}

}  // namespace

absl::StatusOr<std::optional<TokenSpan>> ReadMegatronIndex(FileSystem& fs, const std::string& index,
                                                           uint64_t bin_bytes) {
  MUSTER_ASSIGN_OR_RETURN(const bool exists, ExistsIfAllowed(fs, index));
  if (!exists) return std::optional<TokenSpan>();
  MUSTER_ASSIGN_OR_RETURN(const uint64_t index_bytes, fs.FileSize(index));
  std::string header;
  MUSTER_RETURN_IF_ERROR(ReadPart(fs, index, 0, std::min(index_bytes, kIndexHeaderBytes), header));
  if (!absl::StartsWith(header, kIndexMagic)) return std::optional<TokenSpan>();
  if (header.size() < kIndexHeaderBytes) return BadIndex(index, "is cut off");
  const uint64_t version = NumberIn<uint64_t>(header, 9);
  if (version != 1) return BadIndex(index, absl::StrCat("has version ", version, ", want 1"));
  MUSTER_ASSIGN_OR_RETURN(const TokenType type,
                          TypeOfCode(index, static_cast<uint8_t>(header[17])));
  const uint64_t sequences = NumberIn<uint64_t>(header, 18);
  const uint64_t documents = NumberIn<uint64_t>(header, 26);
  const uint64_t rest = index_bytes - kIndexHeaderBytes;
  if (sequences > rest / (kLengthBytes + kPointerBytes) ||
      documents > (rest - sequences * (kLengthBytes + kPointerBytes)) / kDocumentBytes) {
    return BadIndex(index, absl::StrCat("should have ", sequences, " sequences and ", documents,
                                        " documents: it is cut off"));
  }
  MUSTER_ASSIGN_OR_RETURN(
      const uint64_t size,
      SumSequences(fs, index, sequences, static_cast<uint64_t>(BytesOf(type)), bin_bytes));
  return std::optional<TokenSpan>({type, 0, size});
}

}  // namespace muster::worker
