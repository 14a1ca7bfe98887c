// What a command's rank is told by its environment, and where its program is: the contract that
// docs/COMMANDS.md promises. Used by the supervisor.
//
// torchrun's variables keep torchrun's meaning, so that a script written for it runs unchanged:
// MASTER_ADDR and MASTER_PORT are where rank 0 may listen, and LOCAL_RANK is the index of the
// rank's own device among those that it sees.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/v1/worker_service.pb.h"
#include "nlohmann/json.hpp"

namespace muster::worker {

// `command:` of a resolved spec.
struct CommandSettings {
  std::vector<std::string> argv;
  std::map<std::string, std::string> env;
  std::string workdir;
  std::string upload;  // SHA-256; empty: none
  std::string image;   // empty: none
  uint32_t max_restarts = 0;
};
// Nothing: the spec has no command. INVALID_ARGUMENT naming the key that is no good. Pure.
absl::StatusOr<std::optional<CommandSettings>> ReadCommandSettings(const nlohmann::json& spec);

// What the ranks of one gang must agree on before any of them starts; rank 0's agent decides it.
struct GangFacts {
  std::string master_address;
  uint16_t master_port = 0;
  // The newest checkpoint that proved whole when it was read; empty: start from nothing.
  std::string resume_path;
  int64_t resume_step = 0;
};
// As it travels through the gang's rendezvous store. Pure.
std::string EncodeGangFacts(const GangFacts& facts);
absl::StatusOr<GangFacts> DecodeGangFacts(absl::string_view json);

// Of one rank, beside what StartRanks and the spec say.
struct CommandPlace {
  std::string worker;
  std::string folder;  // the rank's own
  std::string socket;  // of MUSTER_SOCKET
  std::string checkpoint_directory;
  uint32_t threads = 1;
  std::vector<uint32_t> visible_slots;
  // UUIDs of the GPUs that it may see, those of visible_slots: its own at the index LOCAL_RANK when
  // each rank has one.
  std::string visible_gpus;
};

// The whole environment: the contract, then what the job sets, then `base` (NAME=value), where a
// name has the first value that is given. MUSTER_RANK_DIR stands in front, where a scan of /proc
// finds it. Pure.
std::vector<std::string> CommandEnvironment(const std::vector<std::string>& base,
                                            const v1::StartRanks& start,
                                            const v1::StartRanks::Rank& rank,
                                            const CommandSettings& settings, const GangFacts& facts,
                                            const CommandPlace& place);

// The value of NAME in a list of NAME=value; nothing when it is not there. Pure.
std::optional<std::string> FindVariable(const std::vector<std::string>& environment,
                                        absl::string_view name);

// The file that `name` means: itself (from `directory` on) when it has a slash, else the first
// executable one in the folders of `path`. NOT_FOUND, PERMISSION_DENIED: what was looked for, and
// where. `touch`, where given, hears of each file before it is looked at.
absl::StatusOr<std::string> FindProgram(
    const std::string& name, const std::string& path, const std::string& directory,
    const std::function<void(const std::string&)>& touch = nullptr);

// Marks an error as: the command's program or folder is not there. Pure.
absl::Status AsMissing(absl::Status error, v1::RankEvent::Missing where);
// Marks that the checkpoint root is not to be seen (common/ckpt/checkpoint_root.h): no fault of the
// rank's.
absl::Status AsStorageUnavailable(absl::Status error);
bool IsStorageUnavailable(const absl::Status& error);
// MISSING_UNSPECIFIED: the error is none that was marked so. Pure.
v1::RankEvent::Missing MissingOf(const absl::Status& error);

// Where a program that does not exist was looked for: in the uploaded folder, which is the same on
// each worker, so that no other one need be tried, or on this machine. Pure.
v1::RankEvent::Missing PlaceOfProgram(const CommandSettings& settings);

}  // namespace muster::worker
