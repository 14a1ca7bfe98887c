// The safetensors format: 8 bytes of little-endian header length, a JSON header of names, types,
// shapes and offsets, then the tensors' bytes without gaps. No torch. Files may be hostile when
// read: everything is bounded and checked before memory is taken.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/ckpt/checkpoint_writer.h"
#include "common/fs/file_system.h"

namespace muster {

enum class TensorType { kF64, kF32, kF16, kBF16, kI64, kI32, kI8, kU8, kBool };

uint64_t ElementBytes(TensorType type);
const char* TypeName(TensorType type);  // as in the header: "F32"

// The reference implementation's own limit.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// One tensor to write: contiguous, little-endian; `data` must live until the writing is done.
struct TensorBytes {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape;
  absl::string_view data;
};

// Appends a whole file to `sink`, in pieces. INVALID_ARGUMENT when a name stands twice or the size
// of a tensor does not fit its shape; else the sink's status.
absl::Status WriteSafetensors(const std::vector<TensorBytes>& tensors, const ByteSink& sink);

struct TensorEntry {
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape;
  uint64_t offset = 0;  // in the file
  uint64_t size_bytes = 0;
};

class SafetensorsReader {
 public:
  // Reads and checks the header. DATA_LOSS naming the file, and the tensor where it is one tensor's
  // fault; FAILED_PRECONDITION for an element type that Muster does not know; else fs's codes.
  static absl::StatusOr<SafetensorsReader> Open(FileSystem& fs, std::string path);

  const std::map<std::string, TensorEntry>& tensors() const { return tensors_; }
  const std::string& path() const { return path_; }

  // Reads one tensor into `buffer`, which has room for its size_bytes. NOT_FOUND: no such tensor.
  absl::Status Read(const std::string& name, char* buffer) const;

 private:
  SafetensorsReader(FileSystem& fs, std::string path) : fs_(&fs), path_(std::move(path)) {}
  FileSystem* fs_;
  std::string path_;
  std::map<std::string, TensorEntry> tensors_;
};

}  // namespace muster
