// An HTTP server on loopback that answers as a test's script wants: right, late, in part or wrong.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/unique_fd.h"

namespace muster::testing {

struct ServerRequest {
  std::string method;
  std::string target;                          // path and query, as sent
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

class ScriptedServer {
 public:
  class Answer {
   public:
    Answer(ScriptedServer& server, int fd) : server_(server), fd_(fd) {}
    // Raw bytes; false: the client is gone.
    bool Send(const std::string& bytes);
    // A whole answer; Content-Length is the body's unless `headers` names another.
    void Reply(int code, const std::map<std::string, std::string>& headers, const std::string& body,
               bool with_body = true);
    // Ends the connection with a reset, with an orderly close, or not at all: until the client
    // goes.
    void Reset();
    void Close();
    void Stall();
    bool is_open() const { return is_open_; }

   private:
    ScriptedServer& server_;
    const int fd_;
    bool is_open_ = true;
  };
  // Called on a thread of its connection, for one request after the other.
  using Script = std::function<void(const ServerRequest&, Answer&)>;

  explicit ScriptedServer(Script script);
  ~ScriptedServer();

  std::string address() const;  // "127.0.0.1:PORT"
  std::string Url(const std::string& path) const { return "http://" + address() + path; }

  // So far, of all connections.
  std::vector<ServerRequest> requests() const MUSTER_EXCLUDES(mutex_);
  int connections() const { return connections_; }
  uint64_t body_bytes() const {
    return body_bytes_;
  }  // sent by Reply, a piece that did not arrive included

 private:
  void Accept();
  void Serve(int fd);

  const Script script_;
  UniqueFd listener_;
  int port_ = 0;
  std::atomic<bool> is_stopped_ = false;
  std::atomic<int> connections_ = 0;
  std::atomic<uint64_t> body_bytes_ = 0;
  mutable Mutex mutex_;
  std::vector<ServerRequest> requests_ MUSTER_GUARDED_BY(mutex_);
  std::vector<int> open_ MUSTER_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ MUSTER_GUARDED_BY(mutex_);
  std::thread acceptor_;
};

// Answers GET and HEAD of one object as a good server does: ranges, If-Match, ETag.
void ServeObject(const std::string& object, const std::string& etag, const ServerRequest& request,
                 ScriptedServer::Answer& answer);

}  // namespace muster::testing
