#include "worker/data_tool/pack/packer.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/fs/file_lock.h"
#include "nlohmann/json.hpp"
#include "worker/data/formats/find_format.h"
#include "worker/data/formats/shard_index.h"
#include "worker/data/formats/web_dataset.h"
#include "worker/data/order/sampler.h"
#include "worker/data_tool/base/interruption.h"
#include "worker/data_tool/base/parallel_work.h"
#include "worker/data_tool/pack/member_key.h"
#include "worker/data_tool/pack/pack_source.h"
#include "worker/data_tool/pack/tar_writer.h"

namespace muster::worker {
namespace {

constexpr int kPackVersion = 1;
constexpr uint64_t kMostSettingsBytes = 1u << 20;
constexpr char kSettingsFile[] = "pack.json";
constexpr char kLockFile[] = ".pack.lock";
constexpr char kWorkFolder[] = ".pack";
constexpr absl::Duration kPackLockPause = absl::Milliseconds(100);
constexpr uint64_t kMostShards = 1'000'000;  // six digits

struct ShardJob {
  const SampleSet* set = nullptr;
  PlaceRange places;  // of the set's shuffle
  std::string path;
  std::string part;
};

class Packer {
 public:
  Packer(AnyFileSystem& data, FileSystem& local, const PackRequest& request)
      : data_(data), local_(local), request_(request), settings_(request.settings) {}

  absl::StatusOr<PackReport> Run() {
    MUSTER_RETURN_IF_ERROR(CheckPlace());
    MUSTER_RETURN_IF_ERROR(LookAtFolder());
    MUSTER_RETURN_IF_ERROR(local_.MakeDirectories(Out(kWorkFolder)));
    MUSTER_ASSIGN_OR_RETURN(const FileLock lock, Lock());
    // Another pack may have come before.
    MUSTER_RETURN_IF_ERROR(LookAtFolder());
    for (const std::string& name : temporary_) MUSTER_RETURN_IF_ERROR(local_.RemoveTree(Out(name)));
    MUSTER_RETURN_IF_ERROR(local_.MakeDirectories(Out(kWorkFolder)));
    MUSTER_RETURN_IF_ERROR(OpenSource());
    MUSTER_RETURN_IF_ERROR(CheckSettings());
    MUSTER_RETURN_IF_ERROR(PlanShards());
    if (!missing_.empty()) {
      MUSTER_RETURN_IF_ERROR(Put(kUnfinishedPack, "shards are missing; pack again\n"));
      MUSTER_RETURN_IF_ERROR(Put(kSettingsFile, settings_text_));
      MUSTER_RETURN_IF_ERROR(WriteClassNames());
      MUSTER_RETURN_IF_ERROR(WriteShards());
    }
    MUSTER_RETURN_IF_ERROR(WriteIndexes());
    MUSTER_RETURN_IF_ERROR(CleanUp());
    report_.changed_keys = source_->changed_keys();
    return report_;
  }

 private:
  std::string Out(absl::string_view name) const { return absl::StrCat(request_.out, "/", name); }

  // Waits for as long as another process packs there.
  absl::StatusOr<FileLock> Lock() {
    while (true) {
      MUSTER_ASSIGN_OR_RETURN(std::optional<FileLock> lock, FileLock::Try(Out(kLockFile)));
      if (lock.has_value()) return *std::move(lock);
      MUSTER_RETURN_IF_ERROR(CheckInterrupted());
      absl::SleepFor(kPackLockPause);
    }
  }

  absl::Status CheckPlace() const {
    const auto whole = [](const std::string& path) {
      std::error_code ignored;
      std::string text = std::filesystem::weakly_canonical(path, ignored).string();
      if (!absl::EndsWith(text, "/")) text += '/';
      return text;
    };
    if (absl::StartsWith(whole(request_.out), whole(request_.path))) {
      return absl::FailedPreconditionError(
          absl::StrCat(request_.out, " lies within the data: pack into a folder beside it"));
    }
    return absl::OkStatus();
  }

  // Which files of a pack are there.
  absl::Status LookAtFolder() {
    was_begun_ = false;
    temporary_.clear();
    std::string other;  // a file that is none of a pack's own
    absl::StatusOr<std::vector<FileInfo>> entries = local_.List(request_.out);
    if (absl::IsNotFound(entries.status())) return absl::OkStatus();
    MUSTER_RETURN_IF_ERROR(entries.status());
    for (const FileInfo& entry : *entries) {
      was_begun_ = was_begun_ || entry.name == kSettingsFile;
      if (entry.name == kSettingsFile || entry.name == kUnfinishedPack ||
          entry.name == kWorkFolder || entry.name == kLockFile) {
        continue;
      }
      if (IsTemporaryName(entry.name)) {
        temporary_.push_back(entry.name);
        continue;
      }
      other = entry.name;
    }
    if (was_begun_ || other.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        request_.out, " holds ", other, " and no ", kSettingsFile, ": pack into an empty folder"));
  }

