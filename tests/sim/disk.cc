#include "tests/sim/disk.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace muster::sim {
namespace {

constexpr uint64_t kDatabaseSectorBytes = 512;  // what a disk writes whole

Disk* g_mounted = nullptr;

void Apply(std::string& content, const Disk::Change& change) {
  if (change.is_truncate) {
    content.resize(change.offset, '\0');
    return;
  }
  if (content.size() < change.offset + change.data.size()) {
    content.resize(change.offset + change.data.size(), '\0');
  }
  content.replace(change.offset, change.data.size(), change.data);
}

// ---- the VFS: thin, SQLite's calling conventions only ----

struct Handle {
  sqlite3_file base;
  Disk* disk;
  std::shared_ptr<Disk::File>* file;
};
Handle& H(sqlite3_file* file) { return *reinterpret_cast<Handle*>(file); }

int Close(sqlite3_file* file) {
  delete std::exchange(H(file).file, nullptr);
  return SQLITE_OK;
}
int Read(sqlite3_file* file, void* out, int amount, sqlite3_int64 offset) {
  const std::string& content = (*H(file).file)->visible;
  const size_t at = std::min<size_t>(offset, content.size());
  const size_t have = std::min<size_t>(amount, content.size() - at);
  std::memcpy(out, content.data() + at, have);
  if (have == static_cast<size_t>(amount)) return SQLITE_OK;
  std::memset(static_cast<char*>(out) + have, 0, amount - have);
  return SQLITE_IOERR_SHORT_READ;
}
int Write(sqlite3_file* file, const void* data, int amount, sqlite3_int64 offset) {
  return H(file).disk->Write(**H(file).file, offset,
                             std::string(static_cast<const char*>(data), amount));
}
int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  return H(file).disk->Truncate(**H(file).file, size);
}
int Sync(sqlite3_file* file, int) { return H(file).disk->Sync(**H(file).file); }
int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  *size = (*H(file).file)->visible.size();
  return SQLITE_OK;
}
int Lock(sqlite3_file*, int) { return SQLITE_OK; }
int CheckReservedLock(sqlite3_file*, int* held) {
  *held = 0;
  return SQLITE_OK;
}
int FileControl(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
int SectorSize(sqlite3_file*) { return 4096; }
int DeviceCharacteristics(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

const sqlite3_io_methods kMethods = {
    .iVersion = 1,
    .xClose = Close,
    .xRead = Read,
    .xWrite = Write,
    .xTruncate = Truncate,
    .xSync = Sync,
    .xFileSize = FileSize,
    .xLock = Lock,
    .xUnlock = Lock,
    .xCheckReservedLock = CheckReservedLock,
    .xFileControl = FileControl,
    .xSectorSize = SectorSize,
    .xDeviceCharacteristics = DeviceCharacteristics,
    .xShmMap = nullptr,
    .xShmLock = nullptr,
    .xShmBarrier = nullptr,
    .xShmUnmap = nullptr,
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};

int VfsOpen(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  H(file).base.pMethods = nullptr;
  std::shared_ptr<Disk::File> found =
      g_mounted->Open(name == nullptr ? "" : name, (flags & SQLITE_OPEN_CREATE) != 0);
  if (found == nullptr) return SQLITE_CANTOPEN;
  H(file).base.pMethods = &kMethods;
  H(file).disk = g_mounted;
  H(file).file = new std::shared_ptr<Disk::File>(std::move(found));
  if (out_flags != nullptr) *out_flags = flags;
  return SQLITE_OK;
}
int VfsDelete(sqlite3_vfs*, const char* name, int sync) {
  return g_mounted->Delete(name, sync != 0);
}
int VfsAccess(sqlite3_vfs*, const char* name, int, int* found) {
  *found = g_mounted->Exists(name) ? 1 : 0;
  return SQLITE_OK;
}
int VfsFullPathname(sqlite3_vfs*, const char* name, int size, char* out) {
  sqlite3_snprintf(size, out, "%s", name);
  return SQLITE_OK;
}
int VfsRandomness(sqlite3_vfs*, int size, char* out) {
  for (int i = 0; i < size; ++i) out[i] = static_cast<char>(g_mounted->Random());
  return size;
}
int VfsSleep(sqlite3_vfs*, int microseconds) { return microseconds; }
int VfsCurrentTime(sqlite3_vfs*, double* julian_day) {
  *julian_day = 2460000.5;
  return SQLITE_OK;
}
int VfsLastError(sqlite3_vfs*, int, char*) { return 0; }

sqlite3_vfs* TheVfs() {
  static sqlite3_vfs vfs = {
      .iVersion = 1,
      .szOsFile = sizeof(Handle),
      .mxPathname = 512,
      .pNext = nullptr,
      .zName = Disk::kVfs,
      .pAppData = nullptr,
      .xOpen = VfsOpen,
      .xDelete = VfsDelete,
      .xAccess = VfsAccess,
      .xFullPathname = VfsFullPathname,
      .xDlOpen = nullptr,
      .xDlError = nullptr,
      .xDlSym = nullptr,
      .xDlClose = nullptr,
      .xRandomness = VfsRandomness,
      .xSleep = VfsSleep,
      .xCurrentTime = VfsCurrentTime,
      .xGetLastError = VfsLastError,
      .xCurrentTimeInt64 = nullptr,
      .xSetSystemCall = nullptr,
      .xGetSystemCall = nullptr,
      .xNextSystemCall = nullptr,
  };
  return &vfs;
}

}  // namespace

void Disk::Mount() {
  static const int registered = sqlite3_vfs_register(TheVfs(), /*makeDflt=*/1);
  (void)registered;
  g_mounted = this;
  sqlite3_randomness(0, nullptr);  // seeded anew from this disk
}

Disk Disk::Copy() const {
  Disk copy{dice_};
  for (const auto& [name, file] : files_) {
    auto other = std::make_shared<File>();
    other->visible = other->durable = file->visible;
    copy.files_[name] = std::move(other);
  }
  return copy;
}

void Disk::Load(const Disk& image) {
  for (const auto& [name, file] : image.files_) {
    auto copy = std::make_shared<File>();
    copy->visible = copy->durable = file->visible;
    copy->link_is_durable = true;
    files_[name] = std::move(copy);
  }
}

std::shared_ptr<Disk::File> Disk::Open(const std::string& name, bool create) {
  const auto it = files_.find(name);
  if (it != files_.end()) return it->second;
  if (!create || !alive()) return nullptr;
  auto file = std::make_shared<File>();
  files_[name] = file;
  return file;
}

int Disk::Write(File& file, uint64_t offset, const std::string& data) {
  if (!alive()) return SQLITE_IOERR_WRITE;
  if (full && (copies || offset + data.size() > file.visible.size())) return SQLITE_FULL;
  if (fail_writes > 0) {
    --fail_writes;
    return SQLITE_IOERR_WRITE;
  }
  Change change{.is_truncate = false, .offset = offset, .data = data};
  Apply(file.visible, change);
  file.unsynced.push_back(std::move(change));
  return SQLITE_OK;
}

int Disk::Truncate(File& file, uint64_t size) {
  if (!alive()) return SQLITE_IOERR_TRUNCATE;
  Change change{.is_truncate = true, .offset = size, .data = {}};
  Apply(file.visible, change);
  file.unsynced.push_back(std::move(change));
  return SQLITE_OK;
}

int Disk::Sync(File& file) {
  if (!alive()) return SQLITE_IOERR_FSYNC;
  ++syncs_;
  if (fail_syncs > 0) {
    --fail_syncs;
    for (const Change& change : std::exchange(file.unsynced, {})) {
      if (dice_.Chance(0.5)) Keep(file, change);
    }
    return SQLITE_IOERR_FSYNC;
  }
  for (const Change& change : file.unsynced) Apply(file.durable, change);
  file.unsynced.clear();
  // A new file's first sync syncs its folder too, and with it what was unlinked there.
  if (!std::exchange(file.link_is_durable, true)) unlinked_.clear();
  return SQLITE_OK;
}

int Disk::Delete(const std::string& name, bool sync) {
  const auto it = files_.find(name);
  if (it == files_.end()) return SQLITE_IOERR_DELETE_NOENT;
  if (!alive()) return SQLITE_IOERR_DELETE;
  if (!sync && it->second->link_is_durable) unlinked_[name] = it->second;
  if (sync) unlinked_.erase(name);
  files_.erase(it);
  return SQLITE_OK;
}

// A change that was on its way to the disk when the power went: it may be there, in part, or not.
void Disk::Keep(File& file, const Change& change) {
  if (change.is_truncate || !dice_.Chance(0.3)) {
    Apply(file.durable, change);
    return;
  }
  for (uint64_t at = 0; at < change.data.size(); at += kDatabaseSectorBytes) {
    if (dice_.Chance(0.5)) continue;
    Apply(file.durable, {.is_truncate = false,
                         .offset = change.offset + at,
                         .data = change.data.substr(at, kDatabaseSectorBytes)});
  }
}

void Disk::LosePower() {
  // Either nothing was on its way, or much of it in any order.
  const double kept = dice_.Chance(0.4) ? 0 : dice_.Unit();
  for (auto it = files_.begin(); it != files_.end();) {
    File& file = *it->second;
    for (const Change& change : file.unsynced) {
      if (dice_.Chance(kept)) Keep(file, change);
    }
    file.unsynced.clear();
    file.visible = file.durable;
    const bool lost = !file.link_is_durable && dice_.Chance(0.5);
    it = lost ? files_.erase(it) : std::next(it);
  }
  for (auto& [name, file] : unlinked_) {
    if (!dice_.Chance(0.3)) continue;
    file->unsynced.clear();
    file->visible = file->durable;
    files_[name] = file;
  }
  unlinked_.clear();
}

}  // namespace muster::sim
