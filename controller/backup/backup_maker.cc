#include "controller/backup/backup_maker.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/os/sha256.h"
#include "controller/store/backup/restored_state.h"

namespace muster::controller {
namespace {

// Beside the databases: what agents and people know the controller by. Absent ones are left out.
constexpr const char* kPlainFiles[] = {"token", "scrape-token", "worker-scrape-token",
                                       "musterd.yaml"};
constexpr char kTlsFolder[] = "tls";
constexpr char kUploads[] = "uploads";
// Below the data folder; there while a backup is made.
constexpr char kStaging[] = "backup-staging";
// What a staged copy leaves free for the databases themselves to grow.
constexpr uint64_t kRoomLeft = uint64_t{256} << 20;

}  // namespace

BackupMaker::BackupMaker(Options options, Sources sources, FileSystem& fs, Clock& clock)
    : options_(std::move(options)), sources_(std::move(sources)), fs_(fs), clock_(clock) {}

BackupMaker::~BackupMaker() { Stop(); }

void BackupMaker::Start() {
  RemoveStaging(fs_, options_.data_dir);
  thread_ = std::thread([this] { Run(); });
}

void BackupMaker::BeginStop() {
  Asking left;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    left.swap(in_progress_);
    for (auto& done : asking_) left.push_back(std::move(done));
    asking_.clear();
    wake_.NotifyAll();
  }
  for (const auto& done : left) done(absl::UnavailableError("the controller is stopping"));
}

bool BackupMaker::IsStopping() const {
  MutexLock lock(mutex_);
  return stopping_;
}

void BackupMaker::Stop() {
  BeginStop();
  if (thread_.joinable()) thread_.join();
}

void BackupMaker::Ask(std::function<void(const absl::StatusOr<Made>&)> done) {
  absl::Status refused;
  {
    MutexLock lock(mutex_);
    if (stopping_) {
      refused = absl::UnavailableError("the controller is stopping; try again");
    } else if (asking_.size() >= kMaxAsking) {
      refused = absl::UnavailableError("too many ask for a backup already: try again later");
    } else {
      asking_.push_back(std::move(done));
      wake_.NotifyAll();
      return;
    }
  }
  done(refused);
}

std::optional<BackupMaker::Made> BackupMaker::newest() const {
  MutexLock lock(mutex_);
  return newest_;
}

absl::Status BackupMaker::last_error() const {
  MutexLock lock(mutex_);
  return last_error_;
}

void BackupMaker::FindNewest() {
  absl::StatusOr<std::vector<FileInfo>> entries = fs_.List(options_.backup_dir);
  std::optional<Made> newest;
  if (entries.ok()) {
    for (const FileInfo& entry : *entries) {
      if (absl::StartsWith(entry.name, kPartialPrefix)) {
        const absl::Status gone =
            fs_.RemoveTree(absl::StrCat(options_.backup_dir, "/", entry.name));
        if (!gone.ok()) Log(LogLevel::kWarning, "backup_stays", {{"error", gone.ToString()}});
      }
      if (!IsBackupName(entry.name)) continue;
      const std::string folder = absl::StrCat(options_.backup_dir, "/", entry.name);
      absl::StatusOr<BackupManifest> manifest = ReadManifest(fs_, folder);
      if (!manifest.ok()) continue;
      // One of a clock that ran ahead is nobody's newest where there is another.
      const bool is_to_come = manifest->finished > clock_.Now();
      if (!newest.has_value() || !is_to_come) newest = Made{folder, *std::move(manifest)};
    }
  }
  MutexLock lock(mutex_);
  newest_ = std::move(newest);
  due_ = absl::InfiniteDuration();
  if (options_.every == absl::ZeroDuration()) return;
  const absl::Duration age =
      newest_.has_value() ? clock_.Now() - newest_->manifest.finished : absl::InfiniteDuration();
  due_ =
      clock_.SinceBoot() + std::clamp(options_.every - age, absl::ZeroDuration(), options_.every);
}

