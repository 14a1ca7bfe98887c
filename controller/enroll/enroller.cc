#include "controller/enroll/enroller.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/os/secrets.h"
#include "common/os/sha256.h"
#include "common/protocol/join_token.h"
#include "common/protocol/name_rule.h"
#include "common/protocol/worker_server_name.h"
#include "controller/enroll/enroll_store.h"

namespace muster::controller {
namespace {

constexpr uint64_t kMaxAuthorityBytes = 64 << 10;
constexpr size_t kMaxUserBytes = 64;
// Certificates that ended so long ago hold no name any more, and need not be listed.
constexpr absl::Duration kHoldersKept = absl::Hours(24 * 30);

std::string TimeText(absl::Time time) {
  return absl::StrCat(absl::FormatTime("%Y-%m-%d %H:%M:%S", time, absl::UTCTimeZone()), " UTC");
}

absl::Status CheckWorkerName(absl::string_view name) {
  if (IsName(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("`", absl::CHexEscape(name.substr(0, 64)),
                   "` is no worker's name: lower-case letters, digits and inner dashes, at most "
                   "63"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Enroller>> Enroller::Open(EnrollerOptions options, FileSystem& fs,
                                                         Clock& clock) {
  std::unique_ptr<Enroller> enroller(new Enroller(std::move(options), fs, clock));
  MUSTER_RETURN_IF_ERROR(enroller->Load());
  return enroller;
}

Enroller::Enroller(EnrollerOptions options, FileSystem& fs, Clock& clock)
    : options_(std::move(options)), fs_(fs), clock_(clock) {}

Enroller::~Enroller() = default;

absl::StatusOr<std::vector<JoinTokenRow>> Enroller::Tokens() { return Watched(store_->Tokens()); }

absl::Status Enroller::Load() {
  SqliteOptions database;
  database.path = options_.data_dir + "/enrollment.db";
  MUSTER_ASSIGN_OR_RETURN(store_, EnrollStore::Open(database));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<HolderRow> holders, store_->Holders());
  MUSTER_ASSIGN_OR_RETURN(const std::vector<RevocationRow> revocations, store_->Revocations());
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> keys, store_->RevokedKeys());
  // Certificates from elsewhere are judged without it.
  own_authority_ = fs_.ReadFile(TlsPath("ca.pem"), kMaxAuthorityBytes).value_or("");
  MutexLock lock(mutex_);
  for (const HolderRow& holder : holders) holders_[holder.name] = holder;
  for (const RevocationRow& row : revocations) revoked_[row.name] = row.at;
  revoked_keys_.insert(keys.begin(), keys.end());
  return absl::OkStatus();
}

std::string Enroller::TlsPath(const char* name) const {
  return absl::StrCat(options_.data_dir, "/tls/", name);
}

absl::Status Enroller::Watch(absl::Status status) const {
  const bool is_unknown = absl::IsUnknown(status) || absl::IsDataLoss(status);
  if (is_unknown && options_.on_fatal != nullptr) options_.on_fatal(status);
  return status;
}

absl::StatusOr<CertificateAuthority> Enroller::LoadAuthority() {
  if (options_.tls.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "this controller runs without TLS, so no machine can join it by a certificate: run "
        "`musterd init --data-dir ",
        options_.data_dir, " --host NAME` and start musterd with the musterd.yaml that it writes"));
  }
  const absl::StatusOr<std::string> certificate =
      fs_.ReadFile(TlsPath("ca.pem"), kMaxAuthorityBytes);
  const absl::StatusOr<std::string> key = ReadPrivateKey(fs_, TlsPath("ca.key"));
  if (absl::IsNotFound(certificate.status()) || absl::IsNotFound(key.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        TlsPath("ca.key"),
        ": the CA's key is not on the controller, so certificates of this cluster come from "
        "elsewhere: get one for the worker's name there, and start muster-worker with --tls-ca, "
        "--tls-cert and --tls-key"));
  }
  MUSTER_RETURN_IF_ERROR(certificate.status());
  if (absl::IsPermissionDenied(key.status())) {  // of the controller, not of who calls
    return absl::FailedPreconditionError(key.status().message());
  }
  MUSTER_RETURN_IF_ERROR(key.status());
  MUSTER_ASSIGN_OR_RETURN(const std::string trusted,
                          fs_.ReadFile(options_.tls.ca, kMaxAuthorityBytes));
  if (!absl::StrContains(trusted, absl::StripAsciiWhitespace(*certificate))) {
    return absl::FailedPreconditionError(
        absl::StrCat(TlsPath("ca.pem"), ": musterd's --tls-ca, ", options_.tls.ca,
                     ", does not hold this CA, so the workers' port would refuse what it signs"));
  }
  return CertificateAuthority::Load(*certificate, *key);
}

absl::StatusOr<std::string> Enroller::Authority() {
  MUSTER_ASSIGN_OR_RETURN(const CertificateAuthority authority, LoadAuthority());
  return authority.certificate();
}

absl::StatusOr<Enroller::NewToken> Enroller::CreateToken(const TokenWish& wish) {
  if (wish.max_uses == 0 || wish.max_uses > kMaxTokenUses) {
    return absl::InvalidArgumentError(
        absl::StrCat("uses: ", wish.max_uses, " is not between 1 and ", kMaxTokenUses));
  }
  if (wish.lifetime < kShortestToken || wish.lifetime > kLongestToken) {
    return absl::InvalidArgumentError(absl::StrCat("lifetime: ", HumanDuration(wish.lifetime),
                                                   " is not between ",
                                                   HumanDuration(kShortestToken), " and 30 days"));
  }
  // A prefix may end in a dash, a name may not.
  if (!wish.name_prefix.empty()) {
    MUSTER_RETURN_IF_ERROR(CheckWorkerName(absl::StrCat(wish.name_prefix, "0")));
  }
  MUSTER_ASSIGN_OR_RETURN(const CertificateAuthority authority, LoadAuthority());
  const absl::Time now = clock_.Now();
  MUSTER_RETURN_IF_ERROR(Watch(store_->ForgetTokensBefore(now - kTokensKept)));
  MUSTER_RETURN_IF_ERROR(Watch(store_->ForgetHoldersBefore(now - kHoldersKept)));
  {
    MutexLock lock(mutex_);
    std::erase_if(holders_,
                  [&](const auto& entry) { return entry.second.not_after < now - kHoldersKept; });
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<JoinTokenRow> tokens, Tokens());
  if (tokens.size() >= kMaxTokens) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", tokens.size(),
                     " join tokens; one that lasts longer, with more uses, does "
                     "the work of many. Those that expired leave the list a week later"));
  }
  JoinTokenText text;
  MUSTER_ASSIGN_OR_RETURN(text.id, RandomHex(kJoinTokenIdDigits / 2));
  MUSTER_ASSIGN_OR_RETURN(text.secret, RandomHex(kJoinTokenSecretDigits / 2));
  MUSTER_ASSIGN_OR_RETURN(text.fingerprint, CertificateFingerprint(authority.certificate()));
  JoinTokenRow row;
  row.id = text.id;
  row.secret_sha256 = Sha256Hex(text.secret);
  row.name_prefix = wish.name_prefix;
  row.may_replace = wish.may_replace;
  row.max_uses = wish.max_uses;
  row.created = now;
  {
    // A token that is made after a revocation is later than it, whatever the clock says.
    MutexLock lock(mutex_);
    for (const auto& [name, at] : revoked_) {
      row.created = std::max(row.created, at + absl::Milliseconds(1));
    }
  }
  row.expires = now + wish.lifetime;
  row.created_by = wish.user.substr(0, kMaxUserBytes);
  MUSTER_RETURN_IF_ERROR(Watch(store_->AddToken(row)));
  return NewToken{std::move(row), FormatJoinToken(text)};
}

