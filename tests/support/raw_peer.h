// A server that answers one HTTP/2 connection with whatever bytes a test wants, right or wrong.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/unique_fd.h"

namespace muster::testing {

// Frames of RFC 9113, by hand; on the connection's first stream.
std::string SettingsFrame();
// Names and values shorter than 127 bytes. They enter no table, and have no Huffman codes.
std::string HeadersFrame(const std::vector<std::pair<std::string, std::string>>& headers,
                         bool end_stream);
std::string DataFrame(const std::string& data, bool end_stream);
// A message with gRPC's prefix.
std::string Prefixed(const std::string& message);

// Listens on a port of the system's choice on loopback. The script runs on a thread of its own with
// each of so many connections, one after the other. It is handed one when the client's request has
// arrived; when it returns, the connection is closed.
class RawPeer {
 public:
  class Connection {
   public:
    explicit Connection(int fd) : fd_(fd) {}
    // False: the client is gone.
    bool Send(const std::string& bytes);
    // Reads and drops all until the client hangs up.
    void AwaitHangUp();
    // What came so far.
    std::string received;
    // Reads once; false: the client is gone.
    bool Receive();

   private:
    UniqueFd fd_;
  };

  explicit RawPeer(std::function<void(Connection&)> script, int connections = 1);
  ~RawPeer();

  std::string address() const;

 private:
  UniqueFd listener_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace muster::testing
