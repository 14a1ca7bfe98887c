#include "tests/integration/connection_flood.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/unique_fd.h"
#include "tests/support/raw_tls.h"

namespace muster::testing {
namespace {

// HTTP/2's preface with an empty SETTINGS frame.
const std::string& Http2Preface() {
  static const auto* preface = new std::string(std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") +
                                               std::string("\0\0\0\4\0\0\0\0\0", 9));
  return *preface;
}

SSL* NewSession() {
  static const auto* nobody = new TlsIdentity();
  SSL* session = SSL_new(nobody->context());
  SSL_set_connect_state(session);
  return session;
}

const std::string& HelloBytes() {
  static const auto* hello = new std::string(ClientHello());
  return *hello;
}

}  // namespace

class ConnectionFlood::Connection {
 public:
  explicit Connection(Kind kind) : kind_(kind) {}

  void Open(int port, size_t host) {
    fd_ = DialFrom(static_cast<uint32_t>(host), port, SOCK_NONBLOCK).fd;
    sent_ = 0;
    said_first_ = false;
    session_.reset();
    if (kind_ == Kind::kOnlyTls || kind_ == Kind::kOnlyHttp2 || kind_ == Kind::kEndlessHeaders) {
      session_.reset(NewSession());
      SSL_set_fd(session_.get(), fd_.get());
    }
  }
  void Close() { fd_.Reset(); }

  bool IsOpen() const {
    if (!fd_.valid()) return false;
    char byte = 0;
    const ssize_t got = ::recv(fd_.get(), &byte, 1, MSG_PEEK);
    return got > 0 || (got < 0 && errno == EAGAIN);
  }

  // What the kind does each second.
  void GoOn() {
    switch (kind_) {
      case Kind::kSilent:
        return;
      case Kind::kHalfHello:
        return SendTo(HelloBytes(), HelloBytes().size() / 2);
      case Kind::kByteEachSecond:
        return SendTo(HelloBytes(), std::min(sent_ + 1, HelloBytes().size() - 1));
      case Kind::kEndlessHeaders:
        if (!Handshake()) return;
        return Say(std::exchange(said_first_, true) ? "X-More: and more\r\n"
                                                    : "GET /metrics HTTP/1.1\r\nHost: a\r\n");
      case Kind::kOnlyTls:
        (void)Handshake();
        return;
      case Kind::kOnlyHttp2:
        if (Handshake() && !std::exchange(said_first_, true)) Say(Http2Preface());
        return;
    }
  }

 private:
  void Send(const std::string& text) {
    const ssize_t put = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (put > 0) sent_ += static_cast<size_t>(put);
  }
  void SendTo(const std::string& text, size_t end) {
    if (sent_ < end) Send(text.substr(sent_, end - sent_));
  }
  // Whether it has ended; what the server says then is dropped.
  bool Handshake() {
    if (SSL_do_handshake(session_.get()) != 1) return false;
    char heard[4096];
    while (SSL_read(session_.get(), heard, sizeof heard) > 0) {
    }
    return true;
  }
  void Say(const std::string& text) {
    (void)SSL_write(session_.get(), text.data(), static_cast<int>(text.size()));
  }

  struct FreeSession {
    void operator()(SSL* session) const { SSL_free(session); }
  };

  const Kind kind_;
  UniqueFd fd_;
  size_t sent_ = 0;
  bool said_first_ = false;
  std::unique_ptr<SSL, FreeSession> session_;
};

ConnectionFlood::ConnectionFlood(int port, size_t count, size_t hosts, std::vector<Kind> kinds)
    : port_(port), hosts_(hosts) {
  for (size_t i = 0; i < count; ++i) {
    connections_.push_back(std::make_unique<Connection>(kinds[i % kinds.size()]));
  }
  thread_ = std::thread([this] { Run(); });
}

ConnectionFlood::~ConnectionFlood() {
  stop_ = true;
  thread_.join();
}

void ConnectionFlood::Run() {
  // OpenSSL writes to connections that the server has closed.
  sigset_t broken_pipe;
  ::sigemptyset(&broken_pipe);
  ::sigaddset(&broken_pipe, SIGPIPE);
  (void)::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
  bool first = true;
  while (!stop_) {
    size_t open = 0;
    for (size_t i = 0; i < connections_.size() && !stop_; ++i) {
      Connection& one = *connections_[i];
      if (one.IsOpen()) {
        ++open;
      } else {
        if (!first) ++closed_;
        ++connects_;
        one.Open(port_, i % hosts_);
      }
      one.GoOn();
      // The handshake's answer comes while the others have their turn.
    }
    first = false;
    open_ = open;
    most_open_ = std::max<size_t>(most_open_, open);
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  for (const auto& one : connections_) one->Close();
}

}  // namespace muster::testing
