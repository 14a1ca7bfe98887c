#include "worker/agent/command/import_command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"
#include "common/base/units.h"
#include "common/ckpt/manifest.h"
#include "common/ckpt/verifier.h"
#include "worker/link/line_buffer.h"
#include "worker/link/link_messages.h"

namespace muster::worker {
namespace {

constexpr int kProgressParts = 10;
constexpr size_t kMaxAnswerBytes = 64 << 10;

struct ImportFlags {
  std::string path;
  std::optional<int64_t> step;
};

void Say(const std::string& line) {
  ::printf("%s\n", line.c_str());
  ::fflush(stdout);
}

absl::StatusOr<std::string> Variable(const char* name) {
  const char* value = ::getenv(name);
  if (value != nullptr && *value != '\0') return std::string(value);
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is not set: this is run by `muster ckpt import`, as a job"));
}

// What is to be said of it.
absl::StatusOr<CheckpointLine> ReadWithManifest(FileSystem& fs, const ImportFlags& flags) {
  int parts = 0;
  MUSTER_ASSIGN_OR_RETURN(
      VerifiedCheckpoint verified,
      ReadAndVerifyCheckpoint(fs, flags.path, "", [&](uint64_t done, uint64_t total) {
        const int now =
            total == 0 ? kProgressParts : static_cast<int>(done * kProgressParts / total);
        if (now > parts) {
          Say(absl::StrCat("reread ", HumanBytes(static_cast<double>(done)), " of ",
                           HumanBytes(static_cast<double>(total))));
        }
        parts = std::max(parts, now);
        return true;
      }));
  const Manifest& manifest = verified.manifest;
  if (flags.step.value_or(manifest.step) != manifest.step) {
    return absl::InvalidArgumentError(
        absl::StrCat("--step ", *flags.step, ": ", flags.path, " is of step ", manifest.step));
  }
  CheckpointLine offer;
  offer.step = manifest.step;
  offer.epoch = manifest.epoch;
  offer.best = manifest.best;
  offer.metrics = manifest.metrics;
  Say(absl::StrCat("every hash is right: step ", manifest.step, ", saved by job ", manifest.job_id,
                   " (", manifest.job_name, ") of another cluster"));
  return offer;
}

absl::StatusOr<UniqueFd> Connect(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(absl::StrCat("MUSTER_SOCKET is too long: ", path));
  }
  ::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot reach the agent at ", path, ": ", ::strerror(errno)));
  }
  return fd;
}

// The next line that comes; `lines` has what came behind it.
absl::StatusOr<std::string> ReadLine(const UniqueFd& fd, LineBuffer& lines) {
  while (true) {
    if (std::optional<std::string> line = lines.Next()) return *std::move(line);
    char bytes[4096];
    const ssize_t got = ::recv(fd.get(), bytes, sizeof bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return absl::UnavailableError("the agent has closed the connection");
    MUSTER_RETURN_IF_ERROR(lines.Append({bytes, static_cast<size_t>(got)}));
  }
}

// Waits until it is committed.
absl::Status Offer(const std::string& socket, const CheckpointLine& offer) {
  MUSTER_ASSIGN_OR_RETURN(const UniqueFd fd, Connect(socket));
  const std::string text = Encode(RankLine(offer));
  if (::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(text.size())) {
    return absl::UnavailableError("the agent does not take the offer");
  }
  LineBuffer lines(kMaxAnswerBytes);
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const std::string line, ReadLine(fd, lines));
    const absl::StatusOr<AgentLine> answer = DecodeAgentLine(line);
    if (!answer.ok()) continue;
    if (const auto* error = std::get_if<ErrorLine>(&*answer)) {
      return absl::FailedPreconditionError(error->message);
    }
    if (std::get_if<StopLine>(&*answer) != nullptr) {
      return absl::CancelledError("the job was stopped before the checkpoint was committed");
    }
    const auto* committed = std::get_if<CommittedLine>(&*answer);
    if (committed == nullptr || committed->step != offer.step) continue;
    if (committed->error.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(committed->error);
  }
}

absl::Status RunImport(const ImportFlags& flags, FileSystem& fs) {
  MUSTER_ASSIGN_OR_RETURN(const std::string socket, Variable("MUSTER_SOCKET"));
  MUSTER_ASSIGN_OR_RETURN(const bool is_there, fs.Exists(flags.path));
  if (!is_there) {
    return absl::NotFoundError(absl::StrCat(
        flags.path, " is not there on this worker; it must be seen under this path here"));
  }
  MUSTER_ASSIGN_OR_RETURN(const bool has_manifest,
                          fs.Exists(absl::StrCat(flags.path, "/", kManifestFile)));
  CheckpointLine offer;
  if (has_manifest) {
    MUSTER_ASSIGN_OR_RETURN(offer, ReadWithManifest(fs, flags));
  } else if (flags.step.has_value()) {
    offer.step = *flags.step;
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        flags.path, " has no ", kManifestFile, ", so that nothing tells its step: give --step"));
  }
  offer.kind = CheckpointLine::Kind::kOffer;
  offer.path = flags.path;
  MUSTER_RETURN_IF_ERROR(Offer(socket, offer));
  Say(absl::StrCat("committed as step ", offer.step));
  return absl::OkStatus();
}

}  // namespace

bool IsImportCommand(int argc, const char* const* argv) {
  return argc > 1 && absl::string_view(argv[1]) == "import-checkpoint";
}

absl::Status RunImportCommand(int argc, char** argv, FileSystem& fs) {
  ImportFlags flags;
  CLI::App app{"Imports a checkpoint, as a job.", "muster-worker"};
  CLI::App* command = app.add_subcommand(
      "import-checkpoint", "Offer a checkpoint to the agent that runs this: `muster ckpt import`");
  command->add_option("path", flags.path, "A checkpoint's folder; or another one, or a file")
      ->required();
  command->add_option("--step", flags.step, "Its step; default: what its manifest says")
      ->check(CLI::NonNegativeNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    Say(command->help("muster-worker"));
    return absl::OkStatus();
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError(error.what());
  }
  return RunImport(flags, fs);
}

}  // namespace muster::worker
