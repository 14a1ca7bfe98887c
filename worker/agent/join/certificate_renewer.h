// Renews the agent's certificate when two thirds of its life have passed, on a thread of its own.
// The new one takes the old one's place on disk, and tls_watcher.h takes it over from there. The
// key stays: a crash at any time leaves files that belong together.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/fs/file_system.h"
#include "common/os/loop_thread.h"
#include "common/tls/tls_files.h"

namespace muster::worker {

// When a certificate that was made at `issued` and ends at `not_after` is due for renewal.
absl::Time RenewalTime(absl::Time issued, absl::Time not_after);

class CertificateRenewer {
 public:
  struct Renewed {
    std::string certificate;       // PEM
    std::string http_certificate;  // for the HTTP port; empty: an older controller makes none
  };
  // Gives certificates for a signing request. It may wait, for a bounded time.
  using Renew = std::function<absl::StatusOr<Renewed>(const std::string& request)>;

  // `fs` and `clock` outlive it; `files` are those that the watcher copies, `http_cert` the HTTP
  // port's; empty: it has none.
  CertificateRenewer(FileSystem& fs, Clock& clock, TlsFiles files, std::string http_cert,
                     Renew renew);
  CertificateRenewer(const CertificateRenewer&) = delete;
  CertificateRenewer& operator=(const CertificateRenewer&) = delete;

  // Looks, and renews what is due. How long until the next look; not OK: why it could not.
  absl::StatusOr<absl::Duration> LookOnce();

 private:
  absl::StatusOr<absl::Time> Due();
  // How long until the next look.
  absl::Duration Look();

  FileSystem& fs_;
  Clock& clock_;
  const TlsFiles files_;
  const std::string http_cert_;
  const Renew renew_;
  // Of the thread.
  absl::Duration next_ = -absl::InfiniteDuration();  // not renewed again before then
  absl::Duration retry_;
  std::string said_;   // the error that the log has
  LoopThread thread_;  // last: it uses all of the above
};

}  // namespace muster::worker
