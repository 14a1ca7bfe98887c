#include "common/rpc/peer_certificate.h"

#include <grpc/grpc_security_constants.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster {
namespace {

constexpr char kPlain[] = "insecure";  // as gRPC calls a connection that is not encrypted

// Those that are not there yet.
void Append(const grpc::AuthContext& peer, const char* property, std::vector<std::string>& names) {
  for (const grpc::string_ref& name : peer.FindPropertyValues(property)) {
    std::string text(name.data(), name.size());
    if (std::find(names.begin(), names.end(), text) == names.end()) {
      names.push_back(std::move(text));
    }
  }
}

}  // namespace

PeerNames PeerNamesOf(const grpc::ServerContextBase& context) {
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (peer == nullptr) return std::nullopt;
  const auto security = peer->FindPropertyValues(GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
  if (security.empty() || security.front() == kPlain) return std::nullopt;
  std::vector<std::string> names;
  Append(*peer, GRPC_X509_CN_PROPERTY_NAME, names);
  Append(*peer, GRPC_X509_SAN_PROPERTY_NAME, names);
  return names;
}

std::string PeerCertificateOf(const grpc::ServerContextBase& context) {
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (peer == nullptr) return "";
  const auto values = peer->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  return values.empty() ? "" : std::string(values.front().data(), values.front().size());
}

absl::Status CheckPeerIs(absl::string_view worker, const PeerNames& names) {
  if (!names.has_value()) return absl::OkStatus();
  if (std::find(names->begin(), names->end(), worker) != names->end()) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("the certificate that this agent shows is for ",
                   names->empty() ? "nobody" : absl::StrJoin(*names, ", "), ", not for worker ",
                   worker, ": start it with --name and a certificate that agree"));
}

}  // namespace muster
