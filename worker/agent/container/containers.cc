#include "worker/agent/container/containers.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/spec/validate/image_reference.h"
#include "worker/agent/base/path_watch.h"
#include "worker/agent/base/rank_files.h"
#include "worker/agent/process/process_scan.h"

namespace muster::worker {
namespace {

// In a rank's folder: the container's name.
constexpr char kContainerFile[] = "container";
// And its variables, for podman to read.
constexpr char kVariablesFile[] = "variables";
constexpr uint32_t kPrivateMode = 0600;
constexpr uint64_t kMaxNameBytes = 256;
// For calls that bring nothing over the network.
constexpr absl::Duration kToolPatience = absl::Minutes(1);
// What an earlier agent's containers left is looked at so often, with so long between.
constexpr int kContainerLeftoverChecks = 100;
constexpr int kContainerLeftoverPollMs = 20;
constexpr char kImageFileEnd[] = ".sif";
constexpr char kPulledFile[] = "/pulled";  // what this agent brought

std::vector<std::string> RemovalWords(const std::string& name) {
  return {"rm", "--force", "--time=0", "--ignore", name};
}

// "[cpuset cpu memory]"
std::vector<std::string> ReadControllers(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  absl::ConsumePrefix(&text, "[");
  absl::ConsumeSuffix(&text, "]");
  return absl::StrSplit(text, ' ', absl::SkipEmpty());
}

bool Has(const std::vector<std::string>& list, absl::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

absl::Status Failure(ContainerRuntime runtime, absl::string_view step, const ToolResult& result,
                     absl::Duration patience) {
  const char* name = runtime == ContainerRuntime::kPodman ? "podman" : "apptainer";
  if (result.timed_out) {
    return absl::DeadlineExceededError(
        absl::StrCat(step, ": ", name, " was not done within ", HumanDuration(patience)));
  }
  std::string words = ErrorMessageOf(runtime, result.errors);
  if (words.empty()) words = absl::StrCat("exit code ", result.exit_code);
  return absl::UnavailableError(absl::StrCat(step, ": ", name, ": ", words));
}

// Whether a name is what ContainerName gives the rank of this folder, for an agent of any name.
bool IsContainerOf(absl::string_view rank_folder, absl::string_view name) {
  const std::optional<RankKey> key = ParseRankFolderName(rank_folder);
  if (!key.has_value() || !absl::ConsumePrefix(&name, ContainerName(*key, ""))) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

// Reads the container's name from the file in the rank's folder.
absl::StatusOr<std::string> ReadName(const std::string& folder) {
  MUSTER_ASSIGN_OR_RETURN(const RankFile file, OpenRankFile(folder, kContainerFile, O_RDONLY));
  if (file.size > kMaxNameBytes) return absl::NotFoundError("that is no container's name");
  return ReadEnd(file, kMaxNameBytes);
}

// Before the loop runs.
void KillLeftovers(const std::string& name) {
  for (int check = 0; check < kContainerLeftoverChecks; ++check) {
    const std::vector<ProcessId> left = FindContainerProcesses(name);
    if (left.empty()) return;
    for (const ProcessId& process : left) SignalProcess(process, SIGKILL);
    ::poll(nullptr, 0, kContainerLeftoverPollMs);
  }
}

}  // namespace

Containers::Containers(EventLoop& loop, FileSystem& fs, ChildProcesses& children, SideThreads& side,
                       Options options)
    : loop_(loop),
      fs_(fs),
      children_(children),
      side_(side),
      options_(std::move(options)),
      pulled_(fs, options_.images_root + kPulledFile, options_.most_images) {}

ToolCommand Containers::Tool(ContainerRuntime runtime, std::vector<std::string> words,
                             absl::Duration patience) {
  return {.program = options_.runtimes.PathOf(runtime),
          .words = std::move(words),
          .environment = options_.environment,
          .folder = absl::StrCat(options_.tools_root, "/", next_tool_++),
          .patience = patience,
          .file_mask = options_.file_mask};
}

void Containers::ClearLeftovers(const std::string& ranks_root) {
  fs_.RemoveTree(options_.tools_root).IgnoreError();
  const absl::StatusOr<std::vector<FileInfo>> ranks = fs_.List(ranks_root);
  if (!ranks.ok()) return;
  for (const FileInfo& rank : *ranks) {
    const std::string folder = absl::StrCat(ranks_root, "/", rank.name);
    const absl::StatusOr<std::string> name = ReadName(folder);
    // Its rank could write there too.
    if (!name.ok() || !IsContainerOf(rank.name, *name)) continue;
    KillLeftovers(*name);
    std::string failure = "podman is not here any more";
    bool over = false;
    if (!options_.runtimes.podman.empty()) {
      // The loop does not run yet: it is turned by hand.
      const auto run =
          ToolRun::Start(loop_, fs_, children_,
                         Tool(ContainerRuntime::kPodman, RemovalWords(*name), kToolPatience),
                         [&](ToolResult result) {
                           over = result.ok();
                           failure = ErrorMessageOf(ContainerRuntime::kPodman, result.errors);
                           loop_.Quit();
                         });
      if (run.ok()) loop_.Run();
      if (!run.ok()) failure = run.status().ToString();
    }
    over ? Log(LogLevel::kWarning, "leftover_container_removed", {{"container", *name}})
         : Log(LogLevel::kError, "leftover_container_stays",
               {{"container", *name}, {"error", failure}});
    if (over) RemoveRankFile(folder, kContainerFile).IgnoreError();
  }
}

// ---- images ----

void Containers::Prepare(const RankKey& key, const std::string& image, Done done) {
  pulled_.Use(image);
  Pull& pull = pulls_[image];
  pull.waiting.emplace_back(key, std::move(done));
  if (pull.waiting.size() > 1) return;
  const bool by_podman = RuntimeOf(image) == ContainerRuntime::kPodman;
  if (!by_podman || controllers_.has_value()) return FindImage(image);
  Ask(image, {"info", "--format={{.Host.CgroupControllers}}"}, kToolPatience, &Containers::OnInfo);
}

void Containers::Abandon(const RankKey& key) {
  for (auto it = pulls_.begin(); it != pulls_.end();) {
    auto& waiting = it->second.waiting;
    std::erase_if(waiting, [&](const auto& one) { return one.first == key; });
    it = waiting.empty() ? pulls_.erase(it) : std::next(it);
  }
}

void Containers::Ask(const std::string& image, std::vector<std::string> words,
                     absl::Duration patience, Next next) {
  auto run = ToolRun::Start(
      loop_, fs_, children_, Tool(RuntimeOf(image), std::move(words), patience),
      [this, image, next](ToolResult result) { (this->*next)(image, std::move(result)); });
  if (!run.ok()) return Finish(image, run.status());
  pulls_.at(image).run = *std::move(run);
}

void Containers::OnInfo(const std::string& image, ToolResult result) {
  if (!result.ok()) {
    return Finish(image, Failure(RuntimeOf(image), "container runtime", result, kToolPatience));
  }
  controllers_ = ReadControllers(result.output);
  FindImage(image);
}

void Containers::FindImage(const std::string& image) {
  if (RuntimeOf(image) == ContainerRuntime::kPodman) {
    return Ask(image, {"image", "exists", image}, kToolPatience, &Containers::OnExists);
  }
  const auto watch = std::make_shared<PathWatch>();
  EnqueueWatched(
      loop_, side_,
      [this, &fs = fs_, image, file = FileOf(image), watch]() -> SideThreads::Completion {
        watch->Touch(file);
        const absl::StatusOr<bool> is_there = fs.Exists(file);
        return [this, image, is_there] { OnFile(image, is_there); };
      },
      watch, options_.path_patience,
      [this, image](const absl::Status& stall, bool) { OnFile(image, stall); });
}

void Containers::OnFile(const std::string& image, const absl::StatusOr<bool>& is_there) {
  if (!pulls_.contains(image)) return;  // nobody waits any more
  if (!is_there.ok()) return Finish(image, is_there.status());
  if (*is_there) return Finish(image, absl::OkStatus());
  if (!IsImageFile(image)) return BringImage(image);
  Finish(image,
         absl::NotFoundError(absl::StrCat("command.image: no file ", image, " is on this worker")));
}

void Containers::OnExists(const std::string& image, ToolResult result) {
  result.ok() ? Finish(image, absl::OkStatus()) : BringImage(image);
}

void Containers::BringImage(const std::string& image) {
  if (const absl::Status made = fs_.MakeDirectories(options_.images_root); !made.ok()) {
    return Finish(image, made);
  }
  Log(LogLevel::kInfo, "image_pull", {{"image", image}});
  Ask(image, PullArgv(RuntimeOf(image), image, FileOf(image) + ".tmp"), options_.pull_patience,
      &Containers::OnPulled);
}

void Containers::OnPulled(const std::string& image, ToolResult result) {
  const ContainerRuntime runtime = RuntimeOf(image);
  if (!result.ok()) {
    return Finish(image, Failure(runtime, absl::StrCat("command.image ", image), result,
                                 options_.pull_patience));
  }
  Log(LogLevel::kInfo, "image_pulled", {{"image", image}});
  Finish(image, runtime == ContainerRuntime::kPodman
                    ? absl::OkStatus()
                    : fs_.Rename(FileOf(image) + ".tmp", FileOf(image)));
  for (const std::string& old : pulled_.Add(image)) RemoveImage(old);
}

void Containers::RemoveImage(const std::string& image) {
  const auto on_end = [this, image](const absl::Status& status) {
    Log(LogLevel::kInfo, "old_image_removed", {{"image", image}, {"status", status.ToString()}});
    // One that a container still uses goes another time.
    if (!status.ok()) pulled_.Keep(image);
  };
  if (RuntimeOf(image) != ContainerRuntime::kPodman) return on_end(fs_.RemoveFile(FileOf(image)));
  auto run = ToolRun::Start(
      loop_, fs_, children_, Tool(ContainerRuntime::kPodman, {"rmi", image}, kToolPatience),
      [this, image, on_end](ToolResult result) {
        on_end(result.ok() ? absl::OkStatus()
                           : Failure(ContainerRuntime::kPodman, image, result, kToolPatience));
        removals_.erase(image);
      });
  if (!run.ok()) return on_end(run.status());
  removals_[image] = *std::move(run);
}

void Containers::Finish(const std::string& image, const absl::Status& status) {
  // On a later turn, as promised, also where nothing had to be asked.
  const auto pull = std::make_shared<Pull>(std::move(pulls_.extract(image).mapped()));
  loop_.After(absl::ZeroDuration(), [pull, status] {
    for (const auto& [key, done] : pull->waiting) done(status);
  });
}

std::string Containers::FileOf(const std::string& image) const {
  if (IsImageFile(image)) return image;
  // A reference has no '%', so no two have one name.
  return absl::StrCat(options_.images_root, "/", absl::StrReplaceAll(image, {{"/", "%"}}),
                      kImageFileEnd);
}

// ---- one rank ----

absl::StatusOr<ContainerPlan> Containers::Plan(const RankKey& key, const std::string& folder,
                                               ContainerRun run, RankCommand& command) {
  ContainerPlan container;
  container.runtime = RuntimeOf(run.image);
  const bool by_podman = container.runtime == ContainerRuntime::kPodman;
  run.options = options_.site_options;
  run.init = options_.init;
  if (by_podman) {
    container.name = ContainerName(key, options_.agent);
    run.env_file = absl::StrCat(folder, "/", kVariablesFile);
    // What podman cannot limit is limited as without it.
    if (!Has(*controllers_, "memory")) run.memory_bytes = 0;
    if (!Has(*controllers_, "cpuset")) run.cpus.clear();
    container.limits_memory = run.memory_bytes != 0;
  } else {
    run.image = FileOf(run.image);
  }
  run.name = container.name;
  MUSTER_ASSIGN_OR_RETURN(ContainerCommand words, MakeContainerCommand(container.runtime, run));
  if (by_podman) {
    MUSTER_RETURN_IF_ERROR(WriteFileAtomically(fs_, run.env_file, words.env_file, kPrivateMode));
    MUSTER_RETURN_IF_ERROR(
        WriteFileAtomically(fs_, absl::StrCat(folder, "/", kContainerFile), container.name));
  }
  command.program = options_.runtimes.PathOf(container.runtime);
  command.argv = {command.program};
  command.argv.insert(command.argv.end(), words.argv.begin(), words.argv.end());
  command.environment = options_.environment;
  command.environment.insert(command.environment.end(), words.environment.begin(),
                             words.environment.end());
  command.directory = folder;
  command.link = by_podman;
  return container;
}

void Containers::Remove(const ContainerPlan& container, const std::string& folder, Done done) {
  const std::string step = absl::StrCat("container ", container.name, " is not removed");
  auto run = ToolRun::Start(
      loop_, fs_, children_,
      Tool(ContainerRuntime::kPodman, RemovalWords(container.name), kToolPatience),
      [this, step, folder, done](ToolResult result) {
        removals_.erase(folder);
        if (!result.ok()) {
          return done(Failure(ContainerRuntime::kPodman, step, result, kToolPatience));
        }
        RemoveRankFile(folder, kVariablesFile).IgnoreError();
        RemoveRankFile(folder, kContainerFile).IgnoreError();
        done(absl::OkStatus());
      });
  if (run.ok()) {
    removals_[folder] = *std::move(run);
    return;
  }
  loop_.After(absl::ZeroDuration(), [done, status = run.status()] { done(status); });
}

}  // namespace muster::worker
