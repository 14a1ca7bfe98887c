#include "worker/data/index/index_writer.h"

#include <xxhash.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <queue>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/ckpt/block_hasher.h"
#include "common/fs/little_endian.h"
#include "common/os/unique_name.h"
#include "worker/data/index/appended_file.h"
#include "worker/data/index/index_folder.h"
#include "worker/data/index/index_layout.h"

namespace muster::worker {
namespace {

constexpr absl::string_view kPartSuffix = ".part";
// So much of each run is read at once: all of them share the memory of the samples.
constexpr uint64_t kLeastRunReadBytes = 16u << 10, kMostRunReadBytes = 1u << 20;
// Of a sample that is kept, beside its key.
constexpr uint64_t kKeptOverheadBytes = 96;
// A part that nobody has written to for so long has no writer, on whatever machine.
constexpr absl::Duration kLeftoverAge = absl::Hours(24);
constexpr size_t kRunRecordHeaderBytes = 4 + 8 + 8 + 4 + 4;

uint64_t ContentOf(const FoundSample& sample) {
  std::string place;
  AppendLittleEndian(place, sample.offset);
  AppendLittleEndian(place, sample.size);
  AppendLittleEndian(place, static_cast<uint64_t>(sample.label));
  return XXH3_64bits_withSeed(place.data(), place.size(),
                              XXH3_64bits(sample.key.data(), sample.key.size()));
}

}  // namespace

// Samples in the order of their keys: those in memory, or some that were put aside.
class IndexWriter::Run {
 public:
  // In memory; `kept` is sorted.
  explicit Run(std::vector<Kept>* kept) : kept_(kept) {}
  // In a file.
  Run(FileSystem& fs, std::string path, uint64_t read_bytes)
      : fs_(&fs), path_(std::move(path)), read_bytes_(read_bytes) {}

  static std::string Encode(const Kept& sample) {
    std::string record;
    AppendLittleEndian(record, static_cast<uint32_t>(sample.key.size()));
    AppendLittleEndian(record, sample.offset);
    AppendLittleEndian(record, sample.size);
    AppendLittleEndian(record, sample.file);
    AppendLittleEndian(record, static_cast<uint32_t>(sample.label));
    return record + sample.key;
  }

  // The next one; nothing at the end.
  absl::StatusOr<std::optional<Kept>> Next() {
    if (kept_ != nullptr) {
      if (next_ == kept_->size()) return std::nullopt;
      return std::move((*kept_)[next_++]);
    }
    MUSTER_ASSIGN_OR_RETURN(const bool more, Fill(kRunRecordHeaderBytes));
    if (!more) return std::nullopt;
    const uint32_t key_bytes = ReadLittleEndian<uint32_t>(buffer_.data() + begin_);
    MUSTER_ASSIGN_OR_RETURN(const bool whole, Fill(kRunRecordHeaderBytes + key_bytes));
    if (!whole) return absl::DataLossError(absl::StrCat(path_, ": a record is cut off"));
    const char* record = buffer_.data() + begin_;
    Kept sample;
    sample.offset = ReadLittleEndian<uint64_t>(record + 4);
    sample.size = ReadLittleEndian<uint64_t>(record + 12);
    sample.file = ReadLittleEndian<uint32_t>(record + 20);
    sample.label = static_cast<int32_t>(ReadLittleEndian<uint32_t>(record + 24));
    sample.key.assign(record + kRunRecordHeaderBytes, key_bytes);
    begin_ += kRunRecordHeaderBytes + key_bytes;
    return sample;
  }

 private:
  // Whether the buffer has so many bytes from begin_ on.
  absl::StatusOr<bool> Fill(size_t bytes) {
    if (buffer_.size() - begin_ >= bytes) return true;
    buffer_.erase(0, begin_);
    begin_ = 0;
    while (buffer_.size() < bytes) {
      const size_t had = buffer_.size();
      buffer_.resize(had + std::max<size_t>(read_bytes_, bytes));
      MUSTER_ASSIGN_OR_RETURN(const uint64_t got, fs_->ReadAt(path_, offset_, buffer_.data() + had,
                                                              buffer_.size() - had));
      buffer_.resize(had + got);
      offset_ += got;
      if (got == 0) return false;
    }
    return true;
  }

  std::vector<Kept>* kept_ = nullptr;
  size_t next_ = 0;
  FileSystem* fs_ = nullptr;
  std::string path_;
  uint64_t read_bytes_ = 0;
  uint64_t offset_ = 0;
  std::string buffer_;
  size_t begin_ = 0;
};

// What is written of the samples, in the order of their keys.
class IndexWriter::Parts {
 public:
  Parts(AppendedFile entries, AppendedFile keys)
      : entries_(std::move(entries)), keys_(std::move(keys)) {}

