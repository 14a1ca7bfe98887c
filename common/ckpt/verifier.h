// Rereads a checkpoint and says whether it is whole. Used by the agent (by assignment), by the
// trainer before it resumes, and by `muster ckpt verify`. Blocking; touches nothing. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ckpt/manifest.h"
#include "common/fs/file_system.h"

namespace muster {

struct VerifiedCheckpoint {
  Manifest manifest;
  std::string manifest_sha256;  // hex
};

// Called after each block; return false to stop, which gives CANCELLED.
using VerifyProgress = std::function<bool(uint64_t done_bytes, uint64_t total_bytes)>;

// Reads MANIFEST.json in the folder `path`, checks its SHA-256 against `expected_manifest_sha256`
// (empty: not checked), then the size, every block hash and the whole hash of every file.
//   NOT_FOUND            the folder, its manifest or a file that the manifest names is not there:
//                        no verdict, unless the checkpoint root is seen (checkpoint_root.h)
//   DATA_LOSS            corrupt; the message names the file and the block (4 MiB each, from 0)
//   FAILED_PRECONDITION  a manifest format that this program does not know
//   CANCELLED            `progress` said so
//   others               could not be read (UNAVAILABLE, PERMISSION_DENIED): nothing is known
absl::StatusOr<VerifiedCheckpoint> ReadAndVerifyCheckpoint(
    FileSystem& fs, const std::string& path, const std::string& expected_manifest_sha256,
    const VerifyProgress& progress = nullptr);

// The same without the answer.
absl::Status VerifyCheckpoint(FileSystem& fs, const std::string& path,
                              const std::string& expected_manifest_sha256,
                              const VerifyProgress& progress = nullptr);

}  // namespace muster