  absl::Status OpenSource() {
    // A spool from before there were settings may be of other data.
    if (!was_begun_) {
      MUSTER_RETURN_IF_ERROR(local_.RemoveTree(Out(kWorkFolder)));
      MUSTER_RETURN_IF_ERROR(local_.MakeDirectories(Out(kWorkFolder)));
    }
    SourceOptions options;
    options.path = request_.path;
    options.spool_folder = Out(kWorkFolder);
    options.validation = settings_.validation;
    options.numbered = settings_.numbered;
    options.progress = request_.index_progress;
    MUSTER_ASSIGN_OR_RETURN(source_, PackSource::Open(data_, local_, options));
    report_.samples = source_->samples();
    return absl::OkStatus();
  }

  absl::Status CheckSettings() {
    nlohmann::json now = {{"version", kPackVersion},
                          {"shard_mib", settings_.shard_mib},
                          {"resize", settings_.resize},
                          {"repack", settings_.repack},
                          {"validation", settings_.validation},
                          {"numbered", settings_.numbered},
                          {"data", source_->fingerprint()},
                          {"samples", source_->samples()},
                          {"bytes", source_->bytes()}};
    // Only then, so that packs which were begun before this was done go on as they were.
    if (source_->holds_out_by_key()) now["held_out_by_key"] = true;
    settings_text_ = now.dump(2) + "\n";
    if (!was_begun_) return absl::OkStatus();
    MUSTER_ASSIGN_OR_RETURN(const std::string text,
                            local_.ReadFile(Out(kSettingsFile), kMostSettingsBytes));
    const auto before = nlohmann::json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
    if (before == now) return absl::OkStatus();
    std::string what = "is no such file";
    if (before.is_object()) {
      for (const auto& [key, value] : now.items()) {
        if (before.contains(key) && before[key] == value) continue;
        what = absl::StrCat("was begun with ", key, " ",
                            before.contains(key) ? before[key].dump() : "unset", ", and now it is ",
                            value.dump());
        break;
      }
    }
    return absl::FailedPreconditionError(absl::StrCat(
        Out(kSettingsFile), " ", what, ": go on as it was begun, or pack into another folder"));
  }

  absl::Status PlanShards() {
    const uint64_t shard_bytes = settings_.shard_mib << 20;
    for (const SampleSet& set : source_->sets()) {
      // Sets are mixtures alike: a share of the samples has that share of the bytes, or nearly so.
      const double bytes = source_->samples() == 0 ? 0
                                                   : static_cast<double>(source_->bytes()) *
                                                         static_cast<double>(set.size()) /
                                                         static_cast<double>(source_->samples());
      const auto wanted = static_cast<uint64_t>(bytes / static_cast<double>(shard_bytes)) + 1;
      const uint64_t shards = std::max<uint64_t>(1, std::min(wanted, set.size()));
      if (shards > kMostShards) {
        return absl::InvalidArgumentError(absl::StrCat(shards, " shards are more than ",
                                                       kMostShards, ": want a larger --shard-mb"));
      }
      for (uint64_t shard = 0; shard < shards; ++shard) {
        const std::string name = absl::StrFormat("%s-%06d.tar", set.name(), shard);
        ShardJob job{
            &set, EvenPart(set.size(), static_cast<uint32_t>(shard), static_cast<uint32_t>(shards)),
            Out(name), Out(absl::StrCat(kWorkFolder, "/", name, ".part"))};
        ++report_.shards;
        MUSTER_ASSIGN_OR_RETURN(const bool there, local_.Exists(job.path));
        shards_.push_back(job.path);
        if (!there) missing_.push_back(std::move(job));
      }
    }
    return absl::OkStatus();
  }

  // As it is, where it is there.
  absl::Status Put(absl::string_view name, absl::string_view text) {
    MUSTER_ASSIGN_OR_RETURN(const bool there, local_.Exists(Out(name)));
    return there ? absl::OkStatus() : WriteFileAtomically(local_, Out(name), text);
  }

  absl::Status WriteClassNames() {
    std::string text;
    for (const std::string& name : source_->class_names()) {
      // A name of two lines cannot be written there; then there are none.
      if (name.empty() || name.find_first_of("\n\r") != std::string::npos) return absl::OkStatus();
      absl::StrAppend(&text, name, "\n");
    }
    return text.empty() ? absl::OkStatus() : Put(kClassNamesFile, text);
  }

