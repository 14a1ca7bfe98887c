#include "worker/data/index/source_files.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/data/index/index_layout.h"

namespace muster::worker {

absl::Status SpilledBytes::Spill() {
  if (held_.empty()) return absl::OkStatus();
  if (!file_.has_value()) {
    MUSTER_ASSIGN_OR_RETURN(file_, AppendedFile::Create(fs_, path_));
  }
  MUSTER_RETURN_IF_ERROR(file_->Append(held_));
  MUSTER_RETURN_IF_ERROR(file_->Flush());
  spilled_ += held_.size();
  held_.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::string> SpilledBytes::Read(uint64_t offset, uint64_t bytes) const {
  std::string read(bytes, '\0');
  uint64_t done = 0;
  while (done < bytes && offset + done < spilled_) {
    const uint64_t wanted = std::min(bytes - done, spilled_ - offset - done);
    MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                            fs_.ReadAt(path_, offset + done, read.data() + done, wanted));
    if (got == 0) return absl::DataLossError(absl::StrCat(path_, " has become shorter"));
    done += got;
  }
  if (done < bytes) held_.copy(read.data() + done, bytes - done, offset + done - spilled_);
  return read;
}

absl::Status SpilledBytes::CopyTo(AppendedFile& to, const std::function<absl::Status()>& progress) {
  if (file_.has_value()) MUSTER_RETURN_IF_ERROR(to.AppendFile(fs_, path_, progress));
  return to.Append(held_);
}

uint32_t SourceFiles::Add(const std::string& path, uint64_t size_bytes) {
  paths_.Append(path);
  table_.Append(EncodeIndexFile({size_bytes, paths_.size()}));
  last_ = {path, size_bytes};
  return static_cast<uint32_t>(count_++);
}

absl::Status SourceFiles::Spill() {
  MUSTER_RETURN_IF_ERROR(table_.Spill());
  return paths_.Spill();
}

absl::StatusOr<SourceFile> SourceFiles::At(uint32_t file) const {
  MUSTER_CHECK(file < count_, "a sample lies in a file that was added");
  if (file + 1 == count_) return last_;
  // With the entry before it, where there is one: there its path begins.
  const uint64_t first = file == 0 ? 0 : file - 1;
  MUSTER_ASSIGN_OR_RETURN(
      const std::string entries,
      table_.Read(first * kIndexFileBytes, (file + 1 - first) * kIndexFileBytes));
  const IndexFile entry = DecodeIndexFile(entries.data() + entries.size() - kIndexFileBytes);
  const uint64_t begin = file == 0 ? 0 : DecodeIndexFile(entries.data()).path_end;
  MUSTER_ASSIGN_OR_RETURN(std::string path, paths_.Read(begin, entry.path_end - begin));
  return SourceFile{std::move(path), entry.size_bytes};
}

absl::Status SourceFiles::CopyTo(AppendedFile& to, const std::function<absl::Status()>& progress) {
  MUSTER_RETURN_IF_ERROR(table_.CopyTo(to, progress));
  return paths_.CopyTo(to, progress);
}

}  // namespace muster::worker
