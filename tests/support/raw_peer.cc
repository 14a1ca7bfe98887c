#include "tests/support/raw_peer.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace muster::testing {
namespace {

void PutNumber(std::string& to, uint32_t number, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) to.push_back(static_cast<char>(number >> (8 * i)));
}

// HPACK's integer with a prefix of 7 bits.
void PutLength(std::string& to, size_t length) {
  constexpr size_t kPrefix = 127;
  if (length < kPrefix) {
    to.push_back(static_cast<char>(length));
    return;
  }
  to.push_back(static_cast<char>(kPrefix));
  for (length -= kPrefix; length >= 128; length /= 128) {
    to.push_back(static_cast<char>(length % 128 + 128));
  }
  to.push_back(static_cast<char>(length));
}

}  // namespace

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload) {
  std::string frame;
  PutNumber(frame, static_cast<uint32_t>(payload.size()), 3);
  PutNumber(frame, type, 1);
  PutNumber(frame, flags, 1);
  PutNumber(frame, stream, 4);
  return frame + payload;
}

std::string SettingsFrame() { return Frame(4, 0, 0, ""); }

std::string HeaderBlock(const std::vector<std::pair<std::string, std::string>>& headers) {
  std::string block;
  for (const auto& [name, value] : headers) {
    block.push_back(0);
    PutLength(block, name.size());
    block += name;
    PutLength(block, value.size());
    block += value;
  }
  return block;
}

std::string HeadersFrame(const std::vector<std::pair<std::string, std::string>>& headers,
                         bool end_stream) {
  return Frame(1, end_stream ? 5 : 4, 1, HeaderBlock(headers));
}

std::string DataFrame(const std::string& data, bool end_stream) {
  return Frame(0, end_stream ? 1 : 0, 1, data);
}

std::string ResetFrame(uint32_t code) {
  std::string payload;
  PutNumber(payload, code, 4);
  return Frame(3, 0, 1, payload);
}

std::string GoAwayFrame(uint32_t last_stream, uint32_t code) {
  std::string payload;
  PutNumber(payload, last_stream, 4);
  PutNumber(payload, code, 4);
  return Frame(7, 0, 0, payload);
}

std::string Prefixed(const std::string& message, bool compressed) {
  std::string framed(1, compressed ? '\1' : '\0');
  PutNumber(framed, static_cast<uint32_t>(message.size()), 4);
  return framed + message;
}

bool RawPeer::Connection::Send(const std::string& bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t count = ::send(fd_.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (count <= 0) return false;
    at += static_cast<size_t>(count);
  }
  return true;
}

bool RawPeer::Connection::Receive() {
  std::array<char, 65536> buffer;
  const ssize_t count = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
  if (count <= 0) return false;
  received.append(buffer.data(), static_cast<size_t>(count));
  return true;
}

void RawPeer::Connection::EndSending() { ::shutdown(fd_.get(), SHUT_WR); }

void RawPeer::Connection::AwaitHangUp() {
  while (Receive()) received.clear();
}

RawPeer::RawPeer(std::function<void(Connection&)> script, int connections)
    : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  MUSTER_CHECK(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&at), size) == 0 &&
                   ::listen(listener_.get(), connections) == 0 &&
                   ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0,
               "a port of loopback can be listened on");
  port_ = ntohs(at.sin_port);
  thread_ = std::thread([this, script = std::move(script), connections] {
    for (int i = 0; i < connections; ++i) {
      Connection connection(::accept(listener_.get(), nullptr, nullptr));
      if (connection.Receive()) script(connection);
    }
  });
}

RawPeer::~RawPeer() {
  ::shutdown(listener_.get(), SHUT_RDWR);  // nobody may have come
  thread_.join();
}

std::string RawPeer::address() const { return absl::StrCat("127.0.0.1:", port_); }

}  // namespace muster::testing