absl::StatusOr<JoinTokenRow> Enroller::RevokeToken(const std::string& id) {
  MUSTER_ASSIGN_OR_RETURN(std::optional<JoinTokenRow> token, Watched(store_->FindToken(id)));
  if (!token.has_value()) {
    return absl::NotFoundError(absl::StrCat("there is no join token `",
                                            absl::CHexEscape(id.substr(0, 64)),
                                            "`; `muster join-token ls` lists them by their ids"));
  }
  MUSTER_RETURN_IF_ERROR(Watch(store_->RevokeToken(id)));
  token->revoked = true;
  return *std::move(token);
}

absl::Status Enroller::CheckToken(const JoinTokenRow& token, const Joiner& joiner) const {
  const absl::Time now = clock_.Now();
  if (token.revoked) {
    return absl::PermissionDeniedError(absl::StrCat("join token ", token.id, " was revoked"));
  }
  if (now >= token.expires) {
    return absl::PermissionDeniedError(absl::StrCat("join token ", token.id, " expired at ",
                                                    TimeText(token.expires),
                                                    "; `muster join-token create` makes another"));
  }
  if (!absl::StartsWith(joiner.name, token.name_prefix)) {
    return absl::PermissionDeniedError(absl::StrCat("join token ", token.id,
                                                    " is for workers whose names begin with `",
                                                    token.name_prefix, "`, not for ", joiner.name));
  }
  return absl::OkStatus();
}

