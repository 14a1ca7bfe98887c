#include "tests/common/object_store/scripted_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace muster::testing {
namespace {

constexpr size_t kCountedBytes = 64 << 10;

// Reads until the head and the body of one request are in `held`; false: the client is gone.
bool ReadRequest(int fd, std::string& held, ServerRequest& request) {
  char buffer[65536];
  size_t head_bytes = std::string::npos;
  size_t body_bytes = 0;
  for (;;) {
    if (head_bytes == std::string::npos) {
      const size_t end = held.find("\r\n\r\n");
      if (end != std::string::npos) {
        head_bytes = end + 4;
        request = {};
        const std::vector<std::string> lines = absl::StrSplit(held.substr(0, end), "\r\n");
        const std::vector<std::string> words = absl::StrSplit(lines[0], ' ');
        if (words.size() < 2) return false;
        request.method = words[0];
        request.target = words[1];
        for (size_t i = 1; i < lines.size(); ++i) {
          const size_t colon = lines[i].find(':');
          if (colon == std::string::npos) continue;
          request.headers[absl::AsciiStrToLower(lines[i].substr(0, colon))] =
              std::string(absl::StripAsciiWhitespace(lines[i].substr(colon + 1)));
        }
        (void)absl::SimpleAtoi(request.header("content-length"), &body_bytes);
      }
    }
    if (head_bytes != std::string::npos && held.size() >= head_bytes + body_bytes) {
      request.body = held.substr(head_bytes, body_bytes);
      held.erase(0, head_bytes + body_bytes);
      return true;
    }
    const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
    if (got <= 0) return false;
    held.append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace

bool ScriptedServer::Answer::Send(const std::string& bytes) {
  size_t done = 0;
  while (is_open_ && done < bytes.size()) {
    const ssize_t put = ::send(fd_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (put <= 0) is_open_ = false;
    if (put > 0) done += static_cast<size_t>(put);
  }
  return is_open_;
}

void ScriptedServer::Answer::Reply(int code, const std::map<std::string, std::string>& headers,
                                   const std::string& body, bool with_body) {
  std::string head = absl::StrCat("HTTP/1.1 ", code, " Text\r\n");
  for (const auto& [name, value] : headers) absl::StrAppend(&head, name, ": ", value, "\r\n");
  if (!headers.contains("Content-Length")) {
    absl::StrAppend(&head, "Content-Length: ", body.size(), "\r\n");
  }
  if (!with_body) {
    Send(head + "\r\n");
    return;
  }
  Send(head + "\r\n");
  // Counted before the client can have it: who has seen all of it sees all of the count.
  for (size_t at = 0; is_open_ && at < body.size(); at += kCountedBytes) {
    const std::string piece = body.substr(at, kCountedBytes);
    server_.body_bytes_ += piece.size();
    Send(piece);
  }
}

void ScriptedServer::Answer::Reset() {
  const linger hard = {1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  is_open_ = false;
}

void ScriptedServer::Answer::Close() { is_open_ = false; }

void ScriptedServer::Answer::Stall() {
  char buffer[4096];
  while (::recv(fd_, buffer, sizeof buffer, 0) > 0) {
  }
  is_open_ = false;
}

ScriptedServer::ScriptedServer(Script script) : script_(std::move(script)) {
  listener_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_.get(), 128) != 0 ||
      ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    ::perror("a server on loopback");
    ::abort();
  }
  port_ = ::ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

ScriptedServer::~ScriptedServer() {
  is_stopped_ = true;
  ::shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

std::string ScriptedServer::address() const { return absl::StrCat("127.0.0.1:", port_); }

std::vector<ServerRequest> ScriptedServer::requests() const {
  MutexLock lock(mutex_);
  return requests_;
}

void ScriptedServer::Accept() {
  for (;;) {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    ++connections_;
    MutexLock lock(mutex_);
    open_.push_back(fd);
    threads_.emplace_back([this, fd] { Serve(fd); });
  }
}

void ScriptedServer::Serve(int fd) {
  std::string held;
  ServerRequest request;
  Answer answer(*this, fd);
  while (answer.is_open() && !is_stopped_ && ReadRequest(fd, held, request)) {
    {
      MutexLock lock(mutex_);
      requests_.push_back(request);
    }
    script_(request, answer);
  }
  MutexLock lock(mutex_);
  open_.erase(std::find(open_.begin(), open_.end(), fd));
  ::close(fd);
}

void ServeObject(const std::string& object, const std::string& etag, const ServerRequest& request,
                 ScriptedServer::Answer& answer) {
  std::map<std::string, std::string> headers = {{"ETag", etag}, {"Accept-Ranges", "bytes"}};
  const std::string match = request.header("if-match");
  if (!match.empty() && match != etag) return answer.Reply(412, headers, "");
  if (request.method == "HEAD") {
    headers["Content-Length"] = absl::StrCat(object.size());
    return answer.Reply(200, headers, "", false);
  }
  unsigned long long first = 0;
  unsigned long long last = 0;
  if (::sscanf(request.header("range").c_str(), "bytes=%llu-%llu", &first, &last) != 2) {
    return answer.Reply(200, headers, object);
  }
  if (first >= object.size()) {
    headers["Content-Range"] = absl::StrCat("bytes */", object.size());
    return answer.Reply(416, headers, "");
  }
  last = std::min<unsigned long long>(last, object.size() - 1);
  headers["Content-Range"] = absl::StrCat("bytes ", first, "-", last, "/", object.size());
  answer.Reply(206, headers, object.substr(first, last - first + 1));
}

}  // namespace muster::testing
