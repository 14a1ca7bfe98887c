#include "worker/data/index/data_indexes.h"

#include <xxhash.h>

#include <algorithm>
#include <optional>
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
#include "common/ckpt/block_hasher.h"
#include "common/fs/cache_folder.h"
#include "common/fs/file_lock.h"
#include "common/object_store/remote_path.h"
#include "worker/data/base/sample_source.h"
#include "worker/data/formats/image_folder.h"
#include "worker/data/formats/lmdb.h"
#include "worker/data/formats/record_io.h"
#include "worker/data/formats/sample_names.h"
#include "worker/data/formats/shard_index.h"
#include "worker/data/formats/tf_record.h"
#include "worker/data/formats/web_dataset.h"
#include "worker/data/index/index_folder.h"
#include "worker/data/index/index_writer.h"
#include "worker/data/parquet/image_rows.h"

namespace muster::worker {
namespace {

constexpr Split kSplits[] = {Split::kTrain, Split::kValidation, Split::kTest};
// Part of an index's name: higher when the rules change by which samples are found.
constexpr int kIndexRules = 1;
constexpr absl::Duration kSignOfLife = absl::Seconds(1);  // between two calls of progress
constexpr absl::Duration kLockPause = absl::Milliseconds(100);
// Of a process that makes the indexes and writes nothing.
constexpr absl::Duration kHolderPatience = absl::Minutes(5);
// Of the training set, where nothing else is for validation and test.
constexpr uint64_t kHashParts = 10;
// Of the samples of each split that are being indexed, before they are put aside.
constexpr uint64_t kSplitMemoryBytes = 24u << 20;

// Without what may be secret in a signed URL, and is other in each.
std::string PathForPeople(const std::string& path) {
  return IsRemotePath(path) ? UrlForPeople(path) : path;
}

// Calls progress once a second, however often it is told.
class Progress {
 public:
  explicit Progress(const IndexOptions& options) : options_(options) {}

  void SampleFound() {
    ++samples_;
    GoesOn();
  }
  void GoesOn() {
    if (!silence_.over()) return;
    silence_ = Deadline(kSignOfLife);
    options_.progress(samples_);
  }
  uint64_t samples() const { return samples_; }

 private:
  const IndexOptions& options_;
  uint64_t samples_ = 0;
  Deadline silence_{absl::ZeroDuration()};
};

// Gives each sample to the split that it is in, and to a split only the files that it has samples
// in. A format adds the samples of a file before the next file.
class SplitSink final : public SampleSink {
 public:
  // `counts`: its samples are not those of another split.
  SplitSink(std::vector<IndexWriter*> writers, bool counts, Progress& progress)
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
    if (counts_) {
      progress_.SampleFound();
    } else {
      progress_.GoesOn();
    }
    MUSTER_CHECK(sample.file + 1 == files_, "a sample lies in the file that was added last");
    const size_t split = writers_.size() == 1 ? 0 : static_cast<size_t>(SplitOfKey(sample.key));
    if (!numbers_[split].has_value())
      numbers_[split] = writers_[split]->AddFile(path_, size_bytes_);
    FoundSample own = sample;
    own.file = *numbers_[split];
    return writers_[split]->Add(own);
  }

 private:
  Progress& progress_;
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
  IndexMaker(AnyFileSystem& data, FileSystem& local, const IndexOptions& options, FoundData found)
      : data_(data),
        local_(local),
        options_(options),
        found_(std::move(found)),
        progress_(options) {}

  absl::StatusOr<DataIndexes> OpenOrMake() {
    MUSTER_RETURN_IF_ERROR(CheckFormat());
    MUSTER_RETURN_IF_ERROR(SortSplits());
    MUSTER_RETURN_IF_ERROR(Name());
    if (!options_.anew) {
      MUSTER_ASSIGN_OR_RETURN(std::optional<DataIndexes> there, Open());
      if (there.has_value()) return *std::move(there);
    }
    MUSTER_RETURN_IF_ERROR(local_.MakeDirectories(folder_));
    MUSTER_ASSIGN_OR_RETURN(const std::optional<FileLock> lock, Lock());
    if (!options_.anew) {
      // Another process may have made them meanwhile.
      MUSTER_ASSIGN_OR_RETURN(std::optional<DataIndexes> there, Open());
      if (there.has_value()) return *std::move(there);
    }
    MUSTER_RETURN_IF_ERROR(Make(/*is_locked=*/lock.has_value()));
    RemoveUnusedIndexes(folder_, name_);
    MUSTER_ASSIGN_OR_RETURN(std::optional<DataIndexes> made, Open());
    if (!made.has_value())
      return absl::UnavailableError(absl::StrCat(folder_, ": indexes that were made are gone"));
    return *std::move(made);
  }

