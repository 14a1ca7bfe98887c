#include "common/object_store/cache/block_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/fs/errno_status.h"
#include "common/fs/file_system.h"
#include "common/fs/list_some.h"
#include "common/object_store/cache/block_file.h"
#include "common/object_store/cache/file_locks.h"
#include "common/os/unique_name.h"

namespace muster {
namespace {

constexpr absl::Duration kSizeLockWait = absl::Seconds(10);
constexpr int64_t kTryAgainSeconds = 60;                  // after a block that could not be stored
constexpr absl::Duration kUseIsNoted = absl::Minutes(1);  // so often at most
// Beyond what must go, so that not every block that comes walks through the folder.
constexpr double kKeptFraction = 0.95;
constexpr uint64_t kFreePart = 10;  // of the disk, that stays free
constexpr int kMaxNames = 3;        // tried for one temporary file
// After that a block that is being written on another machine, or without locks, is given up.
constexpr absl::Duration kLeftoverAge = absl::Hours(24);
constexpr mode_t kFileMode = 0600;

absl::Status WriteAll(int fd, const std::string& path, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return FileErrno(errno, "write", path);
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return absl::OkStatus();
}

absl::Status MakeFolder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return FileErrno(errno, "make folder", path);
}

// Opens a file beside the blocks that processes lock; makes it.
UniqueFd OpenShared(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kFileMode));
}

uint64_t ReadSum(const UniqueFd& fd) {
  char digits[24] = {};
  const ssize_t got = ::pread(fd.get(), digits, sizeof digits - 1, 0);
  uint64_t sum = 0;
  if (got <= 0 || !absl::SimpleAtoi(absl::string_view(digits, static_cast<size_t>(got)), &sum)) {
    return 0;
  }
  return sum;
}

void WriteSum(const UniqueFd& fd, uint64_t sum) {
  // Of one length: a shorter number leaves no digits of a longer one behind.
  const std::string digits = absl::StrCat(absl::Dec(sum, absl::kZeroPad20));
  // A sum that is lost is found again by the next walk through the folder.
  (void)!::pwrite(fd.get(), digits.data(), digits.size(), 0);
}

struct Stored {
  timespec used;
  uint64_t bytes;
  std::string path;
};

// Whatever lies in the folder now; a file that goes meanwhile is not listed.
void AddStored(const std::string& folder, std::vector<Stored>& found) {
  const absl::StatusOr<std::vector<FileInfo>> files = ListSome(folder, SIZE_MAX);
  if (!files.ok()) return;
  for (const FileInfo& file : *files) {
    const std::string path = absl::StrCat(folder, "/", file.name);
    struct stat info;
    if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    found.push_back({info.st_mtim, static_cast<uint64_t>(info.st_size), path});
  }
}

std::vector<Stored> AllStored(const std::string& folder) {
  std::vector<Stored> found;
  const std::string blocks = folder + "/blocks";
  const absl::StatusOr<std::vector<FileInfo>> folders = ListSome(blocks, SIZE_MAX);
  if (!folders.ok()) return found;
  for (const FileInfo& part : *folders) {
    if (part.is_directory) AddStored(absl::StrCat(blocks, "/", part.name), found);
  }
  return found;
}

uint64_t SumOf(const std::vector<Stored>& stored) {
  uint64_t sum = 0;
  for (const Stored& block : stored) sum += block.bytes;
  return sum;
}

}  // namespace

BlockCache::BlockCache(BlockCacheOptions options, Clock& clock)
    : options_(std::move(options)), clock_(clock) {}

absl::StatusOr<std::unique_ptr<BlockCache>> BlockCache::Open(BlockCacheOptions options,
                                                             Clock& clock) {
  if (options.folder.empty() || options.max_bytes == 0) {
    return absl::InvalidArgumentError("a block cache needs a folder, and more than 0 bytes");
  }
  MUSTER_RETURN_IF_ERROR(PosixFileSystem().MakeDirectories(options.folder));
  for (const char* part : {"/blocks", "/new"}) {
    MUSTER_RETURN_IF_ERROR(MakeFolder(options.folder + part));
  }
  for (const char* name : {"/locks", "/size"}) {
    const std::string path = options.folder + name;
    if (!OpenShared(path).valid()) return FileErrno(errno, "open", path);
  }
  std::unique_ptr<BlockCache> cache(new BlockCache(std::move(options), clock));
  cache->RemoveLeftovers();
  // What the last ones counted may be off by the blocks in which they were killed.
  const absl::Status counted = cache->Reserve(0);
  if (!counted.ok()) cache->WarnOnce(counted);
  return cache;
}