  absl::Status Add(const Kept& sample) {
    key_bytes_ += sample.key.size();
    sample_bytes_ += sample.size;
    least_ = samples_ == 0 ? sample.label : std::min<int64_t>(least_, sample.label);
    greatest_ = samples_ == 0 ? sample.label : std::max<int64_t>(greatest_, sample.label);
    ++samples_;
    std::string content;
    AppendLittleEndian(content, static_cast<uint32_t>(sample.key.size()));
    content += sample.key;
    AppendLittleEndian(content, static_cast<uint32_t>(sample.label));
    AppendLittleEndian(content, sample.size);
    hasher_.Update(content);
    MUSTER_RETURN_IF_ERROR(entries_.Append(
        EncodeIndexEntry({sample.offset, key_bytes_, sample.size, sample.file, sample.label})));
    return keys_.Append(sample.key);
  }

  nlohmann::json Footer() {
    const bool labelled = samples_ > 0 && least_ >= 0;
    return {{"samples", samples_},
            {"key_bytes", key_bytes_},
            {"sample_bytes", sample_bytes_},
            {"least_label", labelled ? least_ : kNoLabel},
            {"greatest_label", labelled ? greatest_ : kNoLabel},
            {"fingerprint", HashToHex(hasher_.Finish().whole)}};
  }

  AppendedFile& entries() { return entries_; }
  AppendedFile& keys() { return keys_; }

 private:
  AppendedFile entries_, keys_;
  BlockHasher hasher_;
  uint64_t samples_ = 0, key_bytes_ = 0, sample_bytes_ = 0;
  int64_t least_ = kNoLabel, greatest_ = kNoLabel;
};

IndexWriter::IndexWriter(FileSystem& fs, std::string path, const IndexWriterOptions& options)
    : fs_(fs),
      path_(std::move(path)),
      options_(options),
      unique_(UniqueName()),
      files_(fs, PartPath("sizes"), PartPath("paths")) {}

IndexWriter::~IndexWriter() {
  if (begun_ && !finished_) RemoveLeftovers().IgnoreError();
}

uint32_t IndexWriter::AddFile(const std::string& path, uint64_t size_bytes) {
  return files_.Add(path, size_bytes);
}

absl::Status IndexWriter::Add(const FoundSample& sample) {
  if (sample.file >= files_.count())
    return absl::InvalidArgumentError(absl::StrCat("sample ", sample.key, " lies in no file"));
  MUSTER_ASSIGN_OR_RETURN(const SourceFile file, files_.At(sample.file));
  if (sample.offset > file.size_bytes || sample.size > file.size_bytes - sample.offset) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path, ": sample ", sample.key, " would end at ", sample.offset, " + ",
                     sample.size, " bytes, and the file has ", file.size_bytes));
  }
  if (sample.key.empty() || sample.key.size() > kMaxKeyBytes) {
    return absl::InvalidArgumentError(absl::StrCat(file.path, ": a sample's key has ",
                                                   sample.key.size(), " bytes; 1 to ", kMaxKeyBytes,
                                                   " are taken"));
  }
  if (sample.label < kNoLabel || sample.label > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(file.path, ": sample ", sample.key,
                                                   " has the label ", sample.label,
                                                   "; 0 to 2147483647 are taken"));
  }
  kept_.push_back({std::string(sample.key), sample.offset, sample.size, sample.file,
                   static_cast<int32_t>(sample.label)});
  ++samples_;
  content_ += ContentOf(sample);
  kept_bytes_ += sample.key.size() + kKeptOverheadBytes;
  if (files_.is_large()) {
    MUSTER_RETURN_IF_ERROR(Begin());
    MUSTER_RETURN_IF_ERROR(files_.Spill());
  }
  return kept_bytes_ > options_.memory_bytes ? PutAside() : absl::OkStatus();
}

// Before the first file beside the index.
absl::Status IndexWriter::Begin() {
  if (begun_) return absl::OkStatus();
  begun_ = true;
  return RemoveLeftovers();
}

std::string IndexWriter::PartPath(const std::string& what) const {
  return absl::StrCat(path_, ".", unique_, ".", what, kPartSuffix);
}

void IndexWriter::Sort() {
  std::sort(kept_.begin(), kept_.end(), [](const Kept& a, const Kept& b) { return a.key < b.key; });
}

absl::Status IndexWriter::PutAside() {
  MUSTER_RETURN_IF_ERROR(Begin());
  Sort();
  MUSTER_ASSIGN_OR_RETURN(AppendedFile file,
                          AppendedFile::Create(fs_, PartPath(absl::StrCat("run-", runs_))));
  ++runs_;
  for (const Kept& sample : kept_) MUSTER_RETURN_IF_ERROR(file.Append(Run::Encode(sample)));
  kept_.clear();
  kept_bytes_ = 0;
  return file.Flush();
}

