#include "common/ckpt/checkpoint_root.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/ckpt/manifest.h"
#include "common/fs/durable_folder.h"

namespace muster {
namespace {

constexpr uint64_t kMaxMarkerBytes = 4096;
constexpr char kProbeText[] = "Muster probes this folder.\n";

std::string MarkerPath(const std::string& root) { return absl::StrCat(root, "/", kRootMarker); }

std::string MarkerText(const std::string& identity) { return absl::StrCat(identity, "\n"); }

absl::Status Unseen(const std::string& root, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("checkpoint root ", root, ": ", why));
}

// A file under a name that nobody else has, and everything that a save does to one.
absl::Status WriteReadDelete(FileSystem& fs, const std::string& root, absl::string_view who) {
  const std::string path = absl::StrCat(root, "/.muster-probe-", who);
  const std::string renamed = absl::StrCat(path, ".done");
  for (const std::string* left : {&path, &renamed}) {
    const absl::Status removed = fs.RemoveFile(*left);
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  }
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, fs.CreateExclusive(path));
  MUSTER_RETURN_IF_ERROR(file->Append(kProbeText));
  MUSTER_RETURN_IF_ERROR(file->Sync());
  MUSTER_RETURN_IF_ERROR(file->Close());
  MUSTER_RETURN_IF_ERROR(fs.Rename(path, renamed));
  MUSTER_RETURN_IF_ERROR(fs.SyncDirectory(root));
  MUSTER_ASSIGN_OR_RETURN(const std::string read, fs.ReadFile(renamed, kMaxMarkerBytes));
  if (read != kProbeText) {
    return absl::DataLossError(absl::StrCat(renamed, " does not hold what was written to it"));
  }
  return fs.RemoveFile(renamed);
}

std::string HowToMark(const std::string& root, const std::string& identity) {
  return absl::StrCat("mkdir -p ", root, "; echo ", identity, " > ", MarkerPath(root));
}

absl::Status CheckWitnesses(FileSystem& fs, const std::string& root,
                            const std::vector<std::string>& witnesses) {
  if (witnesses.empty()) return absl::OkStatus();
  for (const std::string& path : witnesses) {
    MUSTER_ASSIGN_OR_RETURN(const bool there, fs.Exists(absl::StrCat(path, "/", kManifestFile)));
    if (there) return absl::OkStatus();
  }
  return absl::NotFoundError(
      absl::StrCat("it has no marker, and checkpoint ", witnesses.front(),
                   " is not there: is the folder mounted here? If the checkpoints were removed on "
                   "purpose, make the marker: ",
                   HowToMark(root, "anyname")));
}

absl::Status MakeMarker(FileSystem& fs, const std::string& root, const std::string& identity,
                        bool replace) {
  const std::string path = MarkerPath(root);
  if (replace) return WriteFileAtomically(fs, path, MarkerText(identity));
  // Of two that make it at a time, one does.
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, fs.CreateExclusive(path));
  MUSTER_RETURN_IF_ERROR(file->Append(MarkerText(identity)));
  MUSTER_RETURN_IF_ERROR(file->Sync());
  MUSTER_RETURN_IF_ERROR(file->Close());
  return fs.SyncDirectory(root);
}

absl::Status CheckStillAsked(const std::function<bool()>& still_asked) {
  if (still_asked == nullptr || still_asked()) return absl::OkStatus();
  return absl::CancelledError("it answered too late to be claimed");
}

absl::StatusOr<std::string> Claim(FileSystem& fs, const CheckpointRoot& root,
                                  const std::vector<std::string>& witnesses, absl::string_view who,
                                  const std::function<bool()>& still_asked) {
  absl::StatusOr<std::string> marker = ReadRootMarker(fs, root.path);
  const bool torn = absl::IsFailedPrecondition(marker.status());
  if (!marker.ok() && !torn && !absl::IsNotFound(marker.status())) return marker.status();
  if (!marker.ok()) {
    MUSTER_RETURN_IF_ERROR(CheckWitnesses(fs, root.path, witnesses));
    MUSTER_RETURN_IF_ERROR(CheckStillAsked(still_asked));
    MUSTER_RETURN_IF_ERROR(MakeDurableFolder(fs, root.path));
  }
  MUSTER_RETURN_IF_ERROR(WriteReadDelete(fs, root.path, who));
  if (marker.ok()) return marker;
  MUSTER_RETURN_IF_ERROR(CheckStillAsked(still_asked));
  const absl::Status made = MakeMarker(fs, root.path, root.identity, /*replace=*/torn);
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  return ReadRootMarker(fs, root.path);
}

}  // namespace

bool IsRootIdentity(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxRootIdentityBytes &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
}

absl::StatusOr<std::string> ReadRootMarker(FileSystem& fs, const std::string& root) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, fs.ReadFile(MarkerPath(root), kMaxMarkerBytes));
  // Without its line's end it may be the beginning of another one.
  absl::string_view identity = text;
  const bool is_whole = absl::ConsumeSuffix(&identity, "\n");
  if (is_whole && IsRootIdentity(identity)) return std::string(identity);
  return absl::FailedPreconditionError(
      absl::StrCat(MarkerPath(root), " holds no identity of a checkpoint root"));
}

absl::Status CheckRoot(FileSystem& fs, const CheckpointRoot& root) {
  if (root.identity.empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> marker = ReadRootMarker(fs, root.path);
  if (marker.ok() && *marker == root.identity) return absl::OkStatus();
  if (marker.ok()) {
    return Unseen(root.path, absl::StrCat("another folder is there: its marker ", kRootMarker,
                                          " says ", *marker, ", not ", root.identity));
  }
  if (absl::IsNotFound(marker.status())) {
    return Unseen(root.path,
                  absl::StrCat("its marker is not there: is it mounted? If it was emptied or moved "
                               "on purpose, put the marker back, and remove it where else it is: ",
                               HowToMark(root.path, root.identity)));
  }
  return Unseen(root.path, marker.status().message());
}

absl::Status ProbeRoot(FileSystem& fs, const CheckpointRoot& root, absl::string_view who) {
  MUSTER_RETURN_IF_ERROR(CheckRoot(fs, root));
  const absl::Status usable = WriteReadDelete(fs, root.path, who);
  if (usable.ok()) return usable;
  const absl::Status unseen = Unseen(root.path, usable.message());
  return absl::IsResourceExhausted(usable) ? absl::Status(usable.code(), unseen.message()) : unseen;
}

absl::StatusOr<std::string> ClaimRoot(FileSystem& fs, const CheckpointRoot& root,
                                      const std::vector<std::string>& witnesses,
                                      absl::string_view who,
                                      const std::function<bool()>& still_asked) {
  absl::StatusOr<std::string> claimed = Claim(fs, root, witnesses, who, still_asked);
  if (!claimed.ok()) return Unseen(root.path, claimed.status().message());
  return claimed;
}

}  // namespace muster
