#include "controller/rpc/checked_credentials.h"

#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <string>
#include <utility>

namespace muster::controller {
namespace {

absl::string_view View(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

// The PEM text that who calls has shown; empty: none.
absl::string_view CertificateOf(const grpc_auth_context* peer) {
  grpc_auth_property_iterator it =
      grpc_auth_context_find_properties_by_name(peer, GRPC_X509_PEM_CERT_PROPERTY_NAME);
  const grpc_auth_property* property = grpc_auth_property_iterator_next(&it);
  return property == nullptr ? absl::string_view()
                             : absl::string_view(property->value, property->value_length);
}

// Takes over a reference.
grpc_server_credentials* CoreCredentials(const ConnectionSecurity& security) {
  const TlsFiles& tls = security.tls;
  if (tls.empty()) return grpc_insecure_server_credentials_create();
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          tls.key, tls.cert, tls.ca, security.refresh_seconds));
  options.watch_identity_key_cert_pairs();
  if (security.of_known_clients) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc_tls_server_credentials_create(options.c_credentials_options());
}

// gRPC's C++ refuses a check on its own insecure credentials; its core, which this speaks to, does
// not.
class CheckedCredentials final : public grpc::ServerCredentials {
 public:
  CheckedCredentials(const ConnectionSecurity& security, CallCheck check)
      : credentials_(CoreCredentials(security)) {
    grpc_server_credentials_set_auth_metadata_processor(
        credentials_, {.process = &Process,
                       .destroy = [](void* state) { delete static_cast<Checks*>(state); },
                       .state = new Checks{std::move(check), security.check_certificate}});
  }
  ~CheckedCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  struct Checks {
    CallCheck call;
    CertificateCheck certificate;
  };

  static void Process(void* state, grpc_auth_context* peer, const grpc_metadata* metadata,
                      size_t count, grpc_process_auth_metadata_done_cb done, void* user_data) {
    const Checks& checks = *static_cast<const Checks*>(state);
    absl::string_view path;
    absl::string_view authorization;
    for (size_t i = 0; i < count; ++i) {
      const absl::string_view key = View(metadata[i].key);
      if (key == ":path") path = View(metadata[i].value);
      if (key == "authorization") authorization = View(metadata[i].value);
    }
    absl::Status status = checks.call(path, authorization);
    if (status.ok() && checks.certificate != nullptr) {
      status = checks.certificate(CertificateOf(peer));
    }
    done(user_data, nullptr, 0, nullptr, 0, static_cast<grpc_status_code>(status.code()),
         status.ok() ? nullptr : std::string(status.message()).c_str());
  }

  grpc_server_credentials* const credentials_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> MakeCheckedCredentials(const ConnectionSecurity& security,
                                                                CallCheck check) {
  return std::make_shared<CheckedCredentials>(security, std::move(check));
}

}  // namespace muster::controller
