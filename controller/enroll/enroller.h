// Who becomes a worker of this cluster: join tokens, the certificates that machines get by them and
// renew, and their revocation. The CA's key is read from the data folder when something is signed,
// and kept nowhere else.
//
// One thread at a time, but for CheckCertificate: any. Every call may give an error of
// store/sqlite.h; after one that leaves the disk unknown `on_fatal` has run.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/fs/file_system.h"
#include "common/tls/certificate_authority.h"
#include "common/tls/certificate_facts.h"
#include "common/tls/tls_files.h"
#include "controller/enroll/enroll_types.h"

namespace muster::controller {

class EnrollStore;

struct EnrollerOptions {
  std::string data_dir;  // enrollment.db; tls/ca.pem and tls/ca.key, where they are
  TlsFiles tls;          // of the ports; empty: nothing is encrypted, and nobody can join
  absl::Duration certificate_lifetime = absl::Hours(24 * 14);
  std::function<void(const absl::Status&)> on_fatal;
};

class Enroller {
 public:
  static constexpr uint32_t kMaxTokenUses = 10'000;
  static constexpr size_t kMaxTokens = 1000;  // that were not forgotten
  static constexpr absl::Duration kShortestToken = absl::Seconds(1);
  static constexpr absl::Duration kLongestToken = absl::Hours(24 * 30);
  static constexpr absl::Duration kTokensKept = absl::Hours(24 * 7);  // after they expired
  static constexpr size_t kMaxRequestBytes = 8 << 10;

  static absl::StatusOr<std::unique_ptr<Enroller>> Open(EnrollerOptions options, FileSystem& fs,
                                                        Clock& clock);

  ~Enroller();

  struct TokenWish {
    uint32_t max_uses = 1;
    absl::Duration lifetime;
    std::string name_prefix;
    bool may_replace = false;
    std::string user;
  };
  struct NewToken {
    JoinTokenRow row;
    std::string text;  // the only place where the secret is
  };
  // INVALID_ARGUMENT: the wish; FAILED_PRECONDITION: there is no CA's key; RESOURCE_EXHAUSTED: too
  // many tokens.
  absl::StatusOr<NewToken> CreateToken(const TokenWish& wish);
  absl::StatusOr<std::vector<JoinTokenRow>> Tokens();
  // NOT_FOUND: there is none.
  absl::StatusOr<JoinTokenRow> RevokeToken(const std::string& id);

  // The CA's certificate. FAILED_PRECONDITION as above.
  absl::StatusOr<std::string> Authority();

  struct Joiner {
    std::string token_id, secret, name, request;
  };
  struct Made {
    std::string certificate;       // by which the worker speaks to the controller
    std::string http_certificate;  // by which its HTTP port answers
    absl::Time not_after;          // of both
    bool replaced = false;         // another key held the name, and is refused from now on
    std::string created_by;        // who made the join token; empty: by none
  };
  // Codes as enroll_service.proto says. What it promises is durable when it returns.
  absl::StatusOr<Made> Enroll(const Joiner& joiner);
  // `shown`: the certificate by which the caller is connected.
  absl::StatusOr<Made> Renew(const std::string& shown, const std::string& request);

  struct Held {
    HolderRow row;
    std::optional<absl::Time> revoked;  // the last time that the name was
    bool valid = false;
  };
  absl::StatusOr<std::vector<Held>> Certificates();
  // Of any name, whether or not a certificate of it is known. Repeated, it is a later revocation.
  // FAILED_PRECONDITION: there is no TLS, and so no certificate.
  absl::StatusOr<Held> Revoke(const std::string& name);

  // PERMISSION_DENIED: it was revoked. Remembers who holds the names that it is for.
  absl::Status CheckCertificate(absl::string_view pem) MUSTER_EXCLUDES(mutex_);
  // Stores what CheckCertificate learned; now and then.
  absl::Status StoreSeen() MUSTER_EXCLUDES(mutex_);
  // Copies enrollment.db into a new file.
  absl::Status CopyTo(const std::string& path);

 private:
  Enroller(EnrollerOptions options, FileSystem& fs, Clock& clock);

  std::string TlsPath(const char* name) const;
  absl::Status Load();
  absl::StatusOr<CertificateAuthority> LoadAuthority();
  absl::Status CheckToken(const JoinTokenRow& token, const Joiner& joiner) const;
  absl::StatusOr<Made> Make(const std::string& name, const std::string& request,
                            const std::string& key, CertificateIssue issue);
  absl::Time IssuedAt(absl::string_view pem, const CertificateFacts& facts) const;
  bool IsValidLocked(const HolderRow& holder) const MUSTER_REQUIRES(mutex_);
  Held HeldLocked(const HolderRow& holder) const MUSTER_REQUIRES(mutex_);
  void SawLocked(absl::string_view pem, const CertificateFacts& facts) MUSTER_REQUIRES(mutex_);
  // Runs on_fatal where the disk is not known any more.
  absl::Status Watch(absl::Status status) const;
  template <typename T>
  absl::StatusOr<T> Watched(absl::StatusOr<T> result) const {
    (void)Watch(result.status());
    return result;
  }

  const EnrollerOptions options_;
  FileSystem& fs_;
  Clock& clock_;
  std::unique_ptr<EnrollStore> store_;
  std::string own_authority_;  // ca.pem, where it is ours; set once
  mutable Mutex mutex_;        // of what CheckCertificate goes by; never held over the store
  std::map<std::string, HolderRow, std::less<>> holders_ MUSTER_GUARDED_BY(mutex_);
  std::map<std::string, absl::Time, std::less<>> revoked_ MUSTER_GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> revoked_keys_ MUSTER_GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> unstored_ MUSTER_GUARDED_BY(mutex_);  // names of holders
};

}  // namespace muster::controller