absl::Status IndexWriter::RemoveLeftovers() {
  const std::string folder = ParentFolder(path_);
  MUSTER_RETURN_IF_ERROR(fs_.MakeDirectories(folder));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<FileInfo> files, fs_.List(folder));
  const std::string start = path_.substr(path_.rfind('/') + 1) + ".";
  const std::string own = start + unique_ + ".", of_machine = start + MachinePrefix();
  for (const FileInfo& file : files) {
    if (!absl::StartsWith(file.name, start) || !absl::EndsWith(file.name, kPartSuffix)) continue;
    const std::string path = absl::StrCat(folder, "/", file.name);
    const bool is_nobodys = options_.alone && absl::StartsWith(file.name, of_machine);
    if (!is_nobodys && !absl::StartsWith(file.name, own) && AgeOfFile(path) < kLeftoverAge)
      continue;
    const absl::Status removed = fs_.RemoveFile(path);
    // Another machine may have come before.
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  }
  return absl::OkStatus();
}

absl::Status IndexWriter::Finish(const std::vector<std::string>& class_names,
                                 const std::string& set,
                                 const std::function<absl::Status()>& progress) {
  MUSTER_RETURN_IF_ERROR(Begin());
  const absl::Status written = WriteIndex(class_names, set, progress);
  const absl::Status removed = RemoveLeftovers();
  finished_ = removed.ok();
  return written.ok() ? removed : written;
}

absl::Status IndexWriter::TwiceTheKey(const Kept& a, const Kept& b) const {
  MUSTER_ASSIGN_OR_RETURN(const SourceFile one, files_.At(a.file));
  MUSTER_ASSIGN_OR_RETURN(const SourceFile other, files_.At(b.file));
  return absl::InvalidArgumentError(
      absl::StrCat("two samples have the key ", a.key, ": in ", one.path, " and in ", other.path));
}

absl::Status IndexWriter::WriteIndex(const std::vector<std::string>& class_names,
                                     const std::string& set,
                                     const std::function<absl::Status()>& progress) {
  Sort();
  std::vector<Run> runs;
  const uint64_t read_bytes = std::clamp(options_.memory_bytes / static_cast<uint64_t>(runs_ + 1),
                                         kLeastRunReadBytes, kMostRunReadBytes);
  for (int i = 0; i < runs_; ++i)
    runs.emplace_back(fs_, PartPath(absl::StrCat("run-", i)), read_bytes);
  runs.emplace_back(&kept_);

  const std::string whole = PartPath("whole"), keys = PartPath("keys");
  MUSTER_ASSIGN_OR_RETURN(AppendedFile entries_file, AppendedFile::Create(fs_, whole));
  MUSTER_ASSIGN_OR_RETURN(AppendedFile keys_file, AppendedFile::Create(fs_, keys));
  Parts parts(std::move(entries_file), std::move(keys_file));
  AppendedFile& index = parts.entries();
  MUSTER_RETURN_IF_ERROR(index.Append(kIndexMagic));

  // The smallest of each run's next samples comes next.
  struct Head {
    Kept sample;
    size_t run = 0;
    bool operator>(const Head& other) const { return sample.key > other.sample.key; }
  };
  std::priority_queue<Head, std::vector<Head>, std::greater<Head>> heads;
  const auto advance = [&](size_t run) -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(std::optional<Kept> next, runs[run].Next());
    if (next.has_value()) heads.push({*std::move(next), run});
    return absl::OkStatus();
  };
  for (size_t run = 0; run < runs.size(); ++run) MUSTER_RETURN_IF_ERROR(advance(run));
  std::optional<Kept> before;
  while (!heads.empty()) {
    Head head = heads.top();
    heads.pop();
    if (before.has_value() && before->key == head.sample.key)
      return TwiceTheKey(*before, head.sample);
    MUSTER_RETURN_IF_ERROR(parts.Add(head.sample));
    MUSTER_RETURN_IF_ERROR(progress());
    before = std::move(head.sample);
    MUSTER_RETURN_IF_ERROR(advance(head.run));
  }

  MUSTER_RETURN_IF_ERROR(parts.keys().Flush());
  MUSTER_RETURN_IF_ERROR(index.Flush());
  MUSTER_RETURN_IF_ERROR(index.AppendFile(fs_, keys, progress));
  MUSTER_RETURN_IF_ERROR(files_.CopyTo(index, progress));
  nlohmann::json footer = parts.Footer();
  footer["files"] = files_.count();
  footer["path_bytes"] = files_.path_bytes();
  footer["classes"] = class_names;
  footer["set"] = set;
  const std::string text = footer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > kMaxIndexFooterBytes)
    return absl::InvalidArgumentError("the names of the classes are too long");
  MUSTER_RETURN_IF_ERROR(index.Append(text));
  MUSTER_RETURN_IF_ERROR(index.Append(EncodeIndexTail(text)));
  MUSTER_RETURN_IF_ERROR(index.SyncAndClose());
  MUSTER_RETURN_IF_ERROR(fs_.Rename(whole, path_));
  return fs_.SyncDirectory(ParentFolder(path_));
}

}  // namespace muster::worker