  absl::Status WriteShards() {
    uint64_t samples = 0;
    for (const ShardJob& job : missing_) samples += job.places.size();
    request_.begin(samples);
    return DoInParallel(request_.threads, missing_.size(), [&](int /*thread*/, uint64_t number) {
      return WriteShard(missing_[number]);
    });
  }

  absl::Status WriteShard(const ShardJob& job) {
    PicturePacker pictures(settings_.resize, settings_.repack);
    PackReport own;
    MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<TarWriter> tar,
                            TarWriter::Create(local_, job.path, job.part));
    for (uint64_t place = job.places.begin; place < job.places.end; ++place) {
      MUSTER_RETURN_IF_ERROR(CheckInterrupted());
      const uint64_t number = Permute(/*seed=*/0, /*round=*/0, job.set->size(), place);
      MUSTER_RETURN_IF_ERROR(WriteSample(*job.set, number, pictures, *tar, own));
      request_.progress();
    }
    MUSTER_RETURN_IF_ERROR(tar->Finish());
    MutexLock lock(mutex_);
    ++report_.shards_written;
    report_.bytes_read += own.bytes_read;
    report_.bytes_written += own.bytes_written;
    for (size_t i = 0; i < kPackings; ++i) report_.packings[i] += own.packings[i];
    return absl::OkStatus();
  }

  absl::Status WriteSample(const SampleSet& set, uint64_t number, PicturePacker& pictures,
                           TarWriter& tar, PackReport& report) {
    MUSTER_ASSIGN_OR_RETURN(const StoredPlace place, set.At(number));
    MUSTER_ASSIGN_OR_RETURN(const std::string key, MemberKey(place.key));
    std::string bytes;
    if (const absl::Status read = source_->Read(place, bytes); !read.ok()) {
      return absl::Status(read.code(), absl::StrCat("sample ", place.key, ": ", read.message()));
    }
    report.bytes_read += bytes.size();
    const PackedPicture packed = pictures.Pack(std::move(bytes));
    report.bytes_written += packed.bytes.size();
    ++report.packings[static_cast<size_t>(packed.packing)];
    MUSTER_RETURN_IF_ERROR(tar.Add(absl::StrCat(key, ".", packed.extension), packed.bytes));
    if (place.label == kNoLabel) return absl::OkStatus();
    return tar.Add(absl::StrCat(key, ".cls"), absl::StrCat(place.label));
  }

  // Beside each shard that has none: who reads shards from afar then need not look through them.
  absl::Status WriteIndexes() {
    return DoInParallel(request_.threads, shards_.size(), [&](int /*thread*/, uint64_t number) {
      return WriteIndex(shards_[number]);
    });
  }

  absl::Status WriteIndex(const std::string& shard) {
    MUSTER_RETURN_IF_ERROR(CheckInterrupted());
    const std::string path = *ShardIndexPath(shard);
    MUSTER_ASSIGN_OR_RETURN(const bool there, local_.Exists(path));
    if (there) return absl::OkStatus();
    const absl::StatusOr<std::string> text = MakeShardIndex(local_, shard, {});
    // Keys with a space in them: then there is none.
    if (absl::IsFailedPrecondition(text.status())) return absl::OkStatus();
    MUSTER_RETURN_IF_ERROR(text.status());
    return WriteFileAtomically(local_, path, *text);
  }

  // Only now is it whole.
  absl::Status CleanUp() {
    MUSTER_RETURN_IF_ERROR(local_.RemoveTree(Out(kWorkFolder)));
    MUSTER_ASSIGN_OR_RETURN(const bool marked, local_.Exists(Out(kUnfinishedPack)));
    if (marked) MUSTER_RETURN_IF_ERROR(local_.RemoveFile(Out(kUnfinishedPack)));
    MUSTER_RETURN_IF_ERROR(local_.SyncDirectory(request_.out));
    return local_.RemoveFile(Out(kLockFile));
  }

  AnyFileSystem& data_;
  FileSystem& local_;
  const PackRequest& request_;
  const PackSettings& settings_;
  bool was_begun_ = false;
  std::vector<std::string> temporary_;
  std::unique_ptr<PackSource> source_;
  std::string settings_text_;
  std::vector<std::string> shards_;  // all of them
  std::vector<ShardJob> missing_;
  Mutex mutex_;
  PackReport report_;  // its sums of shards: under mutex_ while they are written
};

}  // namespace

absl::StatusOr<PackReport> PackData(AnyFileSystem& data, FileSystem& local,
                                    const PackRequest& request) {
  return Packer(data, local, request).Run();
}

}  // namespace muster::worker
