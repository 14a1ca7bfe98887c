// The containers of this worker's ranks: brings images before ranks start, and removes what a
// rank's container leaves, also after an earlier life of the agent. Each is known by a file in its
// rank's folder, written before podman is asked for it, and taken away when podman has removed it.
//
// Containers of apptainer are processes of the rank like others, and leave nothing. Lives on the
// event loop; container_rules.h has the words.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/fs/file_system.h"
#include "worker/agent/base/rank_key.h"
#include "worker/agent/base/side_threads.h"
#include "worker/agent/container/container_rules.h"
#include "worker/agent/container/pulled_images.h"
#include "worker/agent/container/tool_run.h"
#include "worker/agent/process/rank_process.h"

namespace muster::worker {

// Of one rank.
struct ContainerPlan {
  ContainerRuntime runtime = ContainerRuntime::kPodman;
  std::string name;            // podman's; empty: nothing to remove
  bool limits_memory = false;  // else the agent watches it
};

class Containers {
 public:
  struct Options {
    ContainerRuntimes runtimes;
    std::vector<std::string> site_options;  // for each container
    std::string init;                       // path of muster-init
    std::string tools_root;                 // a folder per call of a runtime
    std::string images_root;                // files that apptainer made of references
    std::string agent;                      // what no other agent of this machine is called
    std::vector<std::string> environment;   // NAME=value, of the runtimes themselves
    absl::Duration pull_patience;
    absl::Duration path_patience = absl::Seconds(30);  // with an image's file
    size_t most_images = 16;  // that were pulled; the longest unused go beyond
    // The umask of the runtimes, whose images all users of a container read; nothing: the agent's.
    std::optional<mode_t> file_mask;
  };
  // All outlive this.
  Containers(EventLoop& loop, FileSystem& fs, ChildProcesses& children, SideThreads& side,
             Options options);

  const ContainerRuntimes& runtimes() const { return options_.runtimes; }

  // Removes what an earlier agent left, by the files in the folders under `ranks_root`. Blocks;
  // what cannot be removed is logged, and asked for again by the next agent.
  void ClearLeftovers(const std::string& ranks_root);

  // Brings the image, where it is not here, and finds out what the runtime can do. `done` comes on
  // a later turn, with the runtime's own words if it failed, or DEADLINE_EXCEEDED. Requires that a
  // runtime runs the image.
  using Done = std::function<void(absl::Status)>;
  void Prepare(const RankKey& key, const std::string& image, Done done);
  // Nobody waits for the image any more: a pull for this key alone ends.
  void Abandon(const RankKey& key);

  // Fills program, argv and environment of `command` from what `run` says of the job (mounts,
  // workdir, argv, environment, gpus, cpus, memory, image), and records the container in the rank's
  // folder. Requires that the image was prepared.
  absl::StatusOr<ContainerPlan> Plan(const RankKey& key, const std::string& folder,
                                     ContainerRun run, RankCommand& command);

  // After the rank's last process: removes the container. `done` comes on a later turn; not OK:
  // podman's words, ask again.
  void Remove(const ContainerPlan& container, const std::string& folder, Done done);

 private:
  struct Pull {
    std::vector<std::pair<RankKey, Done>> waiting;
    std::unique_ptr<ToolRun> run;
  };
  using Next = void (Containers::*)(const std::string& image, ToolResult result);

  std::string FileOf(const std::string& image) const;
  ContainerRuntime RuntimeOf(const std::string& image) const {
    return options_.runtimes.For(image);
  }
  ToolCommand Tool(ContainerRuntime runtime, std::vector<std::string> words,
                   absl::Duration patience);
  void Ask(const std::string& image, std::vector<std::string> words, absl::Duration patience,
           Next next);
  void OnInfo(const std::string& image, ToolResult result);
  void FindImage(const std::string& image);
  void OnExists(const std::string& image, ToolResult result);
  // Whether the file is there; or why nobody knows.
  void OnFile(const std::string& image, const absl::StatusOr<bool>& is_there);
  void BringImage(const std::string& image);
  void OnPulled(const std::string& image, ToolResult result);
  void Finish(const std::string& image, const absl::Status& status);
  // One that was pulled long ago.
  void RemoveImage(const std::string& image);

  EventLoop& loop_;
  FileSystem& fs_;
  ChildProcesses& children_;
  SideThreads& side_;
  const Options options_;
  std::map<std::string, Pull> pulls_;                         // by image
  std::map<std::string, std::unique_ptr<ToolRun>> removals_;  // by the rank's folder, or image
  PulledImages pulled_;
  std::optional<std::vector<std::string>> controllers_;  // podman's, once it was asked
  uint64_t next_tool_ = 1;
};

}  // namespace muster::worker
