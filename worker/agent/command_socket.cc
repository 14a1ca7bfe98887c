#include "worker/agent/command_socket.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

constexpr char kName[] = "/muster.sock";
constexpr int kBacklog = 64;

absl::Status Failure(absl::string_view step, const std::string& path) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", step, " the rank's socket ", path, ": ", ::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CommandSocket>> CommandSocket::Listen(EventLoop& loop,
                                                                     const std::string& folder) {
  std::unique_ptr<CommandSocket> socket(new CommandSocket(loop));
  MUSTER_RETURN_IF_ERROR(socket->Open(folder));
  return socket;
}

absl::Status CommandSocket::Open(const std::string& folder) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path_ = absl::StrCat(folder, kName);
  if (path_.size() >= sizeof address.sun_path) {
    char made[] = "/tmp/muster-XXXXXX";
    if (::mkdtemp(made) == nullptr) return Failure("make a folder for", made);
    own_folder_ = made;
    path_ = absl::StrCat(own_folder_, kName);
  }
  ::memcpy(address.sun_path, path_.data(), path_.size());
  listener_.Reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_.valid()) return Failure("make", path_);
  // Until it listens nobody can connect, so nobody can before its mode is right.
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(path_.c_str(), 0600) != 0 || ::listen(listener_.get(), kBacklog) != 0) {
    return Failure("listen at", path_);
  }
  return absl::OkStatus();
}

void CommandSocket::Serve(OnLine on_line) {
  on_line_ = std::move(on_line);
  loop_.Watch(listener_.get(), POLLIN, [this](short) { Accept(); });
  serving_ = true;
}

CommandSocket::~CommandSocket() {
  *alive_ = false;
  if (serving_) loop_.Unwatch(listener_.get());
  links_.clear();
  if (listener_.valid()) ::unlink(path_.c_str());
  if (!own_folder_.empty()) ::rmdir(own_folder_.c_str());
}

void CommandSocket::Accept() {
  UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.valid()) return;
  const ConnectionId id = next_++;
  // Removed on a later turn: the link is in the call.
  const auto remove = [this, id] {
    loop_.After(absl::ZeroDuration(), [this, id, alive = alive_] {
      if (*alive) Remove(id);
    });
  };
  links_[id] = std::make_shared<RankLink>(
      loop_, std::move(fd),
      RankLink::Handlers{.on_line = [this, id](RankLine line) { on_line_(id, std::move(line)); },
                         .on_broken = [remove](absl::Status) { remove(); },
                         .on_bad_line =
                             [this, id](const absl::Status& status) {
                               Send(id, ErrorLine{std::string(status.message())});
                             },
                         .on_end = remove});
  if (links_.size() >= kMaxConnections) loop_.SetEvents(listener_.get(), 0);
}

void CommandSocket::Remove(ConnectionId id) {
  links_.erase(id);
  if (links_.size() < kMaxConnections) loop_.SetEvents(listener_.get(), POLLIN);
}

void CommandSocket::Send(ConnectionId to, const AgentLine& line) {
  const auto it = links_.find(to);
  if (it != links_.end()) it->second->Send(line);
}

void CommandSocket::Broadcast(const AgentLine& line) {
  for (const auto& [id, link] : links_) link->Send(line);
}

void CommandSocket::Drain() {
  // A process may have connected, spoken and gone within one turn of the loop.
  for (size_t before = 0; before != next_;) {
    before = next_;
    if (links_.size() < kMaxConnections) Accept();
  }
  std::vector<std::shared_ptr<RankLink>> links;
  for (const auto& [id, link] : links_) links.push_back(link);
  for (const auto& link : links) link->Drain();
}

}  // namespace muster::worker
