#include "controller/uploads/upload_store.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/upload/limits.h"

namespace muster::controller {
namespace {

constexpr char kTemporary[] = ".tmp";

}  // namespace

absl::StatusOr<std::unique_ptr<UploadStore>> UploadStore::Open(Options options, FileSystem& fs,
                                                               Clock& clock) {
  std::unique_ptr<UploadStore> store(new UploadStore(std::move(options), fs, clock));
  MUSTER_RETURN_IF_ERROR(store->Load());
  return store;
}

absl::Status UploadStore::Load() {
  MUSTER_RETURN_IF_ERROR(fs_.MakeDirectories(options_.folder));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<FileInfo> files, fs_.List(options_.folder));
  MutexLock lock(mutex_);
  for (const FileInfo& file : files) {
    if (file.is_directory) continue;
    if (absl::EndsWith(file.name, kTemporary)) {
      MUSTER_RETURN_IF_ERROR(fs_.RemoveFile(PathOf(file.name)));
    } else if (IsSha256Hex(file.name)) {
      archives_[file.name] = {file.size_bytes, clock_.SinceBoot(), ++versions_};
      total_bytes_ += file.size_bytes;
    }
  }
  return absl::OkStatus();
}

bool UploadStore::Find(const std::string& sha256) {
  MutexLock lock(mutex_);
  const auto it = archives_.find(sha256);
  if (it == archives_.end() || it->second.unreadable) return false;
  it->second.used_at = clock_.SinceBoot();
  return true;
}

bool UploadStore::IsFrom(const std::string& sha256, const std::string& user) {
  MutexLock lock(mutex_);
  const auto it = archives_.find(sha256);
  return it != archives_.end() && it->second.users.count(user) != 0;
}

uint64_t UploadStore::FindVersion(const std::string& sha256) {
  MutexLock lock(mutex_);
  const auto it = archives_.find(sha256);
  if (it == archives_.end()) return 0;
  it->second.used_at = clock_.SinceBoot();
  return it->second.version;
}

uint64_t UploadStore::total_bytes() {
  MutexLock lock(mutex_);
  return total_bytes_;
}

std::set<std::string> UploadStore::CollectLocked(
    uint64_t bytes, const std::map<std::string, absl::Duration>& referred) {
  const absl::Duration now = clock_.SinceBoot();
  std::set<std::string> live;
  for (const auto& [name, ended_ago] : referred) {
    if (ended_ago == absl::ZeroDuration()) live.insert(name);
    const auto it = archives_.find(name);
    if (it == archives_.end()) continue;
    it->second.used_at = std::max(it->second.used_at, now - ended_ago);
  }
  std::set<std::string> gone;
  while (true) {
    auto oldest = archives_.end();
    for (auto it = archives_.begin(); it != archives_.end(); ++it) {
      const bool kept = live.count(it->first) != 0 || now - it->second.used_at < kKeepAlways;
      if (kept) continue;
      if (oldest == archives_.end() || it->second.used_at < oldest->second.used_at) oldest = it;
    }
    if (oldest == archives_.end()) return gone;
    const bool fits = total_bytes_ + reserved_bytes_ + bytes <= options_.max_bytes;
    if (fits && now - oldest->second.used_at < kKeep) return gone;
    total_bytes_ -= oldest->second.bytes;
    gone.insert(oldest->first);
    archives_.erase(oldest);
  }
}

absl::StatusOr<std::unique_ptr<UploadStore::Incoming>> UploadStore::Begin(const std::string& sha256,
                                                                          uint64_t bytes,
                                                                          const std::string& user) {
  if (!IsSha256Hex(sha256)) {
    return absl::InvalidArgumentError("upload: sha256: must be 64 lower-case hex digits");
  }
  if (bytes == 0 || bytes > kMaxUploadBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("upload: bytes: must be from 1 to ", kMaxUploadBytes, "; got ", bytes));
  }
  const std::map<std::string, absl::Duration> referred = options_.referred();
  std::unique_ptr<Incoming> incoming(new Incoming(*this, sha256, bytes, user));
  std::set<std::string> gone;
  absl::Status room;
  uint64_t number = 0;
  {
    MutexLock lock(mutex_);
    // One that cannot be read makes way for what is sent again.
    const auto replaced = archives_.find(sha256);
    const uint64_t room_needed =
        bytes - (replaced == archives_.end() ? 0 : std::min(bytes, replaced->second.bytes));
    gone = CollectLocked(room_needed, referred);
    if (incoming_ >= kMaxIncoming) {
      room = absl::ResourceExhaustedError("too many uploads at a time: try again in a moment");
    } else if (total_bytes_ + reserved_bytes_ + room_needed > options_.max_bytes) {
      room = absl::ResourceExhaustedError(
          absl::StrCat("no room for an upload of ", HumanBytes(bytes),
                       ": those of live jobs, and of the last ", absl::ToInt64Minutes(kKeepAlways),
                       " minutes, take ", HumanBytes(total_bytes_ + reserved_bytes_), " of ",
                       HumanBytes(options_.max_bytes), " (musterd --uploads-max-bytes)"));
    } else {
      ++incoming_;
      reserved_bytes_ += bytes;
      number = ++names_;
    }
  }
  for (const std::string& name : gone) {
    const absl::Status removed = fs_.RemoveFile(PathOf(name));
    if (!removed.ok() && !absl::IsNotFound(removed)) room.Update(removed);
  }
  if (number == 0) return room;
  incoming->admitted_ = true;
  incoming->path_ = PathOf(absl::StrCat(sha256, ".", number, kTemporary));
  MUSTER_RETURN_IF_ERROR(room);
  MUSTER_ASSIGN_OR_RETURN(incoming->file_, fs_.CreateExclusive(incoming->path_, 0600));
  return incoming;
}

