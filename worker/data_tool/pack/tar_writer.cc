#include "worker/data_tool/pack/tar_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/os/tar_header.h"

namespace muster::worker {
namespace {

constexpr size_t kBufferBytes = 1u << 20;
constexpr char kPaxName[] = "././@PaxHeader";

// "LENGTH path=NAME\n", its own length being counted.
std::string PaxPath(absl::string_view name) {
  const size_t rest = name.size() + sizeof(" path=\n") - 1;
  size_t length = rest;
  while (absl::StrCat(length).size() + rest != length) length = absl::StrCat(length).size() + rest;
  return absl::StrCat(length, " path=", name, "\n");
}

}  // namespace

absl::StatusOr<std::unique_ptr<TarWriter>> TarWriter::Create(FileSystem& fs, std::string path,
                                                             std::string part) {
  MUSTER_ASSIGN_OR_RETURN(const bool left, fs.Exists(part));
  if (left) MUSTER_RETURN_IF_ERROR(fs.RemoveFile(part));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, fs.CreateExclusive(part));
  return std::unique_ptr<TarWriter>(
      new TarWriter(fs, std::move(path), std::move(part), std::move(file)));
}

TarWriter::~TarWriter() {
  if (finished_) return;
  file_.reset();
  fs_.RemoveFile(part_).IgnoreError();
}

absl::Status TarWriter::Add(absl::string_view name, absl::string_view bytes) {
  if (name.size() > kTarNameBytes)
    MUSTER_RETURN_IF_ERROR(WriteMember(kPaxName, 'x', PaxPath(name)));
  return WriteMember(name, '0', bytes);
}

absl::Status TarWriter::WriteMember(absl::string_view name, char type, absl::string_view bytes) {
  MUSTER_RETURN_IF_ERROR(Write(UstarHeader({.name = name, .type = type, .size = bytes.size()})));
  MUSTER_RETURN_IF_ERROR(Write(bytes));
  return Write(std::string(TarPadding(bytes.size()), '\0'));
}

absl::Status TarWriter::Finish() {
  MUSTER_RETURN_IF_ERROR(Write(std::string(2 * kTarBlockBytes, '\0')));
  MUSTER_RETURN_IF_ERROR(Flush());
  MUSTER_RETURN_IF_ERROR(file_->Sync());
  MUSTER_RETURN_IF_ERROR(file_->Close());
  MUSTER_RETURN_IF_ERROR(fs_.Rename(part_, path_));
  finished_ = true;
  return fs_.SyncDirectory(ParentFolder(path_));
}

absl::Status TarWriter::Write(absl::string_view bytes) {
  buffer_.append(bytes.data(), bytes.size());
  return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
}

absl::Status TarWriter::Flush() {
  if (buffer_.empty()) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(file_->Append(buffer_));
  buffer_.clear();
  return absl::OkStatus();
}

}  // namespace muster::worker
