#include "tests/sim/agent_disk.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster::sim {
namespace {

constexpr size_t kSectorBytes = 512;  // what a disk writes whole

}  // namespace

class AgentDisk::Writer final : public WritableFile {
 public:
  Writer(AgentDisk& disk, std::shared_ptr<File> file) : disk_(disk), file_(std::move(file)) {}

  absl::Status Append(absl::string_view bytes) override {
    if (!disk_.full) {
      absl::StrAppend(&file_->bytes, bytes);
      return absl::OkStatus();
    }
    // A part of it may have found room.
    absl::StrAppend(&file_->bytes, bytes.substr(0, disk_.dice_.Below(bytes.size() + 1) / 2));
    return absl::ResourceExhaustedError("no space left");
  }
  absl::Status Sync() override {
    file_->synced = file_->bytes.size();
    return absl::OkStatus();
  }
  absl::Status Close() override { return absl::OkStatus(); }

 private:
  AgentDisk& disk_;
  const std::shared_ptr<File> file_;
};

absl::StatusOr<std::unique_ptr<WritableFile>> AgentDisk::CreateExclusive(const std::string& path,
                                                                         uint32_t) {
  if (files_.count(path) != 0) return absl::AlreadyExistsError(path);
  removed_.erase(path);
  auto file = std::make_shared<File>();
  files_[path] = file;
  return std::make_unique<Writer>(*this, std::move(file));
}

absl::StatusOr<uint64_t> AgentDisk::ReadAt(const std::string& path, uint64_t offset, char* buffer,
                                           uint64_t buffer_bytes) {
  const auto found = files_.find(path);
  if (found == files_.end()) return absl::NotFoundError(path);
  const std::string& bytes = found->second->bytes;
  return offset >= bytes.size() ? 0 : bytes.copy(buffer, buffer_bytes, offset);
}

absl::StatusOr<std::vector<FileInfo>> AgentDisk::List(const std::string& directory) {
  const std::string start = absl::StrCat(directory, "/");
  std::vector<FileInfo> list;
  for (const auto& [path, file] : files_) {
    if (!absl::StartsWith(path, start)) continue;
    list.push_back({path.substr(start.size()), /*is_directory=*/false, file->bytes.size()});
  }
  return list;
}

absl::Status AgentDisk::RemoveFile(const std::string& path) {
  auto node = files_.extract(path);
  if (node.empty()) return absl::NotFoundError(path);
  removed_[path] = std::move(node.mapped());
  return absl::OkStatus();
}

void AgentDisk::LoseUnsynced(File& file) {
  const size_t kept = file.synced + dice_.Below(file.bytes.size() - file.synced + 1);
  file.bytes.resize(kept);
  // Sectors reach the disk in any order.
  for (size_t at = file.synced; at < kept; at += kSectorBytes) {
    if (dice_.Chance(0.9)) continue;
    const size_t end = std::min(kept, at + kSectorBytes);
    std::fill(file.bytes.begin() + static_cast<std::ptrdiff_t>(at),
              file.bytes.begin() + static_cast<std::ptrdiff_t>(end), '\0');
  }
  file.synced = kept;
}

void AgentDisk::LosePower() {
  for (auto it = files_.begin(); it != files_.end();) {
    const bool gone = it->second->synced == 0 && dice_.Chance(0.2);
    if (!gone) LoseUnsynced(*it->second);
    it = gone ? files_.erase(it) : std::next(it);
  }
  for (auto& [path, file] : std::exchange(removed_, {})) {
    if (!dice_.Chance(0.3)) continue;
    LoseUnsynced(*file);
    files_.emplace(path, file);
  }
}

void AgentDisk::CopyFrom(const AgentDisk& other) {
  files_.clear();
  removed_.clear();
  for (const auto& [path, file] : other.files_) files_[path] = std::make_shared<File>(*file);
}

}  // namespace muster::sim
