#include "worker/data/base/npy_file.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/base/npy.h"

namespace muster::worker {
namespace {

constexpr uint64_t kReadBytes = 64u << 20;

absl::Status Bad(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
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

absl::StatusOr<NpyHeader> ReadHeader(FileSystem& fs, const std::string& path) {
  std::string start(kMaxNpyHeaderBytes, '\0');
  MUSTER_ASSIGN_OR_RETURN(const uint64_t got, fs.ReadAt(path, 0, start.data(), start.size()));
  start.resize(got);
  absl::StatusOr<NpyHeader> header = ParseNpyHeader(start);
  if (!header.ok()) return Bad(path, header.status().message());
  if (header->fortran_order && header->shape.size() > 1)
    return Bad(path, "is in Fortran order; save it with numpy.ascontiguousarray");
  return header;
}

}  // namespace

absl::StatusOr<at::Tensor> ReadNpy(FileSystem& fs, const std::string& path, int64_t max_bytes,
                                   BlockHasher& hasher) {
  MUSTER_ASSIGN_OR_RETURN(const NpyHeader header, ReadHeader(fs, path));
  MUSTER_ASSIGN_OR_RETURN(const at::ScalarType type, TypeOf(header.type, path));
  int64_t bytes = static_cast<int64_t>(c10::elementSize(type));
  for (const int64_t extent : header.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) bytes = INT64_MAX;
  }
  if (bytes > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": holds more than ", max_bytes, " bytes"));
  }
  MUSTER_ASSIGN_OR_RETURN(const uint64_t file_bytes, fs.FileSize(path));
  if (file_bytes != header.data_offset_bytes + static_cast<uint64_t>(bytes)) {
    return Bad(path, absl::StrCat("has ", file_bytes, " bytes, but its header says ",
                                  header.data_offset_bytes + static_cast<uint64_t>(bytes)));
  }
  hasher.Update(absl::StrCat(c10::toString(type), ":", file_bytes, ":"));
  at::Tensor tensor = at::empty(header.shape, type);
  char* data = static_cast<char*>(tensor.mutable_data_ptr());
  for (uint64_t done = 0; done < static_cast<uint64_t>(bytes);) {
    const uint64_t wanted = std::min(kReadBytes, static_cast<uint64_t>(bytes) - done);
    MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                            fs.ReadAt(path, header.data_offset_bytes + done, data + done, wanted));
    if (got == 0) return Bad(path, "became shorter while it was read");
    hasher.Update(absl::string_view(data + done, got));
    done += got;
  }
  return tensor;
}

}  // namespace muster::worker
