// MANIFEST.json: what a checkpoint folder holds, with sizes and hashes. Written last; a folder
// without it is not a checkpoint. Plain data and a pure codec; what it decodes may come from a
// hostile file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/ckpt/block_hasher.h"

namespace muster {

inline constexpr int64_t kManifestFormatVersion = 1;
inline constexpr const char* kManifestFile = "MANIFEST.json";
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
inline constexpr const char* kStateFile = "state.json";
// Room for about 7 TB of tensors in blocks of 4 MiB.
inline constexpr uint64_t kMaxManifestBytes = 64u << 20;
inline constexpr size_t kMaxManifestFiles = 65536;

// INVALID_ARGUMENT, showing the name escaped and saying what is allowed, for a name that no reader
// of a manifest takes: it leaves the folder, is the manifest's own, does not print or is no UTF-8.
absl::Status CheckFileName(absl::string_view name);

struct ManifestFile {
  std::string name;  // within the folder, as CheckFileName allows
  uint64_t size_bytes = 0;
  Hash128 hash{};
  std::vector<Hash128> blocks;
};

struct Manifest {
  int64_t format_version = kManifestFormatVersion;
  uint64_t job_id = 0;
  std::string job_name;
  uint32_t attempt = 0;
  uint32_t generation = 0;
  int64_t step = 0;
  double epoch = 0;
  bool best = false;                      // the best by validation when it was written
  std::map<std::string, double> metrics;  // finite values only, e.g. validation_accuracy
  std::vector<ManifestFile> files;

  uint64_t TotalBytes() const;
  const ManifestFile* Find(absl::string_view name) const;
};

// It checks nothing; CheckpointWriter refuses what could not be read again.
std::string EncodeManifest(const Manifest& manifest);

// DATA_LOSS naming what is wrong: not JSON, a key missing or of the wrong type, a file name that
// leaves the folder or stands twice, counts of blocks that do not fit the size. FAILED_PRECONDITION
// for a format version that this program does not know.
absl::StatusOr<Manifest> DecodeManifest(absl::string_view json);

}  // namespace muster