UploadStore::Incoming::~Incoming() {
  if (!admitted_) return;
  file_.reset();
  // What is left here the next start removes.
  if (!path_.empty()) store_.fs_.RemoveFile(path_).IgnoreError();
  MutexLock lock(store_.mutex_);
  --store_.incoming_;
  store_.reserved_bytes_ -= bytes_;
}

absl::Status UploadStore::Incoming::Append(absl::string_view bytes) {
  received_bytes_ += bytes.size();
  if (received_bytes_ > bytes_) {
    return absl::InvalidArgumentError(
        absl::StrCat("upload: more than the ", bytes_, " bytes that were announced"));
  }
  hash_.Update(bytes);
  return file_->Append(bytes);
}

absl::Status UploadStore::Incoming::Commit() {
  if (received_bytes_ != bytes_) {
    return absl::InvalidArgumentError(
        absl::StrCat("upload: it ended after ", received_bytes_, " of ", bytes_, " bytes"));
  }
  if (hash_.FinishHex() != sha256_) {
    return absl::InvalidArgumentError("upload: the bytes are not those of its sha256");
  }
  if (store_.Find(sha256_)) {
    MutexLock lock(store_.mutex_);
    store_.archives_[sha256_].users.insert(user_);
    return absl::OkStatus();
  }
  MUSTER_RETURN_IF_ERROR(file_->Sync());
  MUSTER_RETURN_IF_ERROR(file_->Close());
  MUSTER_RETURN_IF_ERROR(store_.fs_.Rename(path_, store_.PathOf(sha256_)));
  path_.clear();
  MUSTER_RETURN_IF_ERROR(store_.fs_.SyncDirectory(store_.options_.folder));
  MutexLock lock(store_.mutex_);
  const auto it = store_.archives_.try_emplace(sha256_).first;
  store_.total_bytes_ += bytes_ - it->second.bytes;  // of the file that was there
  it->second = {bytes_, store_.clock_.SinceBoot(), ++store_.versions_};
  it->second.users.insert(user_);
  return absl::OkStatus();
}

absl::StatusOr<std::string> UploadStore::Outgoing::Next() {
  const uint64_t version = store_.FindVersion(sha256_);
  if (version == 0) {
    return absl::NotFoundError(absl::StrCat("upload ", sha256_.substr(0, 64),
                                            " is not here, or not any more: submit it again"));
  }
  if (version_ == 0) version_ = version;
  std::string piece(kPieceBytes, '\0');
  const absl::StatusOr<uint64_t> got =
      store_.fs_.ReadAt(store_.PathOf(sha256_), offset_, piece.data(), piece.size());
  if (absl::IsNotFound(got.status())) return Gone(got.status().message());
  store_.SetUnreadable(sha256_, version, !got.ok());
  if (!got.ok()) {
    return absl::UnavailableError(
        absl::StrCat("upload ", sha256_, " cannot be read now: ", got.status().message()));
  }
  piece.resize(*got);
  offset_ += piece.size();
  hash_.Update(piece);
  const bool is_whole = piece.empty() && hash_.FinishHex() == sha256_;
  const bool may_go_on = !piece.empty() && offset_ <= kMaxUploadBytes;
  if (!is_whole && !may_go_on) return Gone("its file is not what was uploaded");
  return piece;
}

absl::Status UploadStore::Outgoing::Gone(absl::string_view why) {
  const std::string name = absl::StrCat("upload ", sha256_.substr(0, 64));
  if (!store_.Discard(sha256_, version_)) {
    return absl::UnavailableError(absl::StrCat(name, " came again meanwhile: read it again"));
  }
  return absl::NotFoundError(
      absl::StrCat(name, " cannot be read any more (", why, "): submit it again"));
}

void UploadStore::SetUnreadable(const std::string& sha256, uint64_t version, bool unreadable) {
  MutexLock lock(mutex_);
  const auto it = archives_.find(sha256);
  if (it != archives_.end() && it->second.version == version) it->second.unreadable = unreadable;
}

bool UploadStore::Discard(const std::string& sha256, uint64_t version) {
  {
    MutexLock lock(mutex_);
    const auto it = archives_.find(sha256);
    if (it == archives_.end()) return true;
    if (it->second.version != version) return false;
    total_bytes_ -= it->second.bytes;
    archives_.erase(it);
  }
  // What is left here the next start finds, and the next reader.
  fs_.RemoveFile(PathOf(sha256)).IgnoreError();
  return true;
}

}  // namespace muster::controller
