#include "controller/api/enroll_service.h"

#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/rpc/peer_certificate.h"

namespace muster::controller {
namespace {

// What CheckCertificate learned is stored so often.
constexpr absl::Duration kStoreSeenEvery = absl::Minutes(1);

v1::JoinToken ToProto(const JoinTokenRow& row) {
  v1::JoinToken token;
  token.set_id(row.id);
  token.set_name_prefix(row.name_prefix);
  token.set_may_replace(row.may_replace);
  token.set_max_uses(row.max_uses);
  token.set_uses(row.uses);
  token.set_created_ms(absl::ToUnixMillis(row.created));
  token.set_expires_ms(absl::ToUnixMillis(row.expires));
  token.set_created_by(row.created_by);
  token.set_revoked(row.revoked);
  return token;
}

v1::WorkerCertificate ToProto(const Enroller::Held& held) {
  v1::WorkerCertificate certificate;
  certificate.set_name(held.row.name);
  certificate.set_serial(held.row.serial);
  if (!held.row.serial.empty()) {
    certificate.set_not_after_ms(absl::ToUnixMillis(held.row.not_after));
  }
  certificate.set_token_id(held.row.token_id);
  if (held.revoked.has_value()) certificate.set_revoked_ms(absl::ToUnixMillis(*held.revoked));
  certificate.set_valid(held.valid);
  return certificate;
}

absl::Status TooManyWait() {
  return absl::ResourceExhaustedError("too many calls of this kind wait: try again soon");
}

// `work` runs on the thread, and gives the call's status.
template <typename Work>
grpc::ServerUnaryReactor* RunOn(EnrollThread& thread, UnaryCall* call, const absl::Status& allowed,
                                Work work) {
  if (!allowed.ok()) {
    call->Done(allowed);
  } else if (!thread.Enqueue([call, work = std::move(work)] { call->Done(work(*call)); })) {
    call->Done(TooManyWait());
  }
  return call;
}

// A person's call. `work` says what it changed.
template <typename Work>
grpc::ServerUnaryReactor* RunPersonCall(EnrollThread& thread, CallGate& gate,
                                        grpc::CallbackServerContext& context, const char* method,
                                        Work work) {
  auto* call = new UnaryCall(gate, method);
  const absl::Status allowed = call->Enter(context, absl::StrCat("EnrollService/", method));
  return RunOn(thread, call, allowed, std::move(work));
}

// A machine's, which `allowed` has let in.
template <typename Work>
grpc::ServerUnaryReactor* RunCall(EnrollThread& thread, CallGate& gate, const char* method,
                                  const absl::Status& allowed, Work work) {
  return RunOn(thread, new UnaryCall(gate, method), allowed,
               [work = std::move(work)](UnaryCall&) { return work(); });
}

}  // namespace

EnrollThread::EnrollThread(Enroller& enroller) : enroller_(enroller), thread_([this] { Run(); }) {}

EnrollThread::~EnrollThread() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  thread_.join();
}

bool EnrollThread::Enqueue(std::function<void()> work) {
  MutexLock lock(mutex_);
  if (work_.size() >= kMaxWaiting) return false;
  work_.push_back(std::move(work));
  wake_.NotifyAll();
  return true;
}

absl::Status EnrollThread::CopyTo(const std::string& path) {
  const auto over = std::make_shared<std::promise<absl::Status>>();
  const auto copy = [this, over, path] { over->set_value(enroller_.CopyTo(path)); };
  if (!Enqueue(copy)) return absl::UnavailableError("too many calls of enrollment wait: try again");
  return over->get_future().get();
}

void EnrollThread::Run() {
  RealClock clock;
  absl::Duration stored = clock.SinceBoot();
  while (true) {
    std::function<void()> next;
    bool stopping = false;
    {
      MutexLock lock(mutex_);
      if (work_.empty() && !stopping_) (void)wake_.WaitFor(mutex_, kStoreSeenEvery);
      if (!work_.empty()) {
        next = std::move(work_.front());
        work_.pop_front();
      }
      stopping = stopping_ && next == nullptr;
    }
    if (next != nullptr) next();
    if (stopping || clock.SinceBoot() - stored >= kStoreSeenEvery) {
      stored = clock.SinceBoot();
      const absl::Status seen = enroller_.StoreSeen();
      if (!seen.ok()) {
        Log(LogLevel::kWarning, "certificates_not_stored", {{"error", seen.ToString()}});
      }
    }
    if (stopping) return;
  }
}

