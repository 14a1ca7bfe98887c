#include "tests/fuzz/tls_client.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <utility>

namespace muster::testing {

TlsClient::TlsClient(const TlsIdentity& identity, int port, uint64_t number)
    : session_(SSL_new(identity.context())) {
  Dialled dialled = DialFrom(static_cast<uint32_t>(number % 200), port, 0);
  fd_ = std::move(dialled.fd);
  connected_ = dialled.connected;
  // A handshake ends; nothing that is sent later has to be answered.
  WaitFor(500'000);
  const int yes = 1;  // else what is sent behind the handshake waits for its acknowledgement
  (void)::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  SSL_set_fd(session_.get(), fd_.get());
}

bool TlsClient::SendRaw(const std::string& bytes) {
  return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

bool TlsClient::Send(const std::string& bytes) {
  return SSL_write(session_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0;
}

void TlsClient::WaitFor(int microseconds) {
  const timeval patience = {.tv_sec = microseconds / 1'000'000,
                            .tv_usec = microseconds % 1'000'000};
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

size_t TlsClient::Drain(int microseconds) {
  WaitFor(microseconds);
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
