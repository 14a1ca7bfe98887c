#include "common/ckpt/verifier.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/ckpt/block_hasher.h"
#include "common/os/sha256.h"

namespace muster {
namespace {

absl::Status Corrupt(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("checkpoint ", path, " is corrupt: ", what));
}

// What stands where a file should be but is none (FAILED_PRECONDITION of the file system) is a
// broken checkpoint; other errors say nothing about it.
absl::Status ReadError(const std::string& path, const absl::Status& status) {
  if (absl::IsFailedPrecondition(status)) return Corrupt(path, status.message());
  return absl::Status(status.code(), absl::StrCat("checkpoint ", path, ": ", status.message()));
}

struct Progress {
  const VerifyProgress& report;
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;

  absl::Status Add(uint64_t bytes) {
    done_bytes += bytes;
    if (report && !report(done_bytes, total_bytes)) {
      return absl::CancelledError("verification was stopped");
    }
    return absl::OkStatus();
  }
};

absl::Status VerifyFile(FileSystem& fs, const std::string& path, const ManifestFile& file,
                        char* buffer, Progress* progress) {
  const std::string file_path = absl::StrCat(path, "/", file.name);
  const absl::StatusOr<uint64_t> size = fs.FileSize(file_path);
  if (!size.ok()) return ReadError(path, size.status());
  if (*size != file.size_bytes) {
    return Corrupt(path, absl::StrCat(file.name, " has ", *size, " bytes, want ", file.size_bytes));
  }
  BlockHasher whole;
  for (size_t block = 0; block < file.blocks.size(); ++block) {
    const uint64_t offset = block * kHashBlockBytes;
    const uint64_t want = std::min(kHashBlockBytes, file.size_bytes - offset);
    const absl::StatusOr<uint64_t> got = fs.ReadAt(file_path, offset, buffer, want);
    if (!got.ok()) return ReadError(path, got.status());
    if (*got != want) {
      return Corrupt(path, absl::StrCat(file.name, " ends within block ", block));
    }
    const absl::string_view bytes(buffer, want);
    BlockHasher one;
    one.Update(bytes);
    if (one.Finish().whole != file.blocks[block]) {
      return Corrupt(path, absl::StrCat(file.name, ", block ", block, " (bytes ", offset, " to ",
                                        offset + want - 1, ") has a wrong hash"));
    }
    whole.Update(bytes);
    MUSTER_RETURN_IF_ERROR(progress->Add(want));
  }
  if (whole.Finish().whole != file.hash) {
    return Corrupt(path, absl::StrCat(file.name, " has a wrong hash as a whole"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<VerifiedCheckpoint> ReadAndVerifyCheckpoint(
    FileSystem& fs, const std::string& path, const std::string& expected_manifest_sha256,
    const VerifyProgress& progress) {
  const absl::StatusOr<std::string> text =
      fs.ReadFile(absl::StrCat(path, "/", kManifestFile), kMaxManifestBytes);
  if (!text.ok()) return ReadError(path, text.status());
  VerifiedCheckpoint checkpoint;
  checkpoint.manifest_sha256 = Sha256Hex(*text);
  if (!expected_manifest_sha256.empty() && checkpoint.manifest_sha256 != expected_manifest_sha256) {
    return Corrupt(path, absl::StrCat(kManifestFile, " has SHA-256 ", checkpoint.manifest_sha256,
                                      ", want ", expected_manifest_sha256));
  }
  absl::StatusOr<Manifest> manifest = DecodeManifest(*text);
  if (absl::IsDataLoss(manifest.status())) return Corrupt(path, manifest.status().message());
  // Not ReadError: a format that this program does not know is no corruption.
  if (!manifest.ok()) {
    return absl::Status(manifest.status().code(),
                        absl::StrCat("checkpoint ", path, ": ", manifest.status().message()));
  }
  checkpoint.manifest = *std::move(manifest);

  Progress state{progress, 0, checkpoint.manifest.TotalBytes()};
  const auto buffer = std::make_unique_for_overwrite<char[]>(kHashBlockBytes);
  for (const ManifestFile& file : checkpoint.manifest.files) {
    MUSTER_RETURN_IF_ERROR(VerifyFile(fs, path, file, buffer.get(), &state));
  }
  return checkpoint;
}

absl::Status VerifyCheckpoint(FileSystem& fs, const std::string& path,
                              const std::string& expected_manifest_sha256,
                              const VerifyProgress& progress) {
  return ReadAndVerifyCheckpoint(fs, path, expected_manifest_sha256, progress).status();
}

}  // namespace muster