std::string BlockCache::PathOf(absl::string_view key) const {
  return absl::StrCat(options_.folder, "/blocks/", key.substr(0, 2), "/", key);
}

void BlockCache::RemoveLeftovers() {
  const std::string folder = options_.folder + "/new";
  const absl::StatusOr<std::vector<FileInfo>> files = ListSome(folder, SIZE_MAX);
  if (!files.ok()) return;
  const std::string own = MachinePrefix();
  for (const FileInfo& file : *files) {
    const std::string path = absl::StrCat(folder, "/", file.name);
    const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat info = {};
    if (!fd.valid() || ::fstat(fd.get(), &info) != 0) continue;
    const LockOutcome lock = LockFile(fd, absl::ZeroDuration());
    // Its writer holds it for as long as it lives, which only its own machine is sure to see.
    if (lock == LockOutcome::kHeld) continue;
    const bool is_dead = lock == LockOutcome::kLocked && absl::StartsWith(file.name, own);
    const bool is_old = clock_.Now() - absl::TimeFromTimespec(info.st_mtim) > kLeftoverAge;
    if (is_dead || is_old) ::unlink(path.c_str());
  }
}

bool BlockCache::Has(absl::string_view key) const {
  return ::access(PathOf(key).c_str(), R_OK) == 0;
}

bool BlockCache::Read(absl::string_view key, uint64_t block_bytes, uint64_t offset, char* buffer,
                      uint64_t bytes) {
  const std::string path = PathOf(key);
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) return false;
  const absl::Status read = ReadBlock(fd.get(), key, block_bytes, offset, buffer, bytes);
  if (!read.ok()) {
    Log(LogLevel::kWarning, "cached_block_dropped", {{"file", path}, {"why", read.message()}});
    ::unlink(path.c_str());
    return false;
  }
  if (clock_.Now() - absl::TimeFromTimespec(info.st_mtim) > kUseIsNoted) {
    const timespec now = absl::ToTimespec(clock_.Now());
    const timespec times[2] = {now, now};
    ::futimens(fd.get(), times);  // another user's: then it keeps the time at which it came
  }
  return true;
}

void BlockCache::Store(absl::string_view key, absl::string_view block) {
  const uint64_t bytes = BlockHeaderBytes(block.size()) + block.size();
  absl::Status status = Reserve(bytes);
  if (status.ok()) {
    status = Write(key, block);
    if (!status.ok()) Release(bytes);
  }
  try_again_at_ = status.ok() ? 0 : absl::ToInt64Seconds(clock_.SinceBoot()) + kTryAgainSeconds;
  if (!status.ok()) WarnOnce(status);
}

bool BlockCache::MayStore() {
  int64_t at = try_again_at_;
  const int64_t now = absl::ToInt64Seconds(clock_.SinceBoot());
  return at == 0 ||
         (now >= at && try_again_at_.compare_exchange_strong(at, now + kTryAgainSeconds));
}

absl::Status BlockCache::Write(absl::string_view key, absl::string_view block) {
  const std::string path = PathOf(key);
  MUSTER_RETURN_IF_ERROR(MakeFolder(path.substr(0, path.rfind('/'))));
  UniqueFd fd;
  std::string temporary;
  for (int attempt = 0; attempt < kMaxNames && !fd.valid(); ++attempt) {
    temporary = absl::StrCat(options_.folder, "/new/", UniqueName());
    fd.Reset(::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode));
    if (!fd.valid() && errno != EEXIST) return FileErrno(errno, "create", temporary);
    if (!fd.valid()) continue;
    // Somebody who removes leftovers may have come before the lock.
    struct stat info;
    if (LockFile(fd, absl::ZeroDuration()) == LockOutcome::kHeld || ::fstat(fd.get(), &info) != 0 ||
        info.st_nlink == 0) {
      fd.Reset();
    }
  }
  if (!fd.valid()) return absl::UnavailableError("no temporary file could be made");
  auto remove = absl::MakeCleanup([&] { ::unlink(temporary.c_str()); });
  const std::string header = EncodeBlockHeader(key, block);
  // Its whole size at once, so that those who count what is there count it.
  if (::ftruncate(fd.get(), static_cast<off_t>(header.size() + block.size())) != 0) {
    return FileErrno(errno, "write", temporary);
  }
  MUSTER_RETURN_IF_ERROR(WriteAll(fd.get(), temporary, header));
  MUSTER_RETURN_IF_ERROR(WriteAll(fd.get(), temporary, block));
  if (::rename(temporary.c_str(), path.c_str()) != 0) return FileErrno(errno, "rename", temporary);
  std::move(remove).Cancel();
  return absl::OkStatus();
}