 private:
  // Waits for another process that makes them, for as long as it writes. Nothing: the folder's disk
  // has no locks, so several may make them at once; each makes the same ones.
  absl::StatusOr<std::optional<FileLock>> Lock() {
    uint64_t written = 0;
    Deadline patience(kHolderPatience);
    for (bool first = true;; first = false) {
      absl::StatusOr<std::optional<FileLock>> lock = FileLock::Try(IndexPath("lock"));
      if (absl::IsUnimplemented(lock.status())) {
        Log(LogLevel::kWarning, "index_not_locked",
            {{"error", lock.status().message()},
             {"note",
              "each process makes the index; MUSTER_INDEX_DIR names a folder of this machine"}});
        return std::optional<FileLock>();
      }
      MUSTER_RETURN_IF_ERROR(lock.status());
      if (lock->has_value()) return lock;
      if (first) {
        Log(LogLevel::kInfo, "index_awaited",
            {{"data", PathForPeople(options_.path)}, {"lock", IndexPath("lock")}});
      }
      if (const uint64_t now = BytesOfParts(); now != written) {
        written = now;
        patience = Deadline(kHolderPatience);
      }
      if (patience.over()) {
        return absl::UnavailableError(
            absl::StrCat(IndexPath("lock"), " is held by a process that has written nothing for ",
                         absl::FormatDuration(kHolderPatience), ": look for who stopped there"));
      }
      progress_.GoesOn();
      absl::SleepFor(kLockPause);
    }
  }
  // What the maker has written so far.
  uint64_t BytesOfParts() {
    const absl::StatusOr<std::vector<FileInfo>> files = local_.List(folder_);
    uint64_t bytes = 1;
    if (!files.ok()) return bytes;
    for (const FileInfo& file : *files)
      if (absl::StartsWith(file.name, name_)) bytes += file.size_bytes + 1;
    return bytes;
  }

  absl::Status CheckFormat() const {
    if (found_.format != DataFormat::kNpy) return absl::OkStatus();
    return absl::UnimplementedError(
        absl::StrCat(options_.path, " holds NumPy's arrays: train.data.numpy reads them"));
  }

