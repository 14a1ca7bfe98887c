#include "worker/agent/join/certificate_renewer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/tls/certificate_authority.h"
#include "common/tls/certificate_facts.h"

namespace muster::worker {
namespace {

constexpr uint64_t kMaxCertificateBytes = 64 << 10;
// The clock may be set, and the files replaced, meanwhile.
constexpr absl::Duration kLongestSleep = absl::Minutes(1);
constexpr absl::Duration kShortestSleep = absl::Seconds(1);
constexpr absl::Duration kFirstRetry = absl::Seconds(2);
constexpr absl::Duration kLongestRetry = absl::Minutes(1);

}  // namespace

absl::Time RenewalTime(absl::Time issued, absl::Time not_after) {
  return issued + 2 * ((not_after - issued) / 3);
}

CertificateRenewer::CertificateRenewer(FileSystem& fs, Clock& clock, TlsFiles files,
                                       std::string http_cert, Renew renew)
    : fs_(fs),
      clock_(clock),
      files_(std::move(files)),
      http_cert_(std::move(http_cert)),
      renew_(std::move(renew)),
      retry_(kFirstRetry),
      thread_("certificate", [this] { return Look(); }) {
  thread_.Start();
}

absl::StatusOr<absl::Time> CertificateRenewer::Due() {
  MUSTER_ASSIGN_OR_RETURN(const std::string pem, fs_.ReadFile(files_.cert, kMaxCertificateBytes));
  MUSTER_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificateFacts(pem));
  return RenewalTime(facts.not_before + kCertificateBackdate, facts.not_after);
}

absl::StatusOr<absl::Duration> CertificateRenewer::LookOnce() {
  MUSTER_ASSIGN_OR_RETURN(absl::Time due, Due());
  if (clock_.Now() >= due && clock_.SinceBoot() >= next_) {
    MUSTER_ASSIGN_OR_RETURN(const std::string key, ReadPrivateKey(fs_, files_.key));
    MUSTER_ASSIGN_OR_RETURN(const std::string request, MakeSigningRequest(key));
    MUSTER_ASSIGN_OR_RETURN(const Renewed renewed, renew_(request));
    MUSTER_ASSIGN_OR_RETURN(const CertificateFacts facts,
                            ReadCertificateFacts(renewed.certificate));
    MUSTER_ASSIGN_OR_RETURN(const std::string own_key, KeyOfRequest(request));
    if (facts.key_sha256 != own_key) {
      return absl::InternalError("the controller's answer is no certificate for this agent's key");
    }
    // The other one first: this one says when both are due.
    if (!http_cert_.empty() && !renewed.http_certificate.empty()) {
      MUSTER_RETURN_IF_ERROR(WriteFileAtomically(fs_, http_cert_, renewed.http_certificate));
    }
    MUSTER_RETURN_IF_ERROR(WriteFileAtomically(fs_, files_.cert, renewed.certificate));
    Log(LogLevel::kInfo, "certificate_renewed",
        {{"serial", facts.serial}, {"until", absl::FormatTime(facts.not_after)}});
    due = RenewalTime(facts.not_before + kCertificateBackdate, facts.not_after);
    // However the clocks differ, the controller is not asked again and again.
    next_ = clock_.SinceBoot() + (facts.not_after - facts.not_before) / 10;
    if (clock_.Now() >= due) {
      Log(LogLevel::kWarning, "clocks_differ",
          {{"reason",
            "a certificate that was made just now is due already: this machine's clock "
            "is ahead of the controller's"}});
    }
  }
  const absl::Duration wait = std::max(due - clock_.Now(), next_ - clock_.SinceBoot());
  return std::clamp(wait, kShortestSleep, kLongestSleep);
}

absl::Duration CertificateRenewer::Look() {
  const absl::StatusOr<absl::Duration> next = LookOnce();
  if (next.ok()) {
    retry_ = kFirstRetry;
    said_.clear();
    return *next;
  }
  // Once, not each time that it is tried.
  if (std::string error = next.status().ToString(); error != said_) {
    Log(LogLevel::kError, "certificate_not_renewed",
        {{"error", error},
         {"meaning", "once it has expired this machine must join again: muster-worker join"}});
    said_ = std::move(error);
  }
  return std::exchange(retry_, std::min(2 * retry_, kLongestRetry));
}

}  // namespace muster::worker
