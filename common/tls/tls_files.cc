#include "common/tls/tls_files.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tls/openssl_types.h"

namespace muster {
namespace {

constexpr uint64_t kMaxKeyBytes = 4 << 20;  // certificates may stand beside the key

absl::StatusOr<OwnedBio> Open(const std::string& path) {
  OwnedBio bio(BIO_new_file(path.c_str(), "r"));
  const int error = errno;
  ERR_clear_error();
  if (bio == nullptr) return absl::ErrnoToStatus(error, absl::StrCat(path, ": cannot be read"));
  return bio;
}

absl::StatusOr<std::vector<OwnedCertificate>> ReadCertificates(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const OwnedBio bio, Open(path));
  std::vector<OwnedCertificate> certificates;
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, &NoPassword, nullptr)) {
    certificates.emplace_back(certificate);
  }
  const bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (certificates.empty() || !ended) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is no file of PEM certificates (-----BEGIN CERTIFICATE-----)"));
  }
  return certificates;
}

absl::StatusOr<OwnedKey> ReadKey(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadPrivateKey(PosixFileSystem(), path));
  OwnedKey key(PEM_read_bio_PrivateKey(BioOf(text).get(), nullptr, &NoPassword, nullptr));
  ERR_clear_error();
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": is no PEM private key, or it is encrypted (-----BEGIN PRIVATE KEY--"
                     "---)"));
  }
  return key;
}

std::string TimeText(const ASN1_TIME* time) {
  const OwnedBio bio(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(bio.get(), time);
  return TextOf(bio.get());
}

absl::Status CheckTimes(const std::string& path, const X509& certificate, absl::Time now) {
  time_t seconds = absl::ToTimeT(now);
  const std::string clock =
      absl::StrCat("this machine's clock says ",
                   absl::FormatTime("%Y-%m-%d %H:%M", now, absl::UTCTimeZone()), " UTC");
  const ASN1_TIME* begins = X509_get0_notBefore(&certificate);
  if (X509_cmp_time(begins, &seconds) > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": the certificate is for the time from ", TimeText(begins), " on; ",
                     clock, ": is it right?"));
  }
  const ASN1_TIME* ends = X509_get0_notAfter(&certificate);
  if (X509_cmp_time(ends, &seconds) < 0) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": the certificate expired at ",
                                                      TimeText(ends), "; ", clock, "; renew it"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadPrivateKey(FileSystem& fs, const std::string& path) {
  struct stat info = {};
  // A group may read it: so Kubernetes mounts a secret for a user that is not root.
  if (::stat(path.c_str(), &info) == 0 && (info.st_mode & (S_IRWXO | S_IWGRP)) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        path,
        ": others may read or write this private key; `chmod 600` it, and replace it if "
        "somebody has read it"));
  }
  return fs.ReadFile(path, kMaxKeyBytes);
}

absl::Status CheckTlsFiles(const TlsFiles& files, absl::Time now) {
  if (!files.ca.empty()) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<OwnedCertificate> trusted,
                            ReadCertificates(files.ca));
    // A bundle may hold an old one beside its successor.
    absl::Status status = absl::OkStatus();
    for (const OwnedCertificate& certificate : trusted) {
      status = CheckTimes(files.ca, *certificate, now);
      if (status.ok()) break;
    }
    MUSTER_RETURN_IF_ERROR(status);
  }
  if (files.cert.empty() && files.key.empty()) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(const std::vector<OwnedCertificate> chain, ReadCertificates(files.cert));
  MUSTER_ASSIGN_OR_RETURN(const OwnedKey key, ReadKey(files.key));
  MUSTER_RETURN_IF_ERROR(CheckTimes(files.cert, *chain.front(), now));
  const bool matches = X509_check_private_key(chain.front().get(), key.get()) == 1;
  ERR_clear_error();
  if (matches) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(files.key, ": is not the private key of ",
                                                 files.cert,
                                                 "; the two must come from one request"));
}

absl::Status CheckVouchedClient(const TlsFiles& files) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<OwnedCertificate> trusted, ReadCertificates(files.ca));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<OwnedCertificate> chain, ReadCertificates(files.cert));
  const OwnedStore store(X509_STORE_new());
  for (const OwnedCertificate& each : trusted) X509_STORE_add_cert(store.get(), each.get());
  STACK_OF(X509)* between = sk_X509_new_null();
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(between, chain[i].get());
  const OwnedStoreContext context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), chain.front().get(), between);
  X509_STORE_CTX_set_purpose(context.get(), X509_PURPOSE_SSL_CLIENT);
  const bool vouched = X509_verify_cert(context.get()) == 1;
  const int why = X509_STORE_CTX_get_error(context.get());
  sk_X509_free(between);
  ERR_clear_error();
  if (vouched) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      files.cert, ": ", files.ca, " does not vouch for this certificate as a worker's (",
      X509_verify_cert_error_string(why), ")"));
}

absl::StatusOr<std::string> ValidityText(const std::string& cert) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<OwnedCertificate> chain, ReadCertificates(cert));
  const X509* certificate = chain.front().get();
  return absl::StrCat("from ", TimeText(X509_get0_notBefore(certificate)), " to ",
                      TimeText(X509_get0_notAfter(certificate)));
}

}  // namespace muster