absl::StatusOr<Enroller::Made> Enroller::Enroll(const Joiner& joiner) {
  MUSTER_RETURN_IF_ERROR(CheckWorkerName(joiner.name));
  if (joiner.request.size() > kMaxRequestBytes) {
    return absl::InvalidArgumentError("the certificate signing request is larger than 8 KiB");
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string key, KeyOfRequest(joiner.request));
  std::optional<JoinTokenRow> token;
  if (joiner.token_id.size() == kJoinTokenIdDigits) {
    MUSTER_ASSIGN_OR_RETURN(token, Watched(store_->FindToken(joiner.token_id)));
  }
  const std::string secret_sha256 = Sha256Hex(joiner.secret);
  if (!token.has_value() || !IsSameSecret(secret_sha256, token->secret_sha256)) {
    return absl::PermissionDeniedError(
        "this join token is not known here: it is of another controller, or was forgotten a week "
        "after it expired");
  }
  MUSTER_RETURN_IF_ERROR(CheckToken(*token, joiner));
  CertificateIssue issue;
  issue.use = TokenUse{token->id, joiner.name, key};
  MUSTER_ASSIGN_OR_RETURN(const bool is_repeated, Watched(store_->WasUsedBy(*issue.use)));
  if (is_repeated) issue.use.reset();
  if (!is_repeated && token->uses >= token->max_uses) {
    return absl::PermissionDeniedError(absl::StrCat(
        "join token ", token->id, " is used up: ", token->uses, " of ", token->max_uses,
        " uses; a machine that repeats its own join must have kept its key"));
  }
  {
    MutexLock lock(mutex_);
    if (revoked_keys_.contains(key)) {
      return absl::PermissionDeniedError(
          "a certificate with this machine's key was revoked: remove tls/worker.key from its data "
          "folder, if the machine is to be trusted again, and join anew");
    }
    const auto revoked = revoked_.find(joiner.name);
    if (revoked != revoked_.end() && revoked->second >= token->created) {
      return absl::PermissionDeniedError(
          absl::StrCat("worker ", joiner.name, " was revoked at ", TimeText(revoked->second),
                       ", after this join token was made: it needs a newer one"));
    }
    const auto holder = holders_.find(joiner.name);
    if (holder != holders_.end() && holder->second.key_sha256 != key &&
        IsValidLocked(holder->second)) {
      if (!token->may_replace) {
        return absl::AlreadyExistsError(absl::StrCat(
            "another machine holds a certificate for the name ", joiner.name, " until ",
            TimeText(holder->second.not_after),
            ": join with another --name; or, if this machine takes its place, with a token of "
            "`muster join-token create --replace`, or after `muster nodes revoke ",
            joiner.name, "`"));
      }
      for (const auto& [name, other] : holders_) {
        if (name == joiner.name || other.key_sha256 != holder->second.key_sha256) continue;
        return absl::AlreadyExistsError(absl::StrCat(
            "worker ", joiner.name, " shares its certificate with worker ", name,
            ", which would be cut off, too: join with another --name, or `muster nodes revoke ",
            joiner.name, "` first, which ends that certificate for all of them"));
      }
      issue.lost_key = holder->second.key_sha256;
    }
  }
  issue.holder.token_id = token->id;
  MUSTER_ASSIGN_OR_RETURN(Made made, Make(joiner.name, joiner.request, key, std::move(issue)));
  made.created_by = token->created_by;
  return made;
}

