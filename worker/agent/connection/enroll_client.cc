#include "worker/agent/connection/enroll_client.h"

#include <grpcpp/client_context.h>

#include <chrono>

#include "common/rpc/channel.h"
#include "common/rpc/status_map.h"
#include "common/rpc/unverified_channel.h"
#include "muster/v1/enroll_service.grpc.pb.h"

namespace muster::worker {
namespace {

constexpr absl::Duration kEnrollTimeout = absl::Seconds(15);

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoMicroseconds(kEnrollTimeout));
}

}  // namespace

absl::StatusOr<AuthorityWord> AskAuthority(const std::string& address) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetAuthorityResponse response;
  const grpc::Status status = v1::EnrollService::Stub(MakeUnverifiedChannel(address))
                                  .GetAuthority(&context, v1::GetAuthorityRequest(), &response);
  if (!status.ok()) return FromGrpc(status);
  return AuthorityWord{response.ca(), absl::FromUnixMillis(response.now_ms())};
}

absl::StatusOr<IssuedCertificate> EnrollBy(const std::string& address, const std::string& ca_file,
                                           const JoinTokenText& token, const std::string& name,
                                           const std::string& request) {
  v1::EnrollRequest message;
  message.set_token_id(token.id);
  message.set_secret(token.secret);
  message.set_name(name);
  message.set_request(request);
  grpc::ClientContext context;
  SetDeadline(context);
  v1::EnrollResponse response;
  const grpc::Status status =
      v1::EnrollService::Stub(MakeChannel({.address = address, .tls = {.ca = ca_file}}))
          .Enroll(&context, message, &response);
  if (!status.ok()) return FromGrpc(status);
  return IssuedCertificate{.certificate = response.certificate(),
                           .not_after = absl::FromUnixMillis(response.not_after_ms()),
                           .worker_port = response.worker_port(),
                           .http_certificate = response.http_certificate(),
                           .scrape_token = response.scrape_token()};
}

absl::StatusOr<IssuedCertificate> RenewBy(const std::string& address, const TlsFiles& tls,
                                          const std::string& request) {
  v1::RenewRequest message;
  message.set_request(request);
  grpc::ClientContext context;
  SetDeadline(context);
  v1::RenewResponse response;
  const grpc::Status status = v1::RenewService::Stub(MakeChannel({.address = address, .tls = tls}))
                                  .Renew(&context, message, &response);
  if (!status.ok()) return FromGrpc(status);
  return IssuedCertificate{.certificate = response.certificate(),
                           .not_after = absl::FromUnixMillis(response.not_after_ms()),
                           .http_certificate = response.http_certificate()};
}

}  // namespace muster::worker
