// One TLS connection of a client that says whatever bytes it is told to.
#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/unique_fd.h"
#include "tests/support/raw_tls.h"

namespace muster::testing {

class TlsClient {
 public:
  // Connects to the port of 127.0.0.1, from an address of loopback that follows from `number`.
  TlsClient(const TlsIdentity& identity, int port, uint64_t number);

  bool connected() const { return connected_; }

  // Past TLS.
  bool SendRaw(const std::string& bytes);
  // False: the server has ended the connection.
  bool Handshake() { return SSL_connect(session_.get()) == 1; }
  bool Send(const std::string& bytes);
  // Past TLS: says that no more comes, and waits until the server has ended the connection, or for
  // 20 ms. Whether anything was heard: an alert, or the end.
  bool EndRaw();
  // What comes until the server has ended the connection, or nothing has come for so long, is
  // dropped; how much it was.
  size_t Drain(int microseconds = 20'000);

 private:
  struct Free {
    void operator()(SSL* session) const { SSL_free(session); }
  };
  void WaitFor(int microseconds);

  UniqueFd fd_;
  bool connected_ = false;
  std::unique_ptr<SSL, Free> session_;
};

}  // namespace muster::testing
