#include "worker/agent/command/command_listener.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

constexpr int kBacklog = 64;

absl::Status Failure(absl::string_view step, const std::string& path) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", step, " the rank's socket ", path, ": ", ::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CommandListener>> CommandListener::Listen(const std::string& folder,
                                                                         const std::string& name) {
  std::unique_ptr<CommandListener> listener(new CommandListener());
  MUSTER_RETURN_IF_ERROR(listener->Open(folder, name));
  return listener;
}

absl::Status CommandListener::Open(const std::string& folder, const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path_ = absl::StrCat(folder, "/", name);
  if (path_.size() >= sizeof address.sun_path) {
    char made[] = "/tmp/muster-XXXXXX";
    if (::mkdtemp(made) == nullptr) return Failure("make a folder for", made);
    own_folder_ = made;
    path_ = absl::StrCat(own_folder_, "/", name);
  }
  ::memcpy(address.sun_path, path_.data(), path_.size());
  fd_.Reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd_.valid()) return Failure("make", path_);
  // An agent that was killed left its own.
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) return Failure("replace", path_);
  // Until it listens nobody can connect, so nobody can before its mode is right.
  if (::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(path_.c_str(), 0600) != 0 || ::listen(fd_.get(), kBacklog) != 0) {
    return Failure("listen at", path_);
  }
  return absl::OkStatus();
}

CommandListener::~CommandListener() {
  if (fd_.valid()) ::unlink(path_.c_str());
  if (!own_folder_.empty()) ::rmdir(own_folder_.c_str());
}

UniqueFd CommandListener::Accept() {
  // Most ranks never connect, and accept4 makes the new socket before it sees that none waits.
  pollfd waiting = {fd_.get(), POLLIN, 0};
  if (::poll(&waiting, 1, 0) <= 0) return UniqueFd();
  return UniqueFd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

void CommandListener::DropWaiting() {
  while (Accept().valid()) {
  }
}

absl::StatusOr<CommandListener*> CommandListeners::ForSlot(uint32_t slot) {
  std::unique_ptr<CommandListener>& listener = by_slot_[slot];
  if (listener == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(listener,
                            CommandListener::Listen(folder_, absl::StrCat("slot-", slot, ".sock")));
  }
  return listener.get();
}

}  // namespace muster::worker