absl::StatusOr<Enroller::Made> Enroller::Make(const std::string& name, const std::string& request,
                                              const std::string& key, CertificateIssue issue) {
  MUSTER_ASSIGN_OR_RETURN(const CertificateAuthority authority, LoadAuthority());
  absl::Time now = clock_.Now();
  {
    MutexLock lock(mutex_);
    // Times in certificates are whole seconds: it must be later than what was revoked.
    if (const auto revoked = revoked_.find(name); revoked != revoked_.end()) {
      now = std::max(now, revoked->second + absl::Seconds(1));
    }
  }
  if (const absl::Time from = now - kCertificateBackdate; from > clock_.Now()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "worker ", name, " was revoked when the controller's clock ran ahead: a certificate of it ",
        "is valid from ", TimeText(from), " on; join then, or with another name"));
  }
  MUSTER_ASSIGN_OR_RETURN(std::string certificate, authority.Sign(request, {.name = name}, now,
                                                                  options_.certificate_lifetime));
  const CertificateSubject http{
      kWorkerServerName, {kWorkerServerName}, CertificateSubject::Use::kServer};
  MUSTER_ASSIGN_OR_RETURN(std::string http_certificate,
                          authority.Sign(request, http, now, options_.certificate_lifetime));
  MUSTER_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificateFacts(certificate));
  issue.holder.name = name;
  issue.holder.key_sha256 = key;
  issue.holder.serial = facts.serial;
  issue.holder.issued = now;
  issue.holder.not_after = facts.not_after;
  // Counted before it is handed out: who never hears of it repeats the call, and is known.
  MUSTER_RETURN_IF_ERROR(Watch(store_->Put(issue)));
  MutexLock lock(mutex_);
  holders_[name] = issue.holder;
  unstored_.erase(name);
  if (!issue.lost_key.empty()) revoked_keys_.insert(issue.lost_key);
  return Made{std::move(certificate), std::move(http_certificate), facts.not_after,
              !issue.lost_key.empty(), ""};
}

absl::StatusOr<Enroller::Made> Enroller::Renew(const std::string& shown,
                                               const std::string& request) {
  if (request.size() > kMaxRequestBytes) {
    return absl::InvalidArgumentError("the certificate signing request is larger than 8 KiB");
  }
  MUSTER_RETURN_IF_ERROR(CheckCertificate(shown));
  MUSTER_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificateFacts(shown));
  MUSTER_ASSIGN_OR_RETURN(const std::string key, KeyOfRequest(request));
  if (facts.names.empty() || !IsName(facts.names.front())) {
    return absl::PermissionDeniedError("the certificate that is shown is not that of a worker");
  }
  if (std::count_if(facts.names.begin(), facts.names.end(),
                    [](const std::string& name) { return IsName(name); }) > 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the certificate that is shown is for several workers, ", absl::StrJoin(facts.names, ", "),
        ", and a renewed one would be for ", facts.names.front(),
        " alone: before it ends, make another with `musterd certify ",
        absl::StrJoin(facts.names, " "), "`, or let each worker join with its own"));
  }
  if (key != facts.key_sha256) {
    return absl::PermissionDeniedError(
        "the request is for another key than the certificate that is shown: a new key needs a new "
        "join");
  }
  CertificateIssue issue;
  {
    MutexLock lock(mutex_);
    const auto holder = holders_.find(facts.names.front());
    if (holder != holders_.end()) issue.holder.token_id = holder->second.token_id;
  }
  return Make(facts.names.front(), request, key, std::move(issue));
}

bool Enroller::IsValidLocked(const HolderRow& holder) const {
  const auto revoked = revoked_.find(holder.name);
  const bool was_revoked = revoked != revoked_.end() && holder.issued <= revoked->second;
  return !was_revoked && clock_.Now() < holder.not_after &&
         !revoked_keys_.contains(holder.key_sha256);
}

Enroller::Held Enroller::HeldLocked(const HolderRow& holder) const {
  Held held{holder, std::nullopt, IsValidLocked(holder)};
  const auto revoked = revoked_.find(holder.name);
  if (revoked != revoked_.end()) held.revoked = revoked->second;
  return held;
}

absl::StatusOr<std::vector<Enroller::Held>> Enroller::Certificates() {
  MUSTER_RETURN_IF_ERROR(StoreSeen());
  std::vector<Held> all;
  MutexLock lock(mutex_);
  for (const auto& [name, holder] : holders_) all.push_back(HeldLocked(holder));
  return all;
}

