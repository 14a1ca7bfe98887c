#include "worker/data/index/data_indexes.h"

#include <xxhash.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/deadline.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/fs/cache_folder.h"
#include "common/fs/file_lock.h"
#include "common/object_store/remote_path.h"
#include "common/os/path_text.h"
#include "common/os/sha256.h"
#include "worker/data/base/sample_source.h"
#include "worker/data/formats/image_folder.h"
#include "worker/data/formats/lmdb.h"
#include "worker/data/formats/record_io.h"
#include "worker/data/formats/shard_index.h"
#include "worker/data/formats/tf_record.h"
#include "worker/data/formats/web_dataset.h"
#include "worker/data/index/index_folder.h"
#include "worker/data/index/index_progress.h"
#include "worker/data/index/index_writer.h"
#include "worker/data/index/parquet_rows.h"

namespace muster::worker {
namespace {

constexpr Split kSplits[] = {Split::kTrain, Split::kValidation, Split::kTest};
// Part of an index's name: higher when the rules change by which samples are found.
constexpr int kIndexRules = 1;
constexpr int kUrlIndexRules = 2;  // earlier ones name files with the signatures of their URLs
constexpr absl::Duration kLockPause = absl::Milliseconds(100);
// Of the training set, where nothing else is for validation and test.
constexpr uint64_t kHashParts = 10;
// Below an image folder far away, whose links may lead in a circle.
constexpr int kMostListedLevels = 70;
// Of what is left out of a whole set: lines for people to read. An agent ends a look that writes
// without end.
constexpr uint64_t kMostWarnings = 100;
// Of the samples of each split that are being indexed, before they are put aside.
constexpr uint64_t kSplitMemoryBytes = 24u << 20;

// Without what may be secret in a signed URL, and is other in each.
std::string PathForPeople(const std::string& path) {
  return IsRemotePath(path) ? UrlForPeople(path) : path;
}

// Gives each sample to the split that it is in, and to a split only the files that it has samples
// in. A format adds the samples of a file before the next file.
class SplitSink final : public SampleSink {
 public:
  // `counts`: its samples are not those of another split.
  SplitSink(std::vector<IndexWriter*> writers, bool counts, IndexProgress& progress)
      : progress_(progress),
        counts_(counts),
        writers_(std::move(writers)),
        numbers_(writers_.size()) {}

  uint32_t AddFile(const std::string& path, uint64_t size_bytes) override {
    path_ = path;
    size_bytes_ = size_bytes;
    std::fill(numbers_.begin(), numbers_.end(), std::nullopt);
    return files_++;
  }
  absl::Status Add(const FoundSample& sample) override {
    MUSTER_RETURN_IF_ERROR(counts_ ? progress_.SampleFound() : progress_.GoesOn());
    MUSTER_CHECK(sample.file + 1 == files_, "a sample lies in the file that was added last");
    const size_t split = writers_.size() == 1 ? 0 : static_cast<size_t>(SplitOfKey(sample.key));
    if (!numbers_[split].has_value())
      numbers_[split] = writers_[split]->AddFile(path_, size_bytes_);
    FoundSample own = sample;
    own.file = *numbers_[split];
    return writers_[split]->Add(own);
  }

 private:
  IndexProgress& progress_;
  const bool counts_;
  const std::vector<IndexWriter*> writers_;
  // Of the file that was added last: its number for each writer that has it.
  std::vector<std::optional<uint32_t>> numbers_;
  std::string path_;
  uint64_t size_bytes_ = 0;
  uint32_t files_ = 0;
};

class IndexMaker {
 public:
  IndexMaker(AnyFileSystem& data, FileSystem& local, const IndexOptions& options)
      : data_(data), local_(local), options_(options), progress_(options) {}

  absl::StatusOr<DataIndexes> Run() {
    absl::StatusOr<DataIndexes> indexes = OpenOrMake();
    // Who asks whether something is there may take a read that was stopped for a no.
    if (!indexes.ok()) MUSTER_RETURN_IF_ERROR(progress_.GoesOn());
    return indexes;
  }

