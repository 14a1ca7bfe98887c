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

// Open at a time. Beyond them one that comes takes the place of one over which nobody has made a
// call yet who may (open_connections.h says of which); where there is none it is closed at once.
struct ConnectionBounds {
  size_t all = 1024;
  size_t of_host = 512;  // from one address

  // So many more may be leaving, until gRPC has closed them.
  size_t leaving() const { return 1 + all / 8; }
};

class ConnectionListener {
 public:
  // Takes over the descriptor, which does not block; on the listener's thread.
  using Serve = std::function<void(int listener_fd, UniqueFd connection)>;

  // Binds; nothing is taken before Start. `name` is for the log and outlives the listener; `open`,
  // which is not null, is shared with who tells it of which connections the callers are known. The
  // codes of ListenTcp.
  static absl::StatusOr<std::unique_ptr<ConnectionListener>> Listen(
      const char* name, const std::string& listen, ConnectionBounds bounds,
      std::shared_ptr<OpenConnections> open);
  ~ConnectionListener();  // stops
  ConnectionListener(const ConnectionListener&) = delete;
  ConnectionListener& operator=(const ConnectionListener&) = delete;

  void Start(Serve serve);
  // Takes no more; those that wait in the kernel are refused. Idempotent.
  void Stop();

  const std::string& address() const { return listener_.address; }  // HOST:PORT as bound
  // Since the start: closed at once since there were too many; closed for others; not taken since
  // descriptors ran out.
  uint64_t refused() const { return refused_; }
  uint64_t displaced() const { return displaced_; }
  uint64_t failed() const { return failed_; }

 private:
  ConnectionListener(const char* name, TcpListener listener, UniqueFd wake, ConnectionBounds bounds,
                     std::shared_ptr<OpenConnections> open)
      : name_(name),
        listener_(std::move(listener)),
        wake_(std::move(wake)),
        bounds_(bounds),
        open_(std::move(open)) {}

  void Run();
  // For how long nothing can be taken.
  absl::Duration TakeOne();
  void Admit(UniqueFd connection, const OpenConnections::Peer& peer);
  enum class Room { kFree, kMade, kNone };
  // For one more from this address; ends another one where that makes it.
  Room MakeRoomFor(const std::string& host);
  // At most one line a minute.
  void Complain(const char* event, const std::string& why);

  const char* const name_;
  TcpListener listener_;
  const UniqueFd wake_;  // readable: stop
  const ConnectionBounds bounds_;
  const std::shared_ptr<OpenConnections> open_;
  Serve serve_;
  std::atomic<uint64_t> refused_ = 0;
  std::atomic<uint64_t> displaced_ = 0;
  std::atomic<uint64_t> failed_ = 0;
  std::thread thread_;

  // Of the thread.
  size_t swept_at_ = 0;                                    // open connections after the last sweep
  absl::Duration complained_ = -absl::InfiniteDuration();  // since boot
};

}  // namespace muster::controller
