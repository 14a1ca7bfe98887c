#include "worker/data_tool/pack/parquet_samples.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/index/index_writer.h"
#include "worker/data/index/parquet_rows.h"
#include "worker/data_tool/base/interruption.h"
#include "worker/data_tool/base/open_data.h"

namespace muster::worker {
namespace {

constexpr size_t kSpoolBuffer = 1u << 20;

// A file of bytes, written from front to back; nothing is made before there is something to write.
class Spool {
 public:
  Spool(FileSystem& fs, std::string path) : fs_(fs), path_(std::move(path)) {}

  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }

  absl::Status Append(absl::string_view bytes) {
    buffer_.append(bytes.data(), bytes.size());
    size_ += bytes.size();
    return buffer_.size() < kSpoolBuffer ? absl::OkStatus() : Flush();
  }

  absl::Status Finish() {
    MUSTER_RETURN_IF_ERROR(Flush());
    if (file_ == nullptr) return absl::OkStatus();
    MUSTER_RETURN_IF_ERROR(file_->Sync());
    return file_->Close();
  }

 private:
  absl::Status Flush() {
    if (buffer_.empty()) return absl::OkStatus();
    if (file_ == nullptr) {
      // What a killed process has left.
      MUSTER_ASSIGN_OR_RETURN(const bool there, fs_.Exists(path_));
      if (there) MUSTER_RETURN_IF_ERROR(fs_.RemoveFile(path_));
      MUSTER_ASSIGN_OR_RETURN(file_, fs_.CreateExclusive(path_));
    }
    MUSTER_RETURN_IF_ERROR(file_->Append(buffer_));
    buffer_.clear();
    return absl::OkStatus();
  }

  FileSystem& fs_;
  const std::string path_;
  std::unique_ptr<WritableFile> file_;
  std::string buffer_;
  uint64_t size_ = 0;
};

// An index is told the sizes of files before their samples, and the spool's is known at its end
// only.
constexpr uint64_t kSizeNotKnown = uint64_t{1} << 62;

class SplitIndexer {
 public:
  // `classes`: as the splits before name them.
  SplitIndexer(FileSystem& data, FileSystem& local, const ParquetSpooling& spooling,
               const char* split, std::vector<std::string>& classes)
      : data_(data),
        local_(local),
        spooling_(spooling),
        classes_(classes),
        spool_(local, absl::StrCat(spooling.folder, "/", split, ".bytes")),
        index_path_(absl::StrCat(spooling.folder, "/", split, ".idx")),
        writer_(local, index_path_) {}

  absl::StatusOr<std::unique_ptr<SampleIndex>> Run(const std::vector<std::string>& files) {
    MUSTER_ASSIGN_OR_RETURN(const bool made, local_.Exists(index_path_));
    if (made) {
      MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<SampleIndex> index, SampleIndex::Open(index_path_));
      classes_ = index->class_names();
      return index;
    }
    spool_file_ = writer_.AddFile(spool_.path(), kSizeNotKnown);
    for (const std::string& file : files) MUSTER_RETURN_IF_ERROR(Add(file));
    MUSTER_RETURN_IF_ERROR(spool_.Finish());
    absl::Status finished = writer_.Finish(classes_);
    if (absl::IsInvalidArgument(finished) && !spooling_.numbered) {
      finished = absl::InvalidArgumentError(
          absl::StrCat(finished.message(), "; --numbered takes the rows' numbers instead"));
    }
    MUSTER_RETURN_IF_ERROR(finished);
    return SampleIndex::Open(index_path_);
  }

 private:
  absl::Status Add(const std::string& path) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t file_size, data_.FileSize(path));
    const uint32_t number = writer_.AddFile(path, file_size);
    const auto add = [&](const std::string& key, const ImageRow& row) -> absl::Status {
      MUSTER_RETURN_IF_ERROR(CheckInterrupted());
      spooling_.progress();
      if (row.file_offset != ParquetValue::kNowhere)
        return writer_.Add({key, number, row.file_offset, row.bytes.size(), row.label});
      MUSTER_RETURN_IF_ERROR(
          writer_.Add({key, spool_file_, spool_.size(), row.bytes.size(), row.label}));
      return spool_.Append(row.bytes);
    };
    return ForEachParquetRow(data_, path, {.numbered = spooling_.numbered}, classes_, add);
  }

  FileSystem& data_;
  FileSystem& local_;
  const ParquetSpooling& spooling_;
  std::vector<std::string>& classes_;
  Spool spool_;
  const std::string index_path_;
  IndexWriter writer_;
  uint32_t spool_file_ = 0;
};

}  // namespace

absl::StatusOr<std::array<std::unique_ptr<SampleIndex>, 3>> SpoolParquet(
    FileSystem& data, FileSystem& local, const FoundData& found, const ParquetSpooling& spooling) {
  MUSTER_RETURN_IF_ERROR(local.MakeDirectories(spooling.folder));
  const std::array<const std::vector<std::string>*, 3> files = {&found.train, &found.validation,
                                                                &found.test};
  std::vector<std::string> classes;
  std::array<std::unique_ptr<SampleIndex>, 3> indexes;
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    const auto number = static_cast<size_t>(split);
    if (files[number]->empty()) continue;
    SplitIndexer indexer(data, local, spooling, SplitName(split), classes);
    MUSTER_ASSIGN_OR_RETURN(indexes[number], indexer.Run(*files[number]));
  }
  return indexes;
}

}  // namespace muster::worker