 private:
  absl::StatusOr<DataIndexes> OpenOrMake() {
    MUSTER_ASSIGN_OR_RETURN(found_, FindFormat(watched_, options_.path));
    MUSTER_RETURN_IF_ERROR(CheckFormat());
    MUSTER_RETURN_IF_ERROR(SortSplits());
    MUSTER_RETURN_IF_ERROR(Name());
    if (!options_.anew) {
      MUSTER_ASSIGN_OR_RETURN(std::optional<DataIndexes> there, Open());
      if (there.has_value()) return *std::move(there);
    }
    MUSTER_RETURN_IF_ERROR(local_.MakeDirectories(folder_));
    MUSTER_ASSIGN_OR_RETURN(lock_, Lock());
    if (lock_.has_value()) progress_.Hold(&*lock_);
    if (!options_.anew) {
      // Another process may have made them meanwhile.
      MUSTER_ASSIGN_OR_RETURN(std::optional<DataIndexes> there, Open());
      if (there.has_value()) return *std::move(there);
    }
    MUSTER_RETURN_IF_ERROR(Make(/*is_locked=*/lock_.has_value()));
    RemoveUnusedIndexes(folder_, name_);
    MUSTER_ASSIGN_OR_RETURN(std::optional<DataIndexes> made, Open());
    if (!made.has_value())
      return absl::UnavailableError(absl::StrCat(folder_, ": indexes that were made are gone"));
    return *std::move(made);
  }

  // Waits for another process that makes them, for as long as it lives. Nothing: the folder's disk
  // has no locks, so several may make them at once; each makes the same ones.
  absl::StatusOr<std::optional<FileLock>> Lock() {
    std::string beat;  // the last sign of life
    Deadline patience(options_.patience);
    for (bool first = true;; first = false) {
      absl::StatusOr<std::optional<FileLock>> lock = FileLock::Try(IndexPath("lock"));
      if (absl::IsUnimplemented(lock.status())) {
        Log(LogLevel::kWarning, "index_not_locked",
            {{"error", lock.status().message()},
             {"note",
              "each process makes the index; MUSTER_INDEX_DIR names a folder of this machine"}});
        return std::nullopt;
      }
      MUSTER_RETURN_IF_ERROR(lock.status());
      if (lock->has_value()) return lock;
      if (first) {
        Log(LogLevel::kInfo, "index_awaited",
            {{"data", PathForPeople(options_.path)}, {"lock", IndexPath("lock")}});
      }
      MUSTER_RETURN_IF_ERROR(progress_.GoesOn());
      const absl::StatusOr<FileVersion> now = data_.Version(IndexPath("lock"));
      if (now.ok() && now->tag != beat) {
        beat = now->tag;
        patience = Deadline(options_.patience);
      } else if (patience.over()) {
        return absl::UnavailableError(absl::StrCat(
            IndexPath("lock"), " is held by a process that has given no sign of life ", "for ",
            absl::FormatDuration(options_.patience), ": look for who stopped there"));
      }
      absl::SleepFor(kLockPause);
    }
  }

  absl::Status CheckFormat() const {
    if (found_.format != DataFormat::kNpy) return absl::OkStatus();
    return absl::UnimplementedError(
        absl::StrCat(options_.path, " holds NumPy's arrays: train.data.numpy reads them"));
  }

  // Which files are for training, validation and test.
  absl::Status SortSplits() {
    MUSTER_RETURN_IF_ERROR(TakeUnnamedForTraining(options_.path, found_));
    if (found_.validation.empty()) found_.validation = found_.test;
    if (found_.test.empty()) found_.test = found_.validation;
    return absl::OkStatus();
  }
  bool splits_off() const { return found_.validation.empty(); }
  const std::vector<std::string>& FilesOf(Split split) const {
    return split == Split::kTrain        ? found_.train
           : split == Split::kValidation ? found_.validation
                                         : found_.test;
  }

