#include "worker/agent/command/command_paths.h"

#include <fcntl.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/ckpt/checkpoint_folder.h"
#include "common/fs/open_beneath.h"
#include "worker/agent/command/offer_folders.h"

namespace muster::worker {
namespace {

// A folder that a container is shown under its own name must be what that name says.
absl::Status CheckShown(const std::string& path, PathWatch& watch) {
  watch.Touch(path);
  const size_t slash = path.rfind('/');
  MUSTER_ASSIGN_OR_RETURN(const UniqueFd parent, OpenFolder(path.substr(0, slash + 1)));
  return OpenBeneath(parent.get(), path.substr(slash + 1), O_PATH | O_DIRECTORY, Links::kNone)
      .status();
}

bool IsPublished(absl::string_view name) {
  const auto folder = ParseFolderName(name);
  return folder.has_value() && !folder->temporary();
}

absl::StatusOr<std::string> FindFolder(FileSystem& fs, const CommandPathsRequest& request,
                                       PathWatch& watch) {
  const CommandSettings& settings = request.settings;
  const bool uploaded = !settings.upload.empty();
  std::string folder =
      uploaded ? absl::StrCat(request.upload, "/", settings.workdir) : settings.workdir;
  watch.Touch(folder);
  MUSTER_ASSIGN_OR_RETURN(const bool is_there, fs.Exists(folder));
  if (is_there) return folder;
  const std::string what = absl::StrCat("command.workdir: ", settings.workdir, " is not there ");
  if (uploaded) {
    return AsMissing(absl::NotFoundError(absl::StrCat(what, "in the uploaded folder")),
                     v1::RankEvent::IN_UPLOAD);
  }
  return AsMissing(absl::NotFoundError(absl::StrCat(what, "on worker ", request.worker)),
                   v1::RankEvent::ON_WORKER);
}

}  // namespace

absl::Status CheckResumePath(const v1::StartRanks& start, const GangFacts& facts) {
  if (facts.resume_path.empty()) return absl::OkStatus();
  const size_t slash = facts.resume_path.rfind('/');
  const bool is_own = slash != std::string::npos &&
                      facts.resume_path.substr(0, slash) == start.checkpoint_root() &&
                      IsPublished(absl::string_view(facts.resume_path).substr(slash + 1));
  const bool is_named =
      std::any_of(start.resume().begin(), start.resume().end(),
                  [&](const auto& resume) { return resume.path() == facts.resume_path; });
  if (is_own || is_named) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("rank 0's agent chose ", facts.resume_path,
                                          " to resume from, which is none of the job's"));
}

absl::StatusOr<CommandPaths> FindCommandPaths(FileSystem& fs, const CommandPathsRequest& request,
                                              PathWatch& watch) {
  MUSTER_RETURN_IF_ERROR(CheckResumePath(request.start, request.facts));
  CommandPaths paths;
  const std::string offers = OfferFolders::Path(request.start.checkpoint_root());
  watch.Touch(offers);
  const absl::Status made = OfferFolders::Make(fs, request.start.checkpoint_root());
  if (!made.ok()) {
    // A command that saves nothing does not need it.
    Log(LogLevel::kWarning, "no_checkpoint_folder", {{"error", made.ToString()}});
  }
  paths.has_offers = made.ok();
  const bool in_container = !request.settings.image.empty();
  if (in_container && paths.has_offers) MUSTER_RETURN_IF_ERROR(CheckShown(offers, watch));
  if (in_container && !request.facts.resume_path.empty()) {
    MUSTER_RETURN_IF_ERROR(CheckShown(request.facts.resume_path, watch));
  }
  if (!in_container || !request.settings.upload.empty()) {
    MUSTER_ASSIGN_OR_RETURN(paths.directory, FindFolder(fs, request, watch));
  }
  if (in_container) return paths;
  absl::StatusOr<std::string> program =
      FindProgram(request.settings.argv[0], request.path, paths.directory,
                  [&watch](const std::string& path) { watch.Touch(path); });
  if (!program.ok()) return AsMissing(program.status(), PlaceOfProgram(request.settings));
  paths.program = *std::move(program);
  return paths;
}

}  // namespace muster::worker
