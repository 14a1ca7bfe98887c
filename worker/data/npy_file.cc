#include "worker/data/npy_file.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicBytes = 6;
constexpr uint64_t kMostHeaderBytes = 1u << 20;
constexpr uint64_t kReadBytes = 64u << 20;
constexpr size_t kMostAxes = 8;

struct Header {
  at::ScalarType type = at::kFloat;
  std::vector<int64_t> shape;
  uint64_t data_offset = 0;
};

absl::Status Bad(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

// What stands behind `key` in the header's Python dictionary, up to `end`.
absl::StatusOr<absl::string_view> ValueOf(absl::string_view text, absl::string_view key, char begin,
                                          char end, const std::string& path) {
  const size_t at = text.find(absl::StrCat("'", key, "':"));
  if (at == absl::string_view::npos)
    return Bad(path, absl::StrCat("its header has no '", key, "'"));
  absl::string_view rest = absl::StripLeadingAsciiWhitespace(text.substr(at + key.size() + 3));
  if (begin != 0 && (rest.empty() || rest[0] != begin))
    return Bad(path, absl::StrCat("'", key, "' of its header cannot be read"));
  if (begin != 0) rest.remove_prefix(1);
  const size_t stop = rest.find(end);
  if (stop == absl::string_view::npos)
    return Bad(path, absl::StrCat("'", key, "' of its header has no end"));
  return rest.substr(0, stop);
}

absl::StatusOr<at::ScalarType> TypeOf(absl::string_view descr, const std::string& path) {
  struct Known {
    absl::string_view descr;
    at::ScalarType type;
  };
  static constexpr Known kKnown[] = {
      {"|u1", at::kByte},  {"|i1", at::kChar},   {"|b1", at::kBool},  {"<u2", at::kUInt16},
      {"<i2", at::kShort}, {"<u4", at::kUInt32}, {"<i4", at::kInt},   {"<u8", at::kUInt64},
      {"<i8", at::kLong},  {"<f2", at::kHalf},   {"<f4", at::kFloat}, {"<f8", at::kDouble},
  };
  for (const Known& known : kKnown) {
    if (known.descr == descr) return known.type;
  }
  return Bad(path, absl::StrCat("holds values of type '", descr,
                                "'; save it with .astype() of uint8, int64 or float32"));
}

absl::StatusOr<std::vector<int64_t>> ShapeOf(absl::string_view text, const std::string& path) {
  std::vector<int64_t> shape;
  for (absl::string_view axis : absl::StrSplit(text, ',')) {
    axis = absl::StripAsciiWhitespace(axis);
    if (axis.empty()) continue;
    int64_t extent = 0;
    if (!absl::SimpleAtoi(axis, &extent) || extent < 0 || shape.size() == kMostAxes)
      return Bad(path, absl::StrCat("has the shape (", text, ")"));
    shape.push_back(extent);
  }
  return shape;
}

absl::StatusOr<Header> ReadHeader(FileSystem& fs, const std::string& path) {
  char start[12];
  MUSTER_ASSIGN_OR_RETURN(const uint64_t got, fs.ReadAt(path, 0, start, sizeof start));
  if (got < sizeof start || absl::string_view(start, kMagicBytes) != kMagic)
    return Bad(path, "is no .npy file of NumPy");
  const auto byte = [&](size_t i) { return static_cast<uint64_t>(static_cast<uint8_t>(start[i])); };
  const bool first_version = byte(6) == 1;
  if (byte(6) < 1 || byte(6) > 3)
    return Bad(path, absl::StrCat("is of .npy version ", byte(6), ", which is not known"));
  const uint64_t length = first_version ? byte(8) | byte(9) << 8
                                        : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  const uint64_t begin = first_version ? 10 : 12;
  if (length > kMostHeaderBytes) return Bad(path, "has a header that is too long");
  std::string text(length, '\0');
  MUSTER_ASSIGN_OR_RETURN(const uint64_t read, fs.ReadAt(path, begin, text.data(), length));
  if (read < length) return Bad(path, "ends in its header");

  Header header;
  header.data_offset = begin + length;
  MUSTER_ASSIGN_OR_RETURN(const auto descr, ValueOf(text, "descr", '\'', '\'', path));
  MUSTER_ASSIGN_OR_RETURN(header.type, TypeOf(descr, path));
  MUSTER_ASSIGN_OR_RETURN(const auto order, ValueOf(text, "fortran_order", 0, ',', path));
  MUSTER_ASSIGN_OR_RETURN(const auto shape, ValueOf(text, "shape", '(', ')', path));
  MUSTER_ASSIGN_OR_RETURN(header.shape, ShapeOf(shape, path));
  if (absl::StripAsciiWhitespace(order) != "False" && header.shape.size() > 1)
    return Bad(path, "is in Fortran order; save it with numpy.ascontiguousarray");
  return header;
}

}  // namespace

absl::StatusOr<at::Tensor> ReadNpy(FileSystem& fs, const std::string& path, int64_t max_bytes,
                                   BlockHasher& hasher) {
  MUSTER_ASSIGN_OR_RETURN(const Header header, ReadHeader(fs, path));
  int64_t bytes = static_cast<int64_t>(c10::elementSize(header.type));
  for (const int64_t extent : header.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) bytes = INT64_MAX;
  }
  if (bytes > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": holds more than ", max_bytes, " bytes"));
  }
  MUSTER_ASSIGN_OR_RETURN(const uint64_t file_bytes, fs.FileSize(path));
  if (file_bytes != header.data_offset + static_cast<uint64_t>(bytes)) {
    return Bad(path, absl::StrCat("has ", file_bytes, " bytes, but its header says ",
                                  header.data_offset + static_cast<uint64_t>(bytes)));
  }
  hasher.Update(absl::StrCat(c10::toString(header.type), ":", file_bytes, ":"));
  at::Tensor tensor = at::empty(header.shape, header.type);
  char* data = static_cast<char*>(tensor.mutable_data_ptr());
  for (uint64_t done = 0; done < static_cast<uint64_t>(bytes);) {
    const uint64_t wanted = std::min(kReadBytes, static_cast<uint64_t>(bytes) - done);
    MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                            fs.ReadAt(path, header.data_offset + done, data + done, wanted));
    if (got == 0) return Bad(path, "became shorter while it was read");
    hasher.Update(absl::string_view(data + done, got));
    done += got;
  }
  return tensor;
}

}  // namespace muster::worker