bool EnrollService::IsOpen(absl::string_view path) {
  return path == "/muster.v1.EnrollService/GetAuthority" ||
         path == "/muster.v1.EnrollService/Enroll";
}

absl::Status EnrollService::AllowJoin(grpc::CallbackServerContext& context, const char* method) {
  MutexLock lock(mutex_);
  const absl::Duration wait =
      joins_.Admit(absl::StrCat(method, "@", HostOfPeer(context.peer())), clock_.SinceBoot());
  if (wait == absl::ZeroDuration()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("too many machines join from this address: try again in ",
                   absl::ToInt64Milliseconds(wait) + 1, " ms"));
}

grpc::ServerUnaryReactor* EnrollService::CreateJoinToken(grpc::CallbackServerContext* context,
                                                         const v1::CreateJoinTokenRequest* request,
                                                         v1::CreateJoinTokenResponse* response) {
  return RunPersonCall(
      enroll_thread_, gate_, *context, "CreateJoinToken",
      [this, request, response](UnaryCall& call) -> absl::Status {
        Enroller::TokenWish wish;
        wish.max_uses = request->max_uses();
        wish.lifetime = absl::Milliseconds(request->lifetime_ms());
        wish.name_prefix = request->name_prefix();
        wish.may_replace = request->may_replace();
        wish.user = call.caller().NameOr(request->user());
        MUSTER_ASSIGN_OR_RETURN(Enroller::NewToken made,
                                enroll_thread_.enroller().CreateToken(wish));
        *response->mutable_token() = ToProto(made.row);
        response->set_text(std::move(made.text));
        call.Changes("", absl::StrCat("join token ", made.row.id));
        Log(LogLevel::kInfo, "join_token_made",
            {{"id", made.row.id}, {"uses", made.row.max_uses}, {"by", made.row.created_by}});
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* EnrollService::ListJoinTokens(grpc::CallbackServerContext* context,
                                                        const v1::ListJoinTokensRequest*,
                                                        v1::ListJoinTokensResponse* response) {
  return RunPersonCall(enroll_thread_, gate_, *context, "ListJoinTokens",
                       [this, response](UnaryCall&) -> absl::Status {
                         MUSTER_ASSIGN_OR_RETURN(const std::vector<JoinTokenRow> tokens,
                                                 enroll_thread_.enroller().Tokens());
                         for (const JoinTokenRow& row : tokens)
                           *response->add_tokens() = ToProto(row);
                         return absl::OkStatus();
                       });
}

grpc::ServerUnaryReactor* EnrollService::RevokeJoinToken(grpc::CallbackServerContext* context,
                                                         const v1::RevokeJoinTokenRequest* request,
                                                         v1::RevokeJoinTokenResponse* response) {
  return RunPersonCall(enroll_thread_, gate_, *context, "RevokeJoinToken",
                       [this, request, response](UnaryCall& call) -> absl::Status {
                         call.Changes("", absl::StrCat("join token ", request->id()));
                         MUSTER_ASSIGN_OR_RETURN(
                             const JoinTokenRow token,
                             enroll_thread_.enroller().RevokeToken(request->id()));
                         *response->mutable_token() = ToProto(token);
                         Log(LogLevel::kInfo, "join_token_revoked", {{"id", token.id}});
                         return absl::OkStatus();
                       });
}

grpc::ServerUnaryReactor* EnrollService::ListCertificates(grpc::CallbackServerContext* context,
                                                          const v1::ListCertificatesRequest*,
                                                          v1::ListCertificatesResponse* response) {
  return RunPersonCall(enroll_thread_, gate_, *context, "ListCertificates",
                       [this, response](UnaryCall&) -> absl::Status {
                         MUSTER_ASSIGN_OR_RETURN(const std::vector<Enroller::Held> all,
                                                 enroll_thread_.enroller().Certificates());
                         for (const auto& held : all) *response->add_certificates() = ToProto(held);
                         return absl::OkStatus();
                       });
}

absl::Status EnrollService::FillRevoked(const std::string& name,
                                        v1::RevokeCertificateResponse& response) {
  Enroller& enroller = enroll_thread_.enroller();
  MUSTER_ASSIGN_OR_RETURN(const Enroller::Held held, enroller.Revoke(name));
  *response.mutable_certificate() = ToProto(held);
  Log(LogLevel::kWarning, "certificate_revoked", {{"worker", name}, {"serial", held.row.serial}});
  if (options_.close_streams != nullptr) options_.close_streams(name);
  MUSTER_ASSIGN_OR_RETURN(const std::vector<JoinTokenRow> tokens, enroller.Tokens());
  for (const JoinTokenRow& token : tokens) {
    const bool is_live =
        !token.revoked && token.uses < token.max_uses && clock_.Now() < token.expires;
    if (is_live && token.id == held.row.token_id) *response.mutable_live_token() = ToProto(token);
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* EnrollService::RevokeCertificate(
    grpc::CallbackServerContext* context, const v1::RevokeCertificateRequest* request,
    v1::RevokeCertificateResponse* response) {
  return RunPersonCall(enroll_thread_, gate_, *context, "RevokeCertificate",
                       [this, request, response](UnaryCall& call) {
                         call.Changes("", absl::StrCat("worker ", request->name()));
                         return FillRevoked(request->name(), *response);
                       });
}

grpc::ServerUnaryReactor* EnrollService::GetAuthority(grpc::CallbackServerContext* context,
                                                      const v1::GetAuthorityRequest*,
                                                      v1::GetAuthorityResponse* response) {
  return RunCall(enroll_thread_, gate_, "GetAuthority", AllowJoin(*context, "GetAuthority"),
                 [this, response]() -> absl::Status {
                   MUSTER_ASSIGN_OR_RETURN(std::string authority,
                                           enroll_thread_.enroller().Authority());
                   response->set_ca(std::move(authority));
                   response->set_now_ms(absl::ToUnixMillis(clock_.Now()));
                   return absl::OkStatus();
                 });
}

absl::Status EnrollService::FillEnrolled(const v1::EnrollRequest& request, const std::string& peer,
                                         v1::EnrollResponse& response, std::string& object) {
  object = absl::StrCat("worker ", request.name());
  MUSTER_RETURN_IF_ERROR(gate_.CanRecord());
  absl::StatusOr<Enroller::Made> made = enroll_thread_.enroller().Enroll(
      {request.token_id(), request.secret(), request.name(), request.request()});
  if (!made.ok()) {
    Log(LogLevel::kWarning, "join_refused", {{"peer", peer}, {"error", made.status().ToString()}});
    return made.status();
  }
  absl::StrAppend(&object, made->replaced ? " in place of another machine" : "", " by join token ",
                  request.token_id(),
                  made->created_by.empty() ? "" : absl::StrCat(" of ", made->created_by));
  Log(LogLevel::kInfo, "worker_joined",
      {{"worker", request.name()}, {"peer", peer}, {"token", request.token_id()}});
  if (made->replaced && options_.close_streams != nullptr) options_.close_streams(request.name());
  response.set_certificate(std::move(made->certificate));
  response.set_not_after_ms(absl::ToUnixMillis(made->not_after));
  response.set_worker_port(options_.worker_port);
  response.set_http_certificate(std::move(made->http_certificate));
  response.set_scrape_token(options_.worker_scrape_token);
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* EnrollService::Enroll(grpc::CallbackServerContext* context,
                                                const v1::EnrollRequest* request,
                                                v1::EnrollResponse* response) {
  auto* call = new UnaryCall(gate_, "Enroll");
  const auto work = [this, call, request, response, peer = HostOfPeer(context->peer())] {
    std::string object;
    const absl::Status status = FillEnrolled(*request, peer, *response, object);
    gate_.RecordJoin(object, status, [call, status] { call->Done(status); });
  };
  absl::Status allowed = AllowJoin(*context, "Enroll");
  if (allowed.ok() && !enroll_thread_.Enqueue(work)) allowed = TooManyWait();
  if (!allowed.ok()) call->Done(allowed);
  return call;
}

grpc::ServerUnaryReactor* RenewService::Renew(grpc::CallbackServerContext* context,
                                              const v1::RenewRequest* request,
                                              v1::RenewResponse* response) {
  return RunCall(enroll_thread_, gate_, "Renew", gate_.Check(*context),
                 [this, request, response, shown = PeerCertificateOf(*context)]() -> absl::Status {
                   MUSTER_ASSIGN_OR_RETURN(Enroller::Made made, enroll_thread_.enroller().Renew(
                                                                    shown, request->request()));
                   response->set_certificate(std::move(made.certificate));
                   response->set_not_after_ms(absl::ToUnixMillis(made.not_after));
                   response->set_http_certificate(std::move(made.http_certificate));
                   return absl::OkStatus();
                 });
}

}  // namespace muster::controller