void BackupMaker::Run() {
  FindNewest();
  while (true) {
    {
      MutexLock lock(mutex_);
      while (!stopping_ && asking_.empty() && clock_.SinceBoot() < due_) {
        wake_.WaitFor(mutex_, due_ - clock_.SinceBoot());
      }
      if (stopping_) return;
      in_progress_.swap(asking_);
    }
    const absl::StatusOr<Made> made = Make();
    if (made.ok()) {
      Log(LogLevel::kInfo, "backup_made",
          {{"folder", made->folder},
           {"bytes", made->manifest.bytes()},
           {"ms", absl::ToInt64Milliseconds(made->manifest.took)}});
    } else {
      Log(LogLevel::kError, "backup_failed", {{"error", made.status().ToString()}});
    }
    Asking asked;
    std::optional<Made> newest;
    {
      MutexLock lock(mutex_);
      asked.swap(in_progress_);
      last_error_ = made.status();
      if (made.ok()) newest_ = *made;
      const bool by_itself = options_.every > absl::ZeroDuration();
      const absl::Duration wait = made.ok() ? options_.every : std::min(options_.every, kRetry);
      due_ = by_itself ? clock_.SinceBoot() + wait : absl::InfiniteDuration();
      newest = newest_;
    }
    // There may be no room as fewer are to be kept now.
    const bool makes_room = absl::IsResourceExhausted(made.status());
    if (newest.has_value() && (made.ok() || makes_room)) RemoveOld(*newest);
    for (const auto& done : asked) done(made);
  }
}

absl::StatusOr<BackupMaker::Made> BackupMaker::Make() {
  const absl::Duration began = clock_.SinceBoot();
  MUSTER_RETURN_IF_ERROR(CheckFolder());
  BackupManifest manifest;
  manifest.version = options_.version;
  manifest.term = sources_.term();
  const std::string name = BackupName(clock_.Now(), manifest.term);
  const std::string partial = absl::StrCat(options_.backup_dir, "/", kPartialPrefix, name);
  const std::string folder = absl::StrCat(options_.backup_dir, "/", name);
  absl::Status status = fs_.MakeDirectories(partial);
  if (status.ok()) status = Fill(partial, began, manifest);
  manifest.finished = clock_.Now();
  manifest.took = clock_.SinceBoot() - began;
  if (status.ok()) status = WriteManifest(fs_, partial, manifest);
  if (status.ok()) status = fs_.SyncDirectory(partial);
  if (status.ok()) status = fs_.Rename(partial, folder);
  if (status.ok()) status = fs_.SyncDirectory(options_.backup_dir);
  if (!status.ok()) {
    fs_.RemoveTree(partial).IgnoreError();  // else the next start removes it
    return absl::Status(status.code(), absl::StrCat("no backup was made: ", status.message()));
  }
  return Made{folder, std::move(manifest)};
}

// Not when musterd starts: to look at a mount whose server is away may take for ever.
absl::Status BackupMaker::CheckFolder() const {
  MUSTER_ASSIGN_OR_RETURN(const bool is_there, fs_.Exists(options_.backup_dir));
  if (!is_there) {
    return absl::FailedPreconditionError(
        absl::StrCat(options_.backup_dir, ": is not there; mount it, or make it (mode 0700)"));
  }
  std::error_code error;
  const std::string data = std::filesystem::canonical(options_.data_dir, error).string() + "/";
  const std::string backups = std::filesystem::canonical(options_.backup_dir, error).string() + "/";
  if (error || !absl::StartsWith(backups, data)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(options_.backup_dir, ": leads into the data folder, ", options_.data_dir,
                   ", and backups would be lost with it; choose a folder on another disk"));
}

absl::Status BackupMaker::Fill(const std::string& folder, absl::Duration began,
                               BackupManifest& manifest) {
  const absl::Status copied = CopyDatabases(folder, manifest);
  RemoveStaging(fs_, options_.data_dir);
  MUSTER_RETURN_IF_ERROR(copied);
  return CopyFiles(folder, began, manifest);
}

absl::Status BackupMaker::CheckRoomForStaging() const {
  uint64_t needed = kRoomLeft;
  for (const char* database : kDatabases) {
    std::error_code absent;
    const uint64_t bytes =
        std::filesystem::file_size(absl::StrCat(options_.data_dir, "/", database), absent);
    if (!absent) needed += bytes;
  }
  std::error_code unknown;
  const std::filesystem::space_info space = std::filesystem::space(options_.data_dir, unknown);
  if (unknown || space.available >= needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(options_.data_dir,
                   ": a backup needs room for a second copy of the databases there while it "
                   "is made: ",
                   HumanBytes(needed), ", and ", HumanBytes(space.available), " are free"));
}

