// Takes the connections of one port, within bounds, and hands them over. gRPC's own listener has no
// such bounds, and when descriptors run out once it never accepts again (grpc issues 16058, 20418
// and 31080); this one waits, while who connects waits in the kernel, and goes on.
//
// One thread of its own. Public methods: any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/unique_fd.h"
#include "common/os/tcp_listener.h"
#include "controller/rpc/open_connections.h"

namespace muster::controller {

struct ConnectionBounds {
  size_t all = 1024;     // open at a time; what comes beyond that is closed at once
  size_t of_host = 512;  // likewise, from one address
};

class ConnectionListener {
 public:
  // Takes over the descriptor, which does not block; on the listener's thread.
  using Serve = std::function<void(int listener_fd, UniqueFd connection)>;

  // Binds; nothing is taken before Start. `name` is for the log and outlives the listener. The
  // codes of ListenTcp.
  static absl::StatusOr<std::unique_ptr<ConnectionListener>> Listen(const char* name,
                                                                    const std::string& listen,
                                                                    ConnectionBounds bounds);
  ~ConnectionListener();  // stops
  ConnectionListener(const ConnectionListener&) = delete;
  ConnectionListener& operator=(const ConnectionListener&) = delete;

  void Start(Serve serve);
  // Takes no more; those that wait in the kernel are refused. Idempotent.
  void Stop();

  const std::string& address() const { return listener_.address; }  // HOST:PORT as bound
  // Since the start: closed since there were too many; not taken since descriptors ran out.
  uint64_t refused() const { return refused_; }
  uint64_t failed() const { return failed_; }

 private:
  ConnectionListener(const char* name, TcpListener listener, UniqueFd wake, ConnectionBounds bounds)
      : name_(name), listener_(std::move(listener)), wake_(std::move(wake)), bounds_(bounds) {}

  void Run();
  // False: nothing can be taken for now.
  bool TakeOne();
  void Admit(UniqueFd connection, const std::string& host);
  // At most one line a minute.
  void Complain(const char* event, const std::string& why);

  const char* const name_;
  TcpListener listener_;
  const UniqueFd wake_;  // readable: stop
  const ConnectionBounds bounds_;
  Serve serve_;
  std::atomic<uint64_t> refused_ = 0;
  std::atomic<uint64_t> failed_ = 0;
  std::thread thread_;

  // Of the thread.
  OpenConnections open_;
  size_t swept_at_ = 0;                                    // open connections after the last sweep
  absl::Duration complained_ = -absl::InfiniteDuration();  // since boot
};

}  // namespace muster::controller
