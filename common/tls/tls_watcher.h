// Renewed certificates without a restart. gRPC takes whatever its files hold, nonsense and a key
// beside another's certificate too, and then refuses every connection. So it is given copies, which
// change only for files that were checked, and where key and certificates are one file, so that the
// two change at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/fs/file_system.h"
#include "common/os/loop_thread.h"
#include "common/tls/tls_files.h"

namespace muster {

class TlsWatcher {
 public:
  // Copies `source` into `folder`, which is its own and is made, and looks for changes on a thread
  // of its own. `fs` and `clock` outlive it. The codes of CheckTlsFiles and of FileSystem.
  static absl::StatusOr<std::unique_ptr<TlsWatcher>> Start(
      FileSystem& fs, Clock& clock, const TlsFiles& source, const std::string& folder,
      absl::Duration interval = absl::Seconds(kTlsRefreshSeconds));
  TlsWatcher(const TlsWatcher&) = delete;
  TlsWatcher& operator=(const TlsWatcher&) = delete;

  // The copies; the paths stay.
  const TlsFiles& files() const { return files_; }
  // When the certificate in use ends. Any thread.
  absl::Time not_after() const { return absl::FromUnixSeconds(not_after_seconds_); }

 private:
  TlsWatcher(FileSystem& fs, Clock& clock, TlsFiles source, const std::string& folder,
             absl::Duration interval);

  // Takes over what has changed. Not OK: what is there cannot be used, and what was in use stays.
  absl::Status Refresh();
  absl::Status Put(const std::string& path, const std::string& text);
  void Look();

  FileSystem& fs_;
  Clock& clock_;
  const TlsFiles source_;
  const TlsFiles files_;
  std::string contents_;  // of the files in use; by Refresh alone
  std::atomic<int64_t> not_after_seconds_ = 0;
  absl::Status said_;  // of the thread
  LoopThread thread_;  // last: it uses all of the above
};

}  // namespace muster
