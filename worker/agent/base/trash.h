// What the agent is done with in its data folder and must go, willing or not: folders of ranks and
// of uploads, which hold whatever their jobs made. Each is renamed into the trash at once, so that
// its path is free, and removed there on a thread of its own, since a million files take minutes.
//
// What does not go stays in the trash, the log names it, and it is tried again now and then and by
// the next agent. Nothing of it ends or holds up the agent. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/fs/file_system.h"

namespace muster::worker {

class Trash {
 public:
  // Between two tries to remove what did not go.
  static constexpr absl::Duration kRetryInterval = absl::Minutes(10);

  // What the removal under way may still take at the end.
  static constexpr absl::Duration kEndPatience = absl::Seconds(3);

  // `root` is the trash's alone, on the file system of what is thrown in. `fs` outlives it, and a
  // removal that is left behind.
  Trash(FileSystem& fs, std::string root, absl::Duration retry_interval = kRetryInterval);
  // A removal that takes longer is left behind on its thread: it ends with the process, and the
  // next agent goes on with the rest.
  ~Trash();
  Trash(const Trash&) = delete;
  Trash& operator=(const Trash&) = delete;

  // Begins to remove what an earlier agent left in it.
  void TakeLeftovers();
  // Takes a folder away; OK as well when it is not there. Else it is where it was, and tried again
  // there: the status says why it did not move.
  absl::Status Throw(const std::string& path);

  // Those that did not go when they were last tried.
  size_t stuck();

 private:
  struct State;
  static void Run(const std::shared_ptr<State>& state);
  absl::Status MoveIn(const std::string& path, const std::string& to);
  void Enqueue(std::string path);

  FileSystem& fs_;
  const std::string root_;
  const std::shared_ptr<State> state_;
};

}  // namespace muster::worker
