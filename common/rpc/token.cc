#include "common/rpc/token.h"

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr char kAuthorization[] = "authorization";
constexpr char kBearer[] = "Bearer ";

bool SameBytes(absl::string_view a, absl::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < b.size(); ++i) {
    difference |=
        static_cast<unsigned char>(i < a.size() ? a[i] : 0) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

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
  if (SameBytes(authorization, absl::StrCat(kBearer, token))) return absl::OkStatus();
  return absl::UnauthenticatedError(
      "no valid token: give the controller's token by MUSTER_TOKEN or --token-file");
}

}  // namespace muster
