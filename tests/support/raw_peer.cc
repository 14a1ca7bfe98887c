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

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload) {
  std::string frame;
  PutNumber(frame, static_cast<uint32_t>(payload.size()), 3);
  PutNumber(frame, type, 1);
  PutNumber(frame, flags, 1);
  PutNumber(frame, stream, 4);
  return frame + payload;
}

}  // namespace

std::string SettingsFrame() { return Frame(4, 0, 0, ""); }

std::string HeadersFrame(const std::vector<std::pair<std::string, std::string>>& headers,
                         bool end_stream) {
  std::string block;
  for (const auto& [name, value] : headers) {
    block.push_back(0);
    block.push_back(static_cast<char>(name.size()));
    block += name;
    block.push_back(static_cast<char>(value.size()));
    block += value;
  }
  return Frame(1, end_stream ? 5 : 4, 1, block);
}

std::string DataFrame(const std::string& data, bool end_stream) {
  return Frame(0, end_stream ? 1 : 0, 1, data);
}

std::string Prefixed(const std::string& message) {
  std::string framed(1, '\0');
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
