#include "common/fs/file_system.h"

#include <sys/random.h>

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

constexpr absl::string_view kTemporarySuffix = ".tmp";
constexpr size_t kTemporaryDigits = 16;

// Random, not counted: a folder may be shared by machines, and a process id may come back.
std::string TemporaryNameFor(const std::string& path) {
  uint64_t bits = 0;
  // Fewer than 256 bytes are never cut short once the pool is ready.
  (void)!::getrandom(&bits, sizeof bits, 0);
  return absl::StrCat(path, ".", absl::Hex(bits, absl::kZeroPad16), kTemporarySuffix);
}

absl::Status WriteWhole(FileSystem& fs, const std::string& path, absl::string_view bytes,
                        uint32_t mode) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, fs.CreateExclusive(path, mode));
  MUSTER_RETURN_IF_ERROR(file->Append(bytes));
  MUSTER_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace

std::string ParentFolder(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::StatusOr<bool> ExistsIfAllowed(FileSystem& fs, const std::string& path) {
  const absl::StatusOr<bool> exists = fs.Exists(path);
  if (absl::IsPermissionDenied(exists.status())) return false;
  return exists;
}

bool IsTemporaryName(absl::string_view name) {
  if (!absl::ConsumeSuffix(&name, kTemporarySuffix) || name.size() <= kTemporaryDigits)
    return false;
  const absl::string_view digits = name.substr(name.size() - kTemporaryDigits);
  return name[name.size() - kTemporaryDigits - 1] == '.' &&
         std::all_of(digits.begin(), digits.end(), absl::ascii_isxdigit);
}

absl::Status WriteFileAtomically(FileSystem& fs, const std::string& path, absl::string_view bytes,
                                 uint32_t mode) {
  const std::string temporary = TemporaryNameFor(path);
  auto remove = absl::MakeCleanup([&] { fs.RemoveFile(temporary).IgnoreError(); });
  MUSTER_RETURN_IF_ERROR(WriteWhole(fs, temporary, bytes, mode));
  MUSTER_RETURN_IF_ERROR(fs.Rename(temporary, path));
  std::move(remove).Cancel();
  return fs.SyncDirectory(ParentFolder(path));
}

}  // namespace muster
