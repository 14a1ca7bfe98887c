#include "controller/api/calls/service_call.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/metrics/metric_names.h"
#include "common/rpc/peer_certificate.h"

namespace muster::controller {

namespace {

int64_t MillisOf(absl::Duration wait) { return absl::ToInt64Milliseconds(wait) + 1; }

absl::Status TooMany(absl::Duration wait) {
  return absl::ResourceExhaustedError(
      absl::StrCat("too many calls from here: try again in ", MillisOf(wait),
                   " ms (musterd --calls-per-second is the bound of each caller)"));
}

absl::string_view AuthorizationOf(const grpc::ServerContextBase& context) {
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find("authorization");
  return it == metadata.end() ? absl::string_view()
                              : absl::string_view(it->second.data(), it->second.size());
}

std::string ObjectOf(const Job& job) { return absl::StrCat("job ", job.id); }

}  // namespace

absl::Status Stopping() {
  return absl::UnavailableError("the controller is stopping: connect again soon");
}

absl::Status CallGate::CheckHeaders(absl::string_view authorization) {
  if (!token_.has_value()) return absl::OkStatus();
  absl::Status known = CheckAuthorization(authorization, *token_);
  // Not by method: strangers name what they like.
  if (!known.ok()) CountCall("any", known.code(), absl::ZeroDuration());
  return known;
}

absl::StatusOr<std::shared_ptr<const Principal>> CallGate::Authenticate(
    absl::string_view authorization, std::shared_ptr<const Principal>* known) const {
  if (access_ != nullptr) return access_->authenticator().Authenticate(authorization, known);
  MUSTER_RETURN_IF_ERROR(CheckAuthorization(authorization, token_.value_or("")));
  static const auto* admin = new std::shared_ptr<const Principal>(
      new Principal{.user = kBuiltinAdmin, .grants = {{kAllProjects, Role::kAdmin}}});
  return *admin;
}

absl::Status CallGate::CheckPersonHeaders(absl::string_view path, absl::string_view authorization) {
  const MethodRole* method = FindMethodRole(path);
  std::shared_ptr<const Principal> known;
  const auto caller = Authenticate(authorization, &known);
  absl::Status status = caller.status();
  if (status.ok() && method == nullptr) {
    status = absl::UnimplementedError(
        absl::StrCat("musterd ", Version(), " has no such method, or no role for it"));
  } else if (status.ok()) {
    status = CheckMethod(*method, **caller);
  }
  if (status.ok()) return status;
  // Not by method: strangers name what they like.
  CountCall("any", status.code(), absl::ZeroDuration());
  RecordDenial(known.get(), method == nullptr ? "any" : method->method, "", "", status);
  return status;
}

absl::StatusOr<Caller> CallGate::Enter(grpc::ServerContextBase& context, absl::string_view method) {
  Caller caller{.method = FindMethodRole(method)};
  if (caller.method == nullptr) {  // denied by default
    return absl::PermissionDeniedError(absl::StrCat(method, ": nobody may, for it has no role"));
  }
  std::shared_ptr<const Principal> known;
  auto principal = Authenticate(AuthorizationOf(context), &known);
  caller.bucket =
      absl::StrCat(principal.ok() ? absl::StrCat("token-", (*principal)->token_id) : "nobody", "@",
                   HostOfPeer(context.peer()));
  const absl::Duration wait = WaitOf(caller.bucket);
  if (wait != absl::ZeroDuration()) {
    context.AddTrailingMetadata(kRetryAfterKey, absl::StrCat(MillisOf(wait)));
    return TooMany(wait);
  }
  absl::Status status = principal.status();
  if (status.ok()) {
    caller.principal = *std::move(principal);
    status = CheckMethod(*caller.method, *caller.principal);
  }
  if (!status.ok()) {
    RecordDenial(known.get(), caller.method->method, "", "", status);
    return status;
  }
  on_known_(context.peer());
  if (caller.method->changes) MUSTER_RETURN_IF_ERROR(CanRecord());
  return caller;
}

absl::Status CallGate::CheckProject(const Caller& caller, const std::string& project,
                                    const std::string& object) {
  const absl::Status status = CheckInProject(*caller.method, *caller.principal, project);
  if (!status.ok()) {
    RecordDenial(caller.principal.get(), caller.method->method, project, object, status);
  }
  return status;
}

absl::Status CallGate::CheckJob(const Caller& caller, const Job& job, const absl::Status& missing) {
  const std::string& project = job.settings->project;
  const absl::Status status = CheckJobOf(*caller.method, *caller.principal, project, job.owner);
  if (status.ok()) return status;
  RecordDenial(caller.principal.get(), caller.method->method, project, ObjectOf(job), status);
  if (caller.principal->RoleIn(project) == Role::kNone) return missing;
  return absl::PermissionDeniedError(absl::StrCat(
      ObjectOf(job),
      caller.method->scope == Scope::kOwnJob && !job.owner.empty() ? absl::StrCat(" of ", job.owner)
                                                                   : "",
      ": ", status.message()));
}

absl::Status CallGate::CheckAdmin(const Caller& caller, const std::string& object) {
  const absl::Status status = CheckRole(*caller.principal, Role::kAdmin, kAllProjects);
  if (!status.ok()) {
    RecordDenial(caller.principal.get(), caller.method->method, "", object, status);
  }
  return status;
}

absl::Status CallGate::CheckReads(const Caller& caller, const Job& job,
                                  const absl::Status& missing) {
  const std::string& project = job.settings->project;
  const absl::Status status = CheckRole(*caller.principal, Role::kViewer, project);
  if (status.ok()) return status;
  RecordDenial(caller.principal.get(), caller.method->method, project, ObjectOf(job), status);
  return missing;
}

absl::StatusOr<Caller> CallGate::Again(const Caller& caller) const {
  Caller now = caller;
  if (access_ == nullptr) return now;
  MUSTER_ASSIGN_OR_RETURN(now.principal, access_->authenticator().Again(*caller.principal));
  MUSTER_RETURN_IF_ERROR(CheckMethod(*now.method, *now.principal));
  return now;
}

absl::Status CallGate::CheckAgain(const Caller& caller, const std::string& project) const {
  MUSTER_ASSIGN_OR_RETURN(const Caller now, Again(caller));
  return project.empty() ? absl::OkStatus() : CheckRole(*now.principal, now.method->least, project);
}

absl::Status CallGate::CheckJobAgain(const Caller& caller, const std::string& project,
                                     const std::string& owner) const {
  MUSTER_ASSIGN_OR_RETURN(const Caller now, Again(caller));
  return CheckJobOf(*now.method, *now.principal, project, owner);
}

MayRead CallGate::ReadsOf(const Caller& caller) const {
  if (access_ == nullptr || caller.principal == nullptr || caller.principal->is_builtin()) {
    return nullptr;
  }
  return [this, principal = caller.principal](absl::string_view project) {
    const auto now = access_->authenticator().Again(*principal);
    return now.ok() && (*now)->RoleIn(project) >= Role::kViewer;
  };
}

AuditEntry CallGate::EntryOf(const Caller& caller, const std::string& project,
                             const std::string& object) const {
  return {.time = clock_.Now(),
          .user = caller.principal->user,
          .token_name = caller.principal->token_name,
          .method = std::string(caller.method->method),
          .project = project,
          .object = object,
          .outcome = "OK"};
}

void CallGate::RecordChange(const Caller& caller, const std::string& project,
                            const std::string& object, std::function<void()> done) {
  if (access_ == nullptr) return done();
  access_->Record(EntryOf(caller, project, object), std::move(done));
}

absl::Status CallGate::CanRecord() const {
  return access_ == nullptr ? absl::OkStatus() : access_->CanRecord();
}

void CallGate::RecordJoin(const std::string& object, const absl::Status& outcome,
                          std::function<void()> done) {
  constexpr char kMethod[] = "EnrollService/Enroll";
  // Of one outcome, so that refused joins are of one kind (audit_fold.h).
  if (absl::IsPermissionDenied(outcome) || absl::IsAlreadyExists(outcome)) {
    RecordDenial(nullptr, kMethod, "", object, absl::PermissionDeniedError(outcome.message()));
  }
  if (access_ == nullptr || !outcome.ok()) return done();
  access_->Record({.time = clock_.Now(), .method = kMethod, .object = object, .outcome = "OK"},
                  std::move(done));
}

void CallGate::RecordRefusedAgent(absl::string_view method, const std::string& object,
                                  const absl::Status& outcome) {
  if (!absl::IsPermissionDenied(outcome) && !absl::IsUnauthenticated(outcome)) return;
  AuditEntry entry = DenialOf(nullptr, method, "", object, outcome);
  entry.by_agent = true;
  if (access_ != nullptr) access_->RecordDenial(std::move(entry));
}

AuditEntry CallGate::DenialOf(const Principal* caller, absl::string_view method,
                              const std::string& project, const std::string& object,
                              const absl::Status& denied) const {
  return {.time = clock_.Now(),
          .user = caller == nullptr ? "" : caller->user,
          .token_name = caller == nullptr ? "" : caller->token_name,
          .method = std::string(method),
          .project = project,
          .object = object,
          .outcome = absl::StatusCodeToString(denied.code()),
          .detail = std::string(denied.message())};
}

void CallGate::RecordDenial(const Principal* caller, absl::string_view method,
                            const std::string& project, const std::string& object,
                            const absl::Status& denied) {
  if (access_ != nullptr) access_->RecordDenial(DenialOf(caller, method, project, object, denied));
}

absl::Status CallGate::CheckCaller(const grpc::ServerContextBase& context) const {
  if (token_.has_value()) return CheckToken(context, *token_);
  const PeerNames names = PeerNamesOf(context);
  if (names.has_value() && !names->empty()) return absl::OkStatus();
  return absl::UnauthenticatedError("a client certificate is wanted here");
}

absl::Status CallGate::Check(grpc::ServerContextBase& context) {
  const absl::Status known = CheckCaller(context);
  const absl::Duration wait = WaitOf(BucketOf(context));
  if (known.ok()) on_known_(context.peer());
  if (wait == absl::ZeroDuration()) return known;
  context.AddTrailingMetadata(kRetryAfterKey, absl::StrCat(MillisOf(wait)));
  return TooMany(wait);
}

std::string CallGate::BucketOf(const grpc::ServerContextBase& context) const {
  const bool known = CheckCaller(context).ok();
  return absl::StrCat(!known               ? "nobody@"
                      : token_.has_value() ? "token@"
                                           : "certificate@",
                      HostOfPeer(context.peer()));
}

absl::Status CallGate::Admit(const std::string& bucket) {
  const absl::Duration wait = WaitOf(bucket);
  return wait == absl::ZeroDuration() ? absl::OkStatus() : TooMany(wait);
}

absl::Duration CallGate::WaitOf(const std::string& bucket) {
  MutexLock lock(mutex_);
  return limiter_.Admit(bucket, clock_.SinceBoot());
}

std::string HostOfPeer(const std::string& peer) {
  const size_t port = peer.rfind(':');
  return port == std::string::npos || port == peer.find(':') ? peer : peer.substr(0, port);
}

void CallGate::CountCall(const char* method, absl::StatusCode code, absl::Duration took) {
  families_.Add(metric::kRpcRequestsTotal, {method, absl::StatusCodeToString(code)});
  families_.Add(metric::kRpcSecondsTotal, {method}, absl::ToDoubleSeconds(took));
}

void CallGate::StreamOpened(const char* method) { families_.Add(metric::kRpcStreams, {method}, 1); }

void CallGate::StreamClosed(const char* method, absl::StatusCode code) {
  families_.Add(metric::kRpcStreams, {method}, -1);
  families_.Add(metric::kRpcRequestsTotal, {method, absl::StatusCodeToString(code)});
}

absl::Status CheckProtocolVersion(uint32_t theirs, absl::string_view side) {
  if (theirs >= kOldestPeer && theirs <= kProtocolVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "protocol versions differ: ", side, " speaks ", theirs, ", musterd ", Version(), " speaks ",
      kProtocolVersion, "; install the same Muster release on both sides (",
      theirs < kProtocolVersion ? side : "musterd", " is the older one)"));
}

}  // namespace muster::controller