  // Which files are for training, validation and test.
  absl::Status SortSplits() {
    if (found_.train.empty()) {
      std::swap(found_.train, found_.unnamed);
    } else if (!found_.unnamed.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(options_.path, ": ", found_.unnamed.front(), " is in no split, though ",
                       found_.train.front(), " is: want a name with train, val or test in it"));
    }
    if (found_.train.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(options_.path, " has nothing to train on: no train folder or files"));
    }
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
    std::string what = absl::StrCat(kIndexRules, "\n", PathForPeople(options_.path), "\n",
                                    DataFormatName(found_.format), "\n");
    for (const Split split : kSplits) {
      for (const std::string& file : FilesOf(split)) {
        absl::StrAppend(&what, SplitName(split), " ", PathForPeople(file));
        MUSTER_RETURN_IF_ERROR(AppendVersion(file, what));
      }
    }
    if (found_.format == DataFormat::kWebDataset) {
      MUSTER_ASSIGN_OR_RETURN(class_names_,
                              ReadClassNames(data_, ParentFolder(found_.train.front())));
      if (!class_names_.empty())
        absl::StrAppend(&what, "classes\n", absl::StrJoin(class_names_, "\n"), "\n");
    }
    name_ = Sha256Hex(what).substr(0, 32);
    return absl::OkStatus();
  }
  // Of an image folder it is that of the class folders: it changes when pictures come and go.
  absl::Status AppendVersion(const std::string& file, std::string& what) {
    progress_.GoesOn();
    if (found_.format != DataFormat::kImageFolder) {
      MUSTER_ASSIGN_OR_RETURN(const FileVersion version, data_.Version(file));
      absl::StrAppend(&what, " ", version.size_bytes, " ", version.tag, "\n");
      return absl::OkStatus();
    }
    MUSTER_ASSIGN_OR_RETURN(const std::vector<FileInfo> folders, data_.List(file));
    for (const FileInfo& folder : folders) {
      absl::StrAppend(&what, "\n", folder.name);
      const absl::StatusOr<FileVersion> version =
          data_.Version(absl::StrCat(file, "/", folder.name));
      if (version.ok()) absl::StrAppend(&what, " ", version->tag);
      progress_.GoesOn();
    }
    what += "\n";
    return absl::OkStatus();
  }
  std::string IndexPath(absl::string_view what) const {
    return absl::StrCat(folder_, "/", name_, ".", what);
  }

  // Nothing: one at least is not there, or broken.
  absl::StatusOr<std::optional<DataIndexes>> Open() const {
    DataIndexes indexes;
    indexes.format = found_.format;
    for (const Split split : kSplits) {
      auto index = SampleIndex::Open(IndexPath(absl::StrCat(SplitName(split), ".idx")));
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
    std::vector<std::string> classes = class_names_;
    for (const Split split : kSplits) {
      std::vector<IndexWriter*> into = {writers[static_cast<size_t>(split)].get()};
      if (split == Split::kTrain && splits_off())
        into = {writers[0].get(), writers[1].get(), writers[2].get()};
      const bool is_validation_again =
          split == Split::kTest && FilesOf(split) == FilesOf(Split::kValidation);
      SplitSink sink(into, /*counts=*/!is_validation_again, progress_);
      MUSTER_RETURN_IF_ERROR(IndexFiles(FilesOf(split), sink, classes));
    }
    // Where there are no locks two processes may each have made some of the indexes that are found.
    std::string all = absl::StrJoin(classes, "\n");
    for (const std::unique_ptr<IndexWriter>& writer : writers)
      absl::StrAppend(&all, "\n", writer->samples(), " ", writer->content());
    const std::string set = Sha256Hex(all).substr(0, 16);
    for (const std::unique_ptr<IndexWriter>& writer : writers)
      MUSTER_RETURN_IF_ERROR(writer->Finish(classes, set, [this] { progress_.GoesOn(); }));
    options_.progress(progress_.samples());
    Log(LogLevel::kInfo, "index_made",
        {{"data", PathForPeople(options_.path)},
         {"samples", progress_.samples()},
         {"index", IndexPath("train.idx")}});
    return absl::OkStatus();
  }

  // `classes`: of the splits before, for those whose files name them; filled by the first.
  absl::Status IndexFiles(const std::vector<std::string>& files, SampleSink& sink,
                          std::vector<std::string>& classes) {
    for (const std::string& file : files) {
      MUSTER_ASSIGN_OR_RETURN(const IndexReport report, IndexOne(file, sink, classes));
      for (const std::string& reason : report.reasons)
        Log(LogLevel::kWarning, "not_indexed", {{"reason", reason}});
      if (report.left_out > report.reasons.size()) {
        Log(LogLevel::kWarning, "not_indexed",
            {{"file", PathForPeople(file)}, {"more", report.left_out - report.reasons.size()}});
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<IndexReport> IndexOne(const std::string& file, SampleSink& sink,
                                       std::vector<std::string>& classes) {
    switch (found_.format) {
      case DataFormat::kImageFolder: {
        ImageFolderOptions folder;
        folder.classes = classes;
        MUSTER_ASSIGN_OR_RETURN(ImageFolderIndex index,
                                IndexImageFolder(data_, file, folder, sink));
        if (classes.empty()) classes = std::move(index.classes);
        return std::move(index.report);
      }
      case DataFormat::kLmdb: {
        LmdbOptions lmdb;
        lmdb.classes = classes;
        MUSTER_ASSIGN_OR_RETURN(LmdbIndex index, IndexLmdb(data_, file, lmdb, sink));
        if (classes.empty()) classes = std::move(index.classes);
        return std::move(index.report);
      }
      case DataFormat::kWebDataset:
        return IndexShard(file, sink);
      case DataFormat::kTfRecord:
        return IndexTfRecords(data_, file, {}, sink);
      case DataFormat::kRecordIo:
        return IndexRecordIo(data_, file, {}, sink);
      case DataFormat::kParquet: {
        std::vector<std::string> named;
        MUSTER_ASSIGN_OR_RETURN(IndexReport report, IndexParquet(file, sink, named));
        if (!classes.empty() && !named.empty() && named != classes) {
          return absl::InvalidArgumentError(absl::StrCat(
              file, " names other classes than the files before it, or in another order"));
        }
        if (classes.empty()) classes = std::move(named);
        return report;
      }
      case DataFormat::kNpy:
        break;
    }
    return absl::InternalError("a format without an index");
  }

  // By the index beside it, where there is one.
  absl::StatusOr<IndexReport> IndexShard(const std::string& path, SampleSink& sink) {
    const std::optional<std::string> beside = ShardIndexPath(path);
    if (!beside.has_value()) return IndexWebDataset(data_, path, {}, sink);
    const absl::StatusOr<std::string> text = data_.ReadFile(*beside, kMostShardIndexBytes);
    // S3 denies what is not there to those who may not list.
    if (absl::IsNotFound(text.status()) || absl::IsPermissionDenied(text.status()))
      return IndexWebDataset(data_, path, {}, sink);
    MUSTER_RETURN_IF_ERROR(text.status());
    MUSTER_ASSIGN_OR_RETURN(const FileVersion version, data_.Version(path));
    IndexedShard shard{path, version.size_bytes, nullptr};
    // A header at a time, not a block of the cache.
    shard.read = [&](uint64_t offset, char* buffer, uint64_t bytes) {
      return data_.ReadVersion(path, version, offset, buffer, bytes);
    };
    MUSTER_ASSIGN_OR_RETURN(std::optional<IndexReport> report,
                            IndexByShardIndex(shard, PathForPeople(*beside), *text, {}, sink));
    if (report.has_value()) return *std::move(report);
    return IndexWebDataset(data_, path, {}, sink);
  }

  // Pictures that lie in the file as they are. `classes`: the names that it has for them.
  absl::StatusOr<IndexReport> IndexParquet(const std::string& path, SampleSink& sink,
                                           std::vector<std::string>& classes) {
    MUSTER_ASSIGN_OR_RETURN(const ParquetFile file, ParquetFile::Open(data_, path));
    MUSTER_ASSIGN_OR_RETURN(ImageColumns columns, FindImageColumns(file));
    MUSTER_ASSIGN_OR_RETURN(const uint64_t size, data_.FileSize(path));
    const uint32_t number = sink.AddFile(path, size);
    const std::string name = path.substr(path.rfind('/') + 1);
    IndexReport report;
    const auto add = [&](const ImageRow& row) -> absl::Status {
      if (row.file_offset == ParquetValue::kNowhere) {
        return absl::InvalidArgumentError(
            absl::StrCat(path,
                         ": its pictures lie in compressed pages, and cannot be read one by "
                         "one; `muster data pack` makes shards of them"));
      }
      // Names without a folder come again in each class.
      const SampleName named = NameOf(row.path);
      const bool is_path = row.path.find('/') != absl::string_view::npos && !named.key.empty();
      const std::string key =
          is_path ? std::string(named.key) : NumberedKey(name, static_cast<uint64_t>(row.row));
      ++report.samples;
      return sink.Add({key, number, row.file_offset, row.bytes.size(), row.label});
    };
    MUSTER_RETURN_IF_ERROR(ForEachImage(file, columns, add));
    classes = std::move(columns.classes);
    return report;
  }

  AnyFileSystem& data_;
  FileSystem& local_;
  const IndexOptions& options_;
  FoundData found_;
  Progress progress_;
  std::string folder_;
  std::string name_;
  std::vector<std::string> class_names_;  // of WebDataset
};

}  // namespace

absl::StatusOr<DataIndexes> OpenOrMakeIndexes(AnyFileSystem& data, FileSystem& local,
                                              const IndexOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(FoundData found, FindFormat(data, options.path));
  return IndexMaker(data, local, options, std::move(found)).OpenOrMake();
}

Split SplitOfKey(absl::string_view key) {
  const uint64_t part = XXH3_64bits(key.data(), key.size()) % kHashParts;
  return part == 0 ? Split::kValidation : part == 1 ? Split::kTest : Split::kTrain;
}

std::string IndexFolder() { return CacheFolder("MUSTER_INDEX_DIR", "index"); }

}  // namespace muster::worker
