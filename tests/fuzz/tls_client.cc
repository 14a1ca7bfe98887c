#include "tests/fuzz/tls_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "common/base/check.h"

namespace muster::testing {

TlsIdentity::TlsIdentity() : context_(SSL_CTX_new(TLS_client_method())) {
  static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context_.get(), kHttp2, sizeof kHttp2);
}

TlsIdentity::TlsIdentity(const std::string& certificate, const std::string& key) : TlsIdentity() {
  MUSTER_CHECK(SSL_CTX_use_certificate_chain_file(context_.get(), certificate.c_str()) == 1 &&
                   SSL_CTX_use_PrivateKey_file(context_.get(), key.c_str(), SSL_FILETYPE_PEM) == 1,
               "the files hold a certificate and its key");
}

TlsClient::TlsClient(const TlsIdentity& identity, int port, uint64_t number)
    : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), session_(SSL_new(identity.context())) {
  sockaddr_in from = {};
  from.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + static_cast<uint32_t>(number % 200));
  const int yes = 1;  // the port is chosen when it is known where to
  (void)::setsockopt(fd_.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
  (void)::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(port));
  connected_ = ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  // A handshake ends; nothing that is sent later has to be answered.
  WaitFor(500'000);
  SSL_set_fd(session_.get(), fd_.get());
}

std::string TlsClient::Hello() {
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

bool TlsClient::SendRaw(const std::string& bytes) {
  return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

bool TlsClient::Send(const std::string& bytes) {
  return SSL_write(session_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0;
}

void TlsClient::WaitFor(int microseconds) {
  const timeval patience = {.tv_sec = 0, .tv_usec = microseconds};
  (void)::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

bool TlsClient::EndRaw() {
  WaitFor(20'000);
  (void)::shutdown(fd_.get(), SHUT_WR);
  char bytes[4096];
  ssize_t got = 1;
  size_t all = 0;
  while (got > 0) {
    got = ::recv(fd_.get(), bytes, sizeof bytes, 0);
    if (got > 0) all += static_cast<size_t>(got);
  }
  return all > 0 || got == 0 || errno == ECONNRESET;
}

size_t TlsClient::Drain() {
  WaitFor(20'000);
  char bytes[16384];
  size_t all = 0;
  int got = 1;
  while (got > 0) {
    got = SSL_read(session_.get(), bytes, sizeof bytes);
    if (got > 0) all += static_cast<size_t>(got);
  }
  return all;
}

}  // namespace muster::testing
