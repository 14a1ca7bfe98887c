#include "worker/agent/connection/handshake_errors.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster::worker {

absl::Status ExplainHandshake(const absl::Status& why, const TlsFiles& tls) {
  if (tls.cert.empty() || !absl::IsUnavailable(why)) return why;
  if (absl::StrContains(why.message(), "certificate verify failed")) {
    return absl::UnavailableError(
        absl::StrCat("the controller shows no certificate for this address that ", tls.ca,
                     " vouches for: is it that of another cluster? (", why.message(), ")"));
  }
  // A server that refuses the certificate of a client hangs up.
  if (!absl::StrContains(why.message(), "Socket closed") &&
      !absl::StrContains(why.message(), "andshake failed")) {
    return why;
  }
  const absl::Status vouched = CheckVouchedClient(tls);
  if (vouched.ok()) {
    // A connection that was open is closed for other causes.
    if (!absl::StrContains(why.message(), "failed to connect")) return why;
    const absl::StatusOr<std::string> valid = ValidityText(tls.cert);
    if (!valid.ok()) return why;
    return absl::UnavailableError(absl::StrCat(
        "the controller hangs up, as it does when it stops, has too many connections, or refuses ",
        tls.cert, ", which is valid ", *valid, ": is the controller's clock right? (",
        why.message(), ")"));
  }
  return absl::UnavailableError(absl::StrCat(
      "the controller hangs up: ", vouched.message(),
      "; join the cluster that this worker is to be of (`muster-worker join`), or make "
      "a certificate there (`musterd certify`)"));
}

}  // namespace muster::worker
