// The folders that people uploaded for their command jobs, as archives named by their SHA-256:
// files in one folder, each either whole and durable or not there.
//
// Bounded in bytes. What a live job refers to stays. The rest may go one hour after its last job
// ended or it was last asked for, whichever is later (a start of the controller counts as asking);
// where space is needed, ten minutes after that: a submit may take as long to follow. It is removed
// when the next upload begins, and not before.
//
// Find and IsFrom are thread-safe; all else is for one thread at a time, since it waits for the
// disk.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/fs/file_system.h"
#include "common/os/sha256.h"

namespace muster::controller {

class UploadStore {
 public:
  static constexpr absl::Duration kKeep = absl::Hours(1);
  static constexpr absl::Duration kKeepAlways = absl::Minutes(10);
  static constexpr size_t kMaxIncoming = 16;
  static constexpr uint64_t kPieceBytes = 256 << 10;

  struct Options {
    std::string folder;
    uint64_t max_bytes = 0;  // of all archives together
    // Those that jobs refer to: how long ago the last of these jobs ended; zero while one is live.
    std::function<std::map<std::string, absl::Duration>()> referred;
  };

  // Makes the folder, or finds what is in it; removes what was never finished.
  static absl::StatusOr<std::unique_ptr<UploadStore>> Open(Options options, FileSystem& fs,
                                                           Clock& clock);

  // Whether the archive is there; if so it is kept for a while, for a submit to follow. One that
  // could not be read last time is not: whoever has it may send it again, and replaces it.
  bool Find(const std::string& sha256) MUSTER_EXCLUDES(mutex_);
  // Whether `user` has sent it, whole, since the store was opened. Any thread, too.
  bool IsFrom(const std::string& sha256, const std::string& user) MUSTER_EXCLUDES(mutex_);

  // One archive on its way. Destroyed before Commit it leaves nothing. Must not outlive the store.
  class Incoming {
   public:
    ~Incoming();
    // INVALID_ARGUMENT: more than was announced. RESOURCE_EXHAUSTED: the disk is full.
    absl::Status Append(absl::string_view bytes);
    // OK: durable; what was there under that name and can be read stays in its place.
    // INVALID_ARGUMENT: it is not what it was announced as.
    absl::Status Commit();

   private:
    friend class UploadStore;
    Incoming(UploadStore& store, std::string sha256, uint64_t bytes, std::string user)
        : store_(store), sha256_(std::move(sha256)), bytes_(bytes), user_(std::move(user)) {}

    UploadStore& store_;
    const std::string sha256_;
    const uint64_t bytes_;  // announced
    const std::string user_;
    uint64_t received_bytes_ = 0;
    bool admitted_ = false;  // counted by the store
    std::string path_;       // of what is half written
    std::unique_ptr<WritableFile> file_;
    Sha256 hash_;
  };

  // `user`: who sends it. INVALID_ARGUMENT: no hash, or larger than an upload may be.
  // RESOURCE_EXHAUSTED: no room, or too many at a time.
  absl::StatusOr<std::unique_ptr<Incoming>> Begin(const std::string& sha256, uint64_t bytes,
                                                  const std::string& user = "")
      MUSTER_EXCLUDES(mutex_);

  // One archive on its way out, from its first byte. Must not outlive the store.
  class Outgoing {
   public:
    Outgoing(UploadStore& store, std::string sha256) : store_(store), sha256_(std::move(sha256)) {}
    // The next piece, of at most kPieceBytes; empty at the end, if the bytes have the hash that
    // names the archive. NOT_FOUND: it is not there; or not as it came, since somebody removed or
    // changed its file: that is removed, and can be sent again. UNAVAILABLE: it could not be read
    // this time, or came anew meanwhile; it can be read again from its first byte.
    absl::StatusOr<std::string> Next();

   private:
    absl::Status Gone(absl::string_view why);

    UploadStore& store_;
    const std::string sha256_;
    uint64_t version_ = 0;  // that was begun with; 0: not yet
    uint64_t offset_ = 0;
    Sha256 hash_;
  };

  uint64_t total_bytes() MUSTER_EXCLUDES(mutex_);

  // Those that are being received.
  size_t under_way() MUSTER_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return incoming_;
  }

 private:
  struct Archive {
    uint64_t bytes = 0;
    absl::Duration used_at;            // since boot
    uint64_t version = 0;              // another one for each file that came under the name
    bool unreadable = false;           // since the last read of it failed
    std::set<std::string> users = {};  // who sent it
  };

  UploadStore(Options options, FileSystem& fs, Clock& clock)
      : options_(std::move(options)), fs_(fs), clock_(clock) {}

  absl::Status Load();
  // Its version, kept for a while longer; 0: it is not there.
  uint64_t FindVersion(const std::string& sha256) MUSTER_EXCLUDES(mutex_);
  void SetUnreadable(const std::string& sha256, uint64_t version, bool unreadable)
      MUSTER_EXCLUDES(mutex_);
  // False: there is another version by now.
  bool Discard(const std::string& sha256, uint64_t version) MUSTER_EXCLUDES(mutex_);
  // Takes out what may go until `bytes` more would fit; the files are the caller's to remove.
  std::set<std::string> CollectLocked(uint64_t bytes,
                                      const std::map<std::string, absl::Duration>& referred)
      MUSTER_REQUIRES(mutex_);
  std::string PathOf(const std::string& name) const { return options_.folder + "/" + name; }

  const Options options_;
  FileSystem& fs_;
  Clock& clock_;
  Mutex mutex_;
  std::map<std::string, Archive> archives_ MUSTER_GUARDED_BY(mutex_);
  uint64_t total_bytes_ MUSTER_GUARDED_BY(mutex_) = 0;
  uint64_t reserved_bytes_ MUSTER_GUARDED_BY(mutex_) = 0;  // of those on their way
  size_t incoming_ MUSTER_GUARDED_BY(mutex_) = 0;
  uint64_t names_ MUSTER_GUARDED_BY(mutex_) = 0;     // of temporary files, so far
  uint64_t versions_ MUSTER_GUARDED_BY(mutex_) = 0;  // so far
};

}  // namespace muster::controller
