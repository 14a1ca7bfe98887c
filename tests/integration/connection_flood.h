// Very many connections to one port, none of which ever asks for anything: what a slowloris attack
// and half-open connections are to a server.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace muster::testing {

class ConnectionFlood {
 public:
  enum class Kind {
    kSilent,          // connects, and no more
    kHalfHello,       // sends the first half of a TLS ClientHello
    kByteEachSecond,  // sends a ClientHello by a byte a second
    kOnlyTls,         // ends the TLS handshake, and says nothing of HTTP/2
    kOnlyHttp2,       // also begins HTTP/2, and makes no call
    kEndlessHeaders,  // ends the handshake, and sends a line of an HTTP/1.1 head each second
  };

  // Holds `count` connections to 127.0.0.1:`port` until it is destroyed, from `hosts` addresses
  // 127.0.0.2 and up; their kinds take turns. Each second what the server closed connects anew.
  ConnectionFlood(int port, size_t count, size_t hosts, std::vector<Kind> kinds);
  ~ConnectionFlood();

  size_t open() const { return open_; }            // as seen at the end of a second
  size_t most_open() const { return most_open_; }  // the most of these
  uint64_t connects() const { return connects_; }  // since the start
  uint64_t closed() const { return closed_; }      // of these by the server

 private:
  class Connection;

  void Run();

  const int port_;
  const size_t hosts_;
  std::vector<std::unique_ptr<Connection>> connections_;  // of the thread
  std::atomic<size_t> open_ = 0;
  std::atomic<size_t> most_open_ = 0;
  std::atomic<uint64_t> connects_ = 0;
  std::atomic<uint64_t> closed_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace muster::testing
