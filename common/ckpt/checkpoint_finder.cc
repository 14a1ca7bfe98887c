#include "common/ckpt/checkpoint_finder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/ckpt/checkpoint_folder.h"

namespace muster {
namespace {

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool IsOwn(const CheckpointCandidate& candidate) { return candidate.job_id == 0; }

// Published folders of earlier attempts in `root` that the controller does not know. Only the
// newest attempt's, and only past the newest registered step: the others were passed over before,
// or belong to a history that was left.
absl::StatusOr<std::vector<CheckpointCandidate>> Unregistered(FileSystem& fs,
                                                              const FindRequest& request) {
  std::vector<CheckpointCandidate> found;
  const absl::StatusOr<std::vector<FileInfo>> files = fs.List(request.root);
  if (absl::IsNotFound(files.status())) return found;
  MUSTER_RETURN_IF_ERROR(files.status());

  int64_t newest_step = -1;
  uint32_t newest_attempt = 0;
  std::vector<std::string> known;
  for (const CheckpointCandidate& candidate : request.registered) {
    if (!IsOwn(candidate)) continue;
    newest_step = std::max(newest_step, candidate.step);
    known.push_back(BaseName(candidate.path));
    const std::optional<CheckpointFolder> folder = ParseFolderName(known.back());
    if (folder.has_value()) newest_attempt = std::max(newest_attempt, folder->attempt);
  }
  std::vector<CheckpointFolder> folders;
  for (const FileInfo& file : *files) {
    const std::optional<CheckpointFolder> folder = ParseFolderName(file.name);
    if (!folder.has_value() || folder->temporary() || !file.is_directory) continue;
    if (folder->attempt >= request.attempt) continue;
    newest_attempt = std::max(newest_attempt, folder->attempt);
    if (std::find(known.begin(), known.end(), file.name) == known.end()) folders.push_back(*folder);
  }
  for (const CheckpointFolder& folder : folders) {
    if (folder.attempt == newest_attempt && folder.step > newest_step) {
      found.push_back({absl::StrCat(request.root, "/", FolderName(folder)), folder.step, ""});
    }
  }
  return found;
}

// Another job's folder under our root is no checkpoint of ours, whole or not: folders of older
// versions have the job's number alone in their names, and each controller counts from 1.
absl::Status CheckOwner(const FindRequest& request, const CheckpointCandidate& candidate,
                        const Manifest& manifest) {
  const uint64_t job_id = IsOwn(candidate) ? request.job_id : candidate.job_id;
  const std::string& job_name = IsOwn(candidate) ? request.job_name : candidate.job_name;
  if (manifest.job_id != job_id || manifest.job_name != job_name) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint ", candidate.path, " belongs to job ", manifest.job_id, " (",
                     manifest.job_name, "), not to job ", job_id, " (", job_name, ")"));
  }
  if (manifest.step != candidate.step) {
    return absl::DataLossError(absl::StrCat("checkpoint ", candidate.path, " is of step ",
                                            manifest.step, ", want ", candidate.step));
  }
  return absl::OkStatus();
}

absl::StatusOr<VerifiedCheckpoint> Try(FileSystem& fs, const FindRequest& request,
                                       const CheckpointCandidate& candidate) {
  MUSTER_ASSIGN_OR_RETURN(
      VerifiedCheckpoint checkpoint,
      ReadAndVerifyCheckpoint(fs, candidate.path, candidate.manifest_sha256, request.progress));
  MUSTER_RETURN_IF_ERROR(CheckOwner(request, candidate, checkpoint.manifest));
  return checkpoint;
}

}  // namespace

absl::StatusOr<std::optional<FoundCheckpoint>> FindCheckpoint(FileSystem& fs,
                                                              const FindRequest& request) {
  MUSTER_ASSIGN_OR_RETURN(std::vector<CheckpointCandidate> candidates, Unregistered(fs, request));
  candidates.insert(candidates.end(), request.registered.begin(), request.registered.end());
  const auto others = std::stable_partition(candidates.begin(), candidates.end(), IsOwn);
  std::stable_sort(
      candidates.begin(), others,
      [](const CheckpointCandidate& a, const CheckpointCandidate& b) { return a.step > b.step; });

  absl::Status first_error;
  for (const CheckpointCandidate& candidate : candidates) {
    absl::StatusOr<VerifiedCheckpoint> checkpoint = Try(fs, request, candidate);
    if (absl::IsCancelled(checkpoint.status())) return checkpoint.status();
    if (checkpoint.ok()) {
      FoundCheckpoint found = {.path = candidate.path,
                               .checkpoint = *std::move(checkpoint),
                               .adopted = candidate.manifest_sha256.empty(),
                               .of_other_job = !IsOwn(candidate)};
      const absl::Status usable = request.usable ? request.usable(found) : absl::OkStatus();
      if (usable.ok()) return found;
      if (!absl::IsDataLoss(usable)) return usable;
      if (first_error.ok()) first_error = usable;
      continue;
    }
    if (first_error.ok()) first_error = checkpoint.status();
    if (request.on_bad) request.on_bad(candidate, checkpoint.status());
  }
  // Broken folders that nobody was promised are no reason not to start: the run had committed
  // nothing.
  if (request.registered.empty()) return std::nullopt;
  return absl::Status(first_error.code(), absl::StrCat("none of ", candidates.size(),
                                                       " checkpoints can be used; the newest: ",
                                                       first_error.message()));
}

}  // namespace muster