absl::Status BackupMaker::CopyDatabases(const std::string& folder, BackupManifest& manifest) {
  MUSTER_RETURN_IF_ERROR(CheckRoomForStaging());
  const std::string staging = absl::StrCat(options_.data_dir, "/", kStaging);
  MUSTER_RETURN_IF_ERROR(fs_.MakeDirectories(staging));
  MUSTER_RETURN_IF_ERROR(sources_.copy_databases(staging));
  for (const char* database : kDatabases) {
    if (IsStopping()) return absl::UnavailableError("the controller is stopping");
    const std::string from = absl::StrCat(staging, "/", database);
    // As it would be restored: a source whose pages are broken gives a copy that is.
    MUSTER_RETURN_IF_ERROR(CheckCopy(from));
    MUSTER_ASSIGN_OR_RETURN(BackedUpFile file,
                            CopyFile(fs_, from, absl::StrCat(folder, "/", database), database));
    manifest.files.push_back(std::move(file));
  }
  return absl::OkStatus();
}

void BackupMaker::RemoveStaging(FileSystem& fs, const std::string& data_dir) {
  const absl::Status gone = fs.RemoveTree(absl::StrCat(data_dir, "/", kStaging));
  if (!gone.ok()) Log(LogLevel::kWarning, "backup_staging_stays", {{"error", gone.ToString()}});
}

absl::Status BackupMaker::CopyFiles(const std::string& folder, absl::Duration began,
                                    BackupManifest& manifest) {
  std::vector<std::string> names(std::begin(kPlainFiles), std::end(kPlainFiles));
  const std::string tls = absl::StrCat(options_.data_dir, "/", kTlsFolder);
  if (const absl::StatusOr<std::vector<FileInfo>> files = fs_.List(tls); files.ok()) {
    for (const FileInfo& file : *files) {
      if (file.is_directory || IsTemporaryName(file.name)) continue;
      names.push_back(absl::StrCat(kTlsFolder, "/", file.name));
    }
  } else if (!absl::IsNotFound(files.status())) {
    return files.status();
  }
  // A job that has ended since then lives in the copy.
  for (const std::string& hash : sources_.uploads(clock_.SinceBoot() - began)) {
    if (IsSha256Hex(hash)) names.push_back(absl::StrCat(kUploads, "/", hash));
  }
  for (const std::string& name : names) {
    const std::string from = absl::StrCat(options_.data_dir, "/", name);
    MUSTER_ASSIGN_OR_RETURN(const bool exists, fs_.Exists(from));
    if (!exists) continue;
    const std::string to = absl::StrCat(folder, "/", name);
    MUSTER_RETURN_IF_ERROR(fs_.MakeDirectories(ParentFolder(to)));
    absl::StatusOr<BackedUpFile> copied = CopyFile(fs_, from, to, name);
    // An upload may go meanwhile, with its job.
    if (absl::IsNotFound(copied.status())) continue;
    MUSTER_RETURN_IF_ERROR(copied.status());
    MUSTER_RETURN_IF_ERROR(fs_.SyncDirectory(ParentFolder(to)));
    manifest.files.push_back(*std::move(copied));
  }
  return absl::OkStatus();
}

void BackupMaker::RemoveOld(const Made& made) {
  const absl::StatusOr<std::vector<FileInfo>> entries = fs_.List(options_.backup_dir);
  if (!entries.ok()) return;
  const std::string newest = std::filesystem::path(made.folder).filename().string();
  std::vector<std::string> names;  // of the others
  for (const FileInfo& entry : *entries) {
    if (IsBackupName(entry.name) && entry.name != newest) names.push_back(entry.name);
  }
  // Names begin with their time. What is later than the newest was made by a clock that ran ahead;
  // it goes first.
  std::sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return std::make_pair(a < newest, a) < std::make_pair(b < newest, b);
  });
  const size_t keep_others = std::max<size_t>(1, options_.keep) - 1;
  for (size_t i = 0; i + keep_others < names.size(); ++i) {
    const absl::Status gone = Remove(names[i]);
    Log(gone.ok() ? LogLevel::kInfo : LogLevel::kWarning,
        gone.ok() ? "backup_removed" : "backup_stays",
        {{"folder", names[i]}, {"status", gone.ToString()}});
  }
}

absl::Status BackupMaker::Remove(const std::string& name) {
  // Renamed first: what is half removed is nobody's backup.
  const std::string partial = absl::StrCat(options_.backup_dir, "/", kPartialPrefix, name);
  MUSTER_RETURN_IF_ERROR(fs_.Rename(absl::StrCat(options_.backup_dir, "/", name), partial));
  return fs_.RemoveTree(partial);
}

}  // namespace muster::controller
