#include "controller/rpc/checked_credentials.h"

#include <grpc/grpc_security.h>
#include <grpc/slice.h>

#include <string>
#include <utility>

namespace muster::controller {
namespace {

absl::string_view View(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

// gRPC's C++ refuses a check on its own insecure credentials; its core, which this speaks to, does
// not.
class CheckedCredentials final : public grpc::ServerCredentials {
 public:
  explicit CheckedCredentials(CallCheck check)
      : credentials_(grpc_insecure_server_credentials_create()) {
    grpc_server_credentials_set_auth_metadata_processor(
        credentials_, {.process = &Process,
                       .destroy = [](void* state) { delete static_cast<CallCheck*>(state); },
                       .state = new CallCheck(std::move(check))});
  }
  ~CheckedCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  static void Process(void* state, grpc_auth_context*, const grpc_metadata* metadata, size_t count,
                      grpc_process_auth_metadata_done_cb done, void* user_data) {
    absl::string_view path;
    absl::string_view authorization;
    for (size_t i = 0; i < count; ++i) {
      const absl::string_view key = View(metadata[i].key);
      if (key == ":path") path = View(metadata[i].value);
      if (key == "authorization") authorization = View(metadata[i].value);
    }
    const absl::Status status = (*static_cast<const CallCheck*>(state))(path, authorization);
    done(user_data, nullptr, 0, nullptr, 0, static_cast<grpc_status_code>(status.code()),
         status.ok() ? nullptr : std::string(status.message()).c_str());
  }

  grpc_server_credentials* const credentials_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> MakeCheckedCredentials(CallCheck check) {
  return std::make_shared<CheckedCredentials>(std::move(check));
}

}  // namespace muster::controller
