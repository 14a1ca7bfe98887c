// The sockets at which commands report: one for each slot, made when it is first wanted and kept.
//
// A rank holds its slots alone, and they are free again only when everything it started is gone; so
// who connects to the socket of its first slot is the rank's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"

namespace muster::worker {

// A Unix socket that listens, mode 0600; its file goes with it.
class CommandListener {
 public:
  // At `<folder>/<name>`, which replaces what is there; where that is too long for a socket's
  // address, in a folder of its own under /tmp. UNAVAILABLE: it cannot be made.
  static absl::StatusOr<std::unique_ptr<CommandListener>> Listen(const std::string& folder,
                                                                 const std::string& name);
  ~CommandListener();
  CommandListener(const CommandListener&) = delete;
  CommandListener& operator=(const CommandListener&) = delete;

  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }
  // A connection that somebody made, close-on-exec and non-blocking; invalid: none waits.
  UniqueFd Accept();
  // Ends the connections that nobody accepted: those who made them are gone.
  void DropWaiting();

 private:
  CommandListener() = default;
  absl::Status Open(const std::string& folder, const std::string& name);

  std::string path_;
  std::string own_folder_;  // made for the socket alone; empty: none
  UniqueFd fd_;
};

// One thread.
class CommandListeners {
 public:
  // The folder is there when the first one is asked for.
  explicit CommandListeners(std::string folder) : folder_(std::move(folder)) {}

  // Nobody else uses the slot's until the caller is done with it.
  absl::StatusOr<CommandListener*> ForSlot(uint32_t slot);

 private:
  const std::string folder_;
  std::map<uint32_t, std::unique_ptr<CommandListener>> by_slot_;
};

}  // namespace muster::worker