absl::StatusOr<Enroller::Held> Enroller::Revoke(const std::string& name) {
  MUSTER_RETURN_IF_ERROR(CheckWorkerName(name));
  if (options_.tls.empty()) {
    return absl::FailedPreconditionError(
        "this controller runs without TLS: workers show the administrator's token and no "
        "certificate that could be revoked; remove the file token, and start musterd anew");
  }
  const absl::Time now = clock_.Now();
  // The clock may have run ahead before: the revocation is no earlier than what it is about.
  RevocationRow row{name, now};
  MUSTER_ASSIGN_OR_RETURN(const std::vector<JoinTokenRow> tokens, Tokens());
  for (const JoinTokenRow& token : tokens) {
    const bool is_live = !token.revoked && now < token.expires;
    if (is_live && absl::StartsWith(name, token.name_prefix)) {
      row.at = std::max(row.at, token.created);
    }
  }
  HolderRow holder;
  holder.name = name;
  {
    MutexLock lock(mutex_);
    if (const auto it = holders_.find(name); it != holders_.end()) {
      holder = it->second;
      row.at = std::max(row.at, holder.issued);
    }
    if (const auto it = revoked_.find(name); it != revoked_.end()) {
      row.at = std::max(row.at, it->second);
    }
  }
  MUSTER_RETURN_IF_ERROR(Watch(store_->Revoke(row, holder.key_sha256)));
  MutexLock lock(mutex_);
  revoked_[name] = row.at;
  if (!holder.key_sha256.empty()) revoked_keys_.insert(holder.key_sha256);
  return HeldLocked(holder);
}

absl::Time Enroller::IssuedAt(absl::string_view pem, const CertificateFacts& facts) const {
  const bool is_own = !own_authority_.empty() && IsSignedBy(pem, own_authority_);
  return is_own ? facts.not_before + kCertificateBackdate : facts.not_before;
}

absl::Status Enroller::CheckCertificate(absl::string_view pem) {
  const absl::StatusOr<CertificateFacts> facts = ReadCertificateFacts(pem);
  if (!facts.ok()) return absl::UnauthenticatedError("a client certificate is wanted here");
  MutexLock lock(mutex_);
  if (revoked_keys_.contains(facts->key_sha256)) {
    return absl::PermissionDeniedError(
        absl::StrCat("the certificate for ", absl::StrJoin(facts->names, ", "),
                     " that this agent shows was revoked, or another machine took its name: it "
                     "needs a new key and a new join token"));
  }
  for (const std::string& name : facts->names) {
    const auto revoked = revoked_.find(name);
    if (revoked == revoked_.end() || IssuedAt(pem, *facts) > revoked->second) continue;
    return absl::PermissionDeniedError(absl::StrCat("the certificates of worker ", name,
                                                    " were revoked at ", TimeText(revoked->second),
                                                    ": it needs a newer one"));
  }
  SawLocked(pem, *facts);
  return absl::OkStatus();
}

void Enroller::SawLocked(absl::string_view pem, const CertificateFacts& facts) {
  for (const std::string& name : facts.names) {
    if (!IsName(name)) continue;
    const auto holder = holders_.find(name);
    if (holder != holders_.end() && facts.not_after <= holder->second.not_after) continue;
    const bool is_same = holder != holders_.end() && holder->second.key_sha256 == facts.key_sha256;
    holders_[name] = {name,
                      facts.key_sha256,
                      facts.serial,
                      IssuedAt(pem, facts),
                      facts.not_after,
                      is_same ? holder->second.token_id : ""};
    unstored_.insert(name);
  }
}

absl::Status Enroller::StoreSeen() {
  while (true) {
    CertificateIssue issue;
    {
      MutexLock lock(mutex_);
      if (unstored_.empty()) return absl::OkStatus();
      const std::string name = *unstored_.begin();
      unstored_.erase(unstored_.begin());
      const auto holder = holders_.find(name);
      if (holder == holders_.end()) continue;
      issue.holder = holder->second;
    }
    const absl::Status stored = Watch(store_->Put(issue));
    if (stored.ok()) continue;
    MutexLock lock(mutex_);
    unstored_.insert(issue.holder.name);
    return stored;
  }
}

absl::Status Enroller::CopyTo(const std::string& path) { return store_->CopyTo(path); }

}  // namespace muster::controller