  // By all that tells one state of the data from another, without reading them.
  absl::Status Name() {
    folder_ = options_.folder.empty() ? IndexFolder() : options_.folder;
    const bool is_url = absl::StartsWith(options_.path, "http");
    std::string what = absl::StrCat(is_url ? kUrlIndexRules : kIndexRules, "\n",
                                    PathForPeople(WithoutTrailingSlashes(options_.path)), "\n",
                                    DataFormatName(found_.format), "\n");
    for (const Split split : kSplits) {
      for (const std::string& file : FilesOf(split)) {
        absl::StrAppend(&what, SplitName(split), " ", PathForPeople(file));
        MUSTER_RETURN_IF_ERROR(AppendVersion(file, what));
      }
    }
    if (found_.format == DataFormat::kWebDataset) {
      MUSTER_ASSIGN_OR_RETURN(class_names_,
                              ReadClassNames(watched_, ParentFolder(found_.train.front())));
      if (!class_names_.empty())
        absl::StrAppend(&what, "classes\n", absl::StrJoin(class_names_, "\n"), "\n");
    }
    name_ = Sha256Hex(what).substr(0, 32);
    return absl::OkStatus();
  }
  absl::Status AppendVersion(const std::string& file, std::string& what) {
    MUSTER_RETURN_IF_ERROR(progress_.GoesOn());
    if (found_.format == DataFormat::kImageFolder)
      return IsRemotePath(file) ? AppendTree(file, what, 0) : AppendClassFolders(file, what);
    MUSTER_ASSIGN_OR_RETURN(const FileVersion version, data_.Version(file));
    absl::StrAppend(&what, " ", version.size_bytes, " ", version.tag, "\n");
    const std::optional<std::string> beside = FileBeside(file);
    if (!beside.has_value()) return absl::OkStatus();
    const absl::StatusOr<FileVersion> its = data_.Version(*beside);
    if (its.ok()) absl::StrAppend(&what, "beside ", its->size_bytes, " ", its->tag, "\n");
    return IsNotToBeRead(its.status()) ? absl::OkStatus() : its.status();
  }
  // Which keys or labels may come from.
  std::optional<std::string> FileBeside(const std::string& file) const {
    if (found_.format == DataFormat::kWebDataset) return ShardIndexPath(file);
    if (found_.format == DataFormat::kRecordIo) return RecordIdxPath(file);
    return std::nullopt;
  }
  // There is no such file. S3 denies what is not there to those who may not list.
  static bool IsNotToBeRead(const absl::Status& status) {
    return absl::IsNotFound(status) || absl::IsPermissionDenied(status) ||
           absl::IsFailedPrecondition(status);
  }
  // By the class folders' time of change: that of a picture that comes or goes.
  absl::Status AppendClassFolders(const std::string& root, std::string& what) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<FileInfo> folders, data_.List(root));
    for (const FileInfo& folder : folders) {
      absl::StrAppend(&what, "\n", folder.name);
      const absl::StatusOr<FileVersion> version =
          data_.Version(absl::StrCat(root, "/", folder.name));
      if (!version.ok() && !absl::IsNotFound(version.status())) return version.status();
      if (version.ok()) absl::StrAppend(&what, " ", version->tag);
      MUSTER_RETURN_IF_ERROR(progress_.GoesOn());
    }
    what += "\n";
    return absl::OkStatus();
  }
  // Object stores know no folders, and so no time of their change: by all names and sizes.
  absl::Status AppendTree(const std::string& folder, std::string& what, int level) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<FileInfo> entries, data_.List(folder));
    MUSTER_RETURN_IF_ERROR(progress_.GoesOn());
    std::string names;
    for (const FileInfo& entry : entries)
      absl::StrAppend(&names, entry.name, " ", entry.is_directory, " ", entry.size_bytes, "\n");
    absl::StrAppend(&what, " ", Sha256Hex(names), "\n");
    if (level == kMostListedLevels) return absl::OkStatus();  // who indexes it says so
    for (const FileInfo& entry : entries) {
      if (!entry.is_directory) continue;
      MUSTER_RETURN_IF_ERROR(AppendTree(absl::StrCat(folder, "/", entry.name), what, level + 1));
    }
    return absl::OkStatus();
  }
  std::string IndexPath(absl::string_view what) const {
    return absl::StrCat(folder_, "/", name_, ".", what);
  }

  // Nothing: one at least is not there, or broken.
  absl::StatusOr<std::optional<DataIndexes>> Open() {
    DataIndexes indexes;
    indexes.format = found_.format;
    for (const Split split : kSplits) {
      auto index = SampleIndex::Open(IndexPath(absl::StrCat(SplitName(split), ".idx")),
                                     [this] { return progress_.GoesOn(); });
      if (absl::IsNotFound(index.status())) return std::nullopt;
      if (absl::IsDataLoss(index.status())) {
        Log(LogLevel::kWarning, "index_broken", {{"error", index.status().message()}});
        return std::nullopt;
      }
      if (!index.ok()) return index.status();
      // One of another making would have other classes.
      if (split != Split::kTrain && (*index)->set() != indexes.splits[0]->set())
        return std::nullopt;
      NoteUseOfIndex((*index)->path());
      indexes.splits[static_cast<size_t>(split)] = *std::move(index);
    }
    return indexes;
  }

  // `is_locked`: no other process of this machine makes them now.
  absl::Status Make(bool is_locked) {
    Log(LogLevel::kInfo, "index_begun",
        {{"data", PathForPeople(options_.path)}, {"format", DataFormatName(found_.format)}});
    const IndexWriterOptions writing{.memory_bytes = kSplitMemoryBytes, .alone = is_locked};
    std::vector<std::unique_ptr<IndexWriter>> writers;
    for (const Split split : kSplits) {
      writers.push_back(std::make_unique<IndexWriter>(
          local_, IndexPath(absl::StrCat(SplitName(split), ".idx")), writing));
    }
    MUSTER_ASSIGN_OR_RETURN(std::vector<std::string> classes, ClassesBeforehand());
    for (const Split split : kSplits) {
      std::vector<IndexWriter*> into = {writers[static_cast<size_t>(split)].get()};
      if (split == Split::kTrain && splits_off())
        into = {writers[0].get(), writers[1].get(), writers[2].get()};
      const bool is_validation_again =
          split == Split::kTest && FilesOf(split) == FilesOf(Split::kValidation);
      SplitSink sink(into, /*counts=*/!is_validation_again, progress_);
      MUSTER_RETURN_IF_ERROR(IndexFiles(FilesOf(split), sink, classes));
    }
    if (untold_ > 0) {
      Log(LogLevel::kWarning, "index_warnings_left_out",
          {{"data", PathForPeople(options_.path)}, {"more", untold_}});
    }
    // Where there are no locks two processes may each have made some of the indexes that are found.
    std::string all = absl::StrJoin(classes, "\n");
    for (const std::unique_ptr<IndexWriter>& writer : writers)
      absl::StrAppend(&all, "\n", writer->samples(), " ", writer->content());
    const std::string set = Sha256Hex(all).substr(0, 16);
    for (const std::unique_ptr<IndexWriter>& writer : writers)
      MUSTER_RETURN_IF_ERROR(writer->Finish(classes, set, [this] { return progress_.GoesOn(); }));
    options_.progress(progress_.samples());
    Log(LogLevel::kInfo, "index_made",
        {{"data", PathForPeople(options_.path)},
         {"samples", progress_.samples()},
         {"index", IndexPath("train.idx")}});
    return absl::OkStatus();
  }

  // Those that the data name beside the files, or that several files have only together.
  absl::StatusOr<std::vector<std::string>> ClassesBeforehand() {
    if (found_.format != DataFormat::kLmdb || found_.train.size() == 1) return class_names_;
    std::set<std::string> all;
    for (const std::string& file : found_.train) {
      MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> classes,
                              FindLmdbClasses(watched_, file));
      all.insert(classes.begin(), classes.end());
    }
    return std::vector<std::string>(all.begin(), all.end());
  }

  // `classes`: of the splits before, for those whose files name them; filled by the first.
  absl::Status IndexFiles(const std::vector<std::string>& files, SampleSink& sink,
                          std::vector<std::string>& classes) {
    for (const std::string& file : files) {
      MUSTER_ASSIGN_OR_RETURN(const IndexReport report, IndexOne(file, sink, classes));
      WarnOfLeftOut(file, report);
    }
    return absl::OkStatus();
  }

  void WarnOfLeftOut(const std::string& file, const IndexReport& report) {
    uint64_t untold = report.left_out;
    for (const std::string& reason : report.reasons) {
      if (!MayWarn()) break;
      Log(LogLevel::kWarning, "not_indexed", {{"reason", reason}});
      --untold;
    }
    if (untold > 0 && MayWarn()) {
      Log(LogLevel::kWarning, "not_indexed", {{"file", PathForPeople(file)}, {"more", untold}});
      untold = 0;
    }
    untold_ += untold;
  }

  // Whether there is a line left for it.
  bool MayWarn() {
    if (warnings_ == kMostWarnings) return false;
    ++warnings_;
    return true;
  }

  absl::StatusOr<IndexReport> IndexOne(const std::string& file, SampleSink& sink,
                                       std::vector<std::string>& classes) {
    switch (found_.format) {
      case DataFormat::kImageFolder: {
        ImageFolderOptions folder;
        folder.classes = classes;
        MUSTER_ASSIGN_OR_RETURN(ImageFolderIndex index,
                                IndexImageFolder(watched_, file, folder, sink));
        if (classes.empty()) classes = std::move(index.classes);
        return std::move(index.report);
      }
      case DataFormat::kLmdb: {
        LmdbOptions lmdb;
        lmdb.classes = classes;
        MUSTER_ASSIGN_OR_RETURN(LmdbIndex index, IndexLmdb(watched_, file, lmdb, sink));
        if (classes.empty()) classes = std::move(index.classes);
        return std::move(index.report);
      }
      case DataFormat::kWebDataset:
        return IndexShard(file, sink);
      case DataFormat::kTfRecord:
        return IndexTfRecords(watched_, file, {}, sink);
      case DataFormat::kRecordIo:
        return IndexRecordIo(watched_, file, {}, sink);
      case DataFormat::kParquet:
        return IndexParquet(file, sink, classes);
      case DataFormat::kNpy:
        break;
    }
    return absl::InternalError("a format without an index");
  }

  // By the index beside it, where there is one.
  absl::StatusOr<IndexReport> IndexShard(const std::string& path, SampleSink& sink) {
    const std::optional<std::string> beside = ShardIndexPath(path);
    if (!beside.has_value()) return IndexWebDataset(watched_, path, {}, sink);
    const absl::StatusOr<std::string> text = watched_.ReadFile(*beside, kMostShardIndexBytes);
    if (IsNotToBeRead(text.status())) return IndexWebDataset(watched_, path, {}, sink);
    MUSTER_RETURN_IF_ERROR(text.status());
    MUSTER_ASSIGN_OR_RETURN(const FileVersion version, data_.Version(path));
    IndexedShard shard{path, version.size_bytes, nullptr};
    // A header at a time, not a block of the cache.
    shard.read = [&](uint64_t offset, char* buffer, uint64_t bytes) {
      return data_.ReadVersion(path, version, offset, buffer, bytes);
    };
    absl::StatusOr<std::optional<IndexReport>> report =
        IndexByShardIndex(shard, *beside, *text, {}, sink);
    if (absl::IsInvalidArgument(report.status())) {
      if (MayWarn()) {
        Log(LogLevel::kWarning, "shard_index_ignored",
            {{"error", report.status().message()}, {"note", "the shard itself is read"}});
      } else {
        ++untold_;
      }
      return IndexWebDataset(watched_, path, {}, sink);
    }
    MUSTER_RETURN_IF_ERROR(report.status());
    if (report->has_value()) return **std::move(report);
    return IndexWebDataset(watched_, path, {}, sink);
  }

  // Pictures that lie in the file as they are.
  absl::StatusOr<IndexReport> IndexParquet(const std::string& path, SampleSink& sink,
                                           std::vector<std::string>& classes) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t size, watched_.FileSize(path));
    const uint32_t number = sink.AddFile(path, size);
    IndexReport report;
    const auto add = [&](const std::string& key, const ImageRow& row) -> absl::Status {
      if (row.file_offset == ParquetValue::kNowhere) {
        return absl::InvalidArgumentError(
            absl::StrCat(path,
                         ": its pictures lie in compressed pages, and cannot be read one by "
                         "one; `muster data pack` makes shards of them"));
      }
      ++report.samples;
      return sink.Add({key, number, row.file_offset, row.bytes.size(), row.label});
    };
    MUSTER_RETURN_IF_ERROR(ForEachParquetRow(watched_, path, {}, classes, add));
    return report;
  }

  AnyFileSystem& data_;
  FileSystem& local_;
  const IndexOptions& options_;
  FoundData found_;
  IndexProgress progress_;
  WatchedFiles watched_{data_, progress_};
  std::optional<FileLock> lock_;
  std::string folder_;
  std::string name_;
  std::vector<std::string> class_names_;  // of WebDataset
  uint64_t warnings_ = 0;                 // lines so far
  uint64_t untold_ = 0;                   // what there was no line for
};

}  // namespace

absl::StatusOr<DataIndexes> OpenOrMakeIndexes(AnyFileSystem& data, FileSystem& local,
                                              const IndexOptions& options) {
  IndexOptions own = options;
  MUSTER_ASSIGN_OR_RETURN(own.path, data.KeepQuery(options.path));
  return IndexMaker(data, local, own).Run();
}

Split SplitOfKey(absl::string_view key) {
  const uint64_t part = XXH3_64bits(key.data(), key.size()) % kHashParts;
  return part == 0 ? Split::kValidation : part == 1 ? Split::kTest : Split::kTrain;
}

std::string IndexFolder() { return CacheFolder("MUSTER_INDEX_DIR", "index"); }

}  // namespace muster::worker
