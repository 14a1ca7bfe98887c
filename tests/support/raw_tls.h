// What clients are made of that say whatever bytes a test wants to a port with TLS.
#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/unique_fd.h"

namespace muster::testing {

// What a client shows of itself, and that it wants HTTP/2. Thread-safe.
class TlsIdentity {
 public:
  TlsIdentity();  // shows no certificate
  // PEM files.
  TlsIdentity(const std::string& certificate, const std::string& key);

  SSL_CTX* context() const { return context_.get(); }

 private:
  struct Free {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  std::unique_ptr<SSL_CTX, Free> context_;
};

// A client's first words in a handshake.
std::string ClientHello();

struct Dialled {
  UniqueFd fd;
  bool connected = false;  // false also where it is still on its way (SOCK_NONBLOCK)
};
// To the port of 127.0.0.1, from 127.0.0.1 + 1 + `host`, since the ports of one address are used up
// by some ten thousand clients that have gone. `flags`: SOCK_NONBLOCK, or 0.
Dialled DialFrom(uint32_t host, int port, int flags);

}  // namespace muster::testing
