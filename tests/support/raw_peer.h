// A server that answers one HTTP/2 connection with whatever bytes a test wants, right or wrong.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/unique_fd.h"

namespace muster::testing {

// Frames of RFC 9113, by hand: what a decent library refuses to send.
std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload);
std::string SettingsFrame();
// Headers that enter no table, without Huffman codes; each at most 16 KiB.
std::string HeaderBlock(const std::vector<std::pair<std::string, std::string>>& headers);
std::string HeadersFrame(const std::vector<std::pair<std::string, std::string>>& headers,
                         bool end_stream);
std::string DataFrame(const std::string& data, bool end_stream);
std::string ResetFrame(uint32_t code);
std::string GoAwayFrame(uint32_t last_stream, uint32_t code);
// A message with gRPC's prefix.
std::string Prefixed(const std::string& message, bool compressed = false);

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
    // The client finds the end behind what was sent.
    void EndSending();
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