absl::Status BlockCache::Reserve(uint64_t bytes) {
  const std::string path = options_.folder + "/size";
  if (bytes > options_.max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a block has ", bytes, " bytes, and the cache ", options_.max_bytes, " for all of them"));
  }
  const UniqueFd fd = OpenShared(path);
  if (!fd.valid()) return FileErrno(errno, "open", path);
  // Without locks the sum may lose a block, until the folder is walked through.
  if (LockFile(fd, kSizeLockWait) == LockOutcome::kHeld) {
    return absl::UnavailableError(absl::StrCat("another process holds ", path, " for too long"));
  }
  uint64_t sum = ReadSum(fd);
  const uint64_t most = Room(sum);
  if (bytes == 0 || sum > most || bytes > most - sum) {
    sum = Evict(bytes, most);
    if (bytes > 0 && sum + bytes > most) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the disk of ", options_.folder, " has less than a tenth free"));
    }
  }
  WriteSum(fd, sum + bytes);
  return absl::OkStatus();
}

void BlockCache::Release(uint64_t bytes) {
  const UniqueFd fd = OpenShared(options_.folder + "/size");
  if (!fd.valid() || LockFile(fd, kSizeLockWait) == LockOutcome::kHeld) return;
  const uint64_t sum = ReadSum(fd);
  WriteSum(fd, sum - std::min(sum, bytes));
}

// What the blocks may have, with `sum` there now: others use the disk, too.
uint64_t BlockCache::Room(uint64_t sum) const {
  struct statvfs disk;
  if (::statvfs(options_.folder.c_str(), &disk) != 0) return options_.max_bytes;
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  const uint64_t kept_free = uint64_t{disk.f_blocks} * disk.f_frsize / kFreePart;
  const uint64_t held = sum + free;
  return std::min(options_.max_bytes, held > kept_free ? held - kept_free : 0);
}

uint64_t BlockCache::Evict(uint64_t bytes, uint64_t most) {
  std::vector<Stored> stored = AllStored(options_.folder);
  uint64_t sum = SumOf(stored);
  std::vector<Stored> being_written;
  AddStored(options_.folder + "/new", being_written);
  const uint64_t taken = SumOf(being_written) + bytes;
  if (sum + taken <= most) return sum + taken - bytes;
  std::sort(stored.begin(), stored.end(), [](const Stored& a, const Stored& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  const uint64_t kept = static_cast<uint64_t>(static_cast<double>(most) * kKeptFraction);
  for (const Stored& block : stored) {
    if (sum + taken <= kept) break;
    // Whoever reads it has it open and reads on.
    if (::unlink(block.path.c_str()) == 0) sum -= block.bytes;
  }
  return sum + taken - bytes;
}

UniqueFd BlockCache::LockForFetch(absl::string_view key, const std::function<bool()>& given_up) {
  UniqueFd fd = OpenShared(options_.folder + "/locks");
  uint64_t offset = 0;
  const bool is_key = absl::SimpleHexAtoi(key.substr(0, 15), &offset);  // 60 bits of it
  if (!fd.valid() || !is_key || !LockByte(fd, offset, options_.fetch_lock_wait, given_up)) {
    return UniqueFd();
  }
  return fd;
}

uint64_t BlockCache::bytes_on_disk() const { return SumOf(AllStored(options_.folder)); }

void BlockCache::WarnOnce(const absl::Status& status) {
  if (has_warned_.exchange(true)) return;
  Log(LogLevel::kWarning, "block_cache_cannot_store",
      {{"folder", options_.folder},
       {"error", status.message()},
       {"note", "data are read from their source; MUSTER_DATA_CACHE names another folder"}});
}

}  // namespace muster
