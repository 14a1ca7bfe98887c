#include "tests/support/raw_tls.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/check.h"

namespace muster::testing {
namespace {

sockaddr_in OnLoopback(uint32_t host, int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + host);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

}  // namespace

TlsIdentity::TlsIdentity() : context_(SSL_CTX_new(TLS_client_method())) {
  static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context_.get(), kHttp2, sizeof kHttp2);
}

TlsIdentity::TlsIdentity(const std::string& certificate, const std::string& key) : TlsIdentity() {
  MUSTER_CHECK(SSL_CTX_use_certificate_chain_file(context_.get(), certificate.c_str()) == 1 &&
                   SSL_CTX_use_PrivateKey_file(context_.get(), key.c_str(), SSL_FILETYPE_PEM) == 1,
               "the files hold a certificate and its key");
}

std::string ClientHello() {
  const TlsIdentity nobody;
  SSL* session = SSL_new(nobody.context());
  SSL_set_bio(session, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  (void)SSL_connect(session);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(SSL_get_wbio(session), &bytes);
  std::string hello(bytes, static_cast<size_t>(size));
  SSL_free(session);
  return hello;
}

Dialled DialFrom(uint32_t host, int port, int flags) {
  Dialled dialled;
  dialled.fd.Reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  const sockaddr_in from = OnLoopback(1 + host, 0);
  const sockaddr_in to = OnLoopback(0, port);
  const int yes = 1;  // the port is chosen when it is known where to
  (void)::setsockopt(dialled.fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
  (void)::bind(dialled.fd.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from);
  dialled.connected =
      ::connect(dialled.fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  return dialled;
}

}  // namespace muster::testing
