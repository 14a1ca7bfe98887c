#include "common/rpc/status_map.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/utf8.h"
#include "common/rpc/peer_limits.h"

namespace muster {
namespace {

std::string Bounded(absl::string_view message) {
  if (message.size() <= kMaxStatusMessageBytes) return RepairUtf8(message);
  return absl::StrCat(CutUtf8(message, kMaxStatusMessageBytes - 3), "...");
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), Bounded(status.message()));
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const int code = static_cast<int>(status.error_code());
  const bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  return absl::Status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                      status.error_message());
}

}  // namespace muster
