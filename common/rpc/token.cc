#include "common/rpc/token.h"

#include "absl/strings/str_cat.h"
#include "common/os/secrets.h"

namespace muster {
namespace {

constexpr char kAuthorization[] = "authorization";
constexpr char kBearer[] = "Bearer ";

}  // namespace

void AddToken(grpc::ClientContext& context, absl::string_view token) {
  if (!token.empty()) context.AddMetadata(kAuthorization, absl::StrCat(kBearer, token));
}

absl::Status CheckToken(const grpc::ServerContextBase& context, absl::string_view token) {
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find(kAuthorization);
  return CheckAuthorization(it == metadata.end()
                                ? absl::string_view()
                                : absl::string_view(it->second.data(), it->second.size()),
                            token);
}

absl::Status CheckAuthorization(absl::string_view authorization, absl::string_view token) {
  if (IsSameSecret(authorization, absl::StrCat(kBearer, token))) return absl::OkStatus();
  return absl::UnauthenticatedError(
      "no valid token: give the controller's token by MUSTER_TOKEN or --token-file");
}

}  // namespace muster
