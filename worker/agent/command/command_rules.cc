#include "worker/agent/command/command_rules.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/spec/validate/image_reference.h"
#include "worker/agent/process/process_scan.h"

namespace muster::worker {
namespace {

using nlohmann::json;

// What execvp takes when PATH is not set.
constexpr char kDefaultPath[] = "/usr/local/bin:/usr/bin:/bin";

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("resolved spec: ", what));
}

bool ReadTexts(const json& list, std::vector<std::string>& out) {
  if (!list.is_array()) return false;
  for (const json& item : list) {
    if (!item.is_string()) return false;
    out.push_back(item.get<std::string>());
  }
  return true;
}

std::string TextAt(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

// A status of worker/agent with it says where something is missing.
constexpr char kMissingUrl[] = "muster/missing";
// And that its checkpoint root is not to be seen.
constexpr char kStorageUrl[] = "muster/storage-unavailable";

// EACCES, ENOENT or 0.
int CheckProgram(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return errno == EACCES ? EACCES : ENOENT;
  if (!S_ISREG(info.st_mode) || ::access(path.c_str(), X_OK) != 0) return EACCES;
  return 0;
}

}  // namespace

absl::StatusOr<std::optional<CommandSettings>> ReadCommandSettings(const json& spec) {
  const auto command = spec.find("command");
  if (command == spec.end()) return std::nullopt;
  if (!command->is_object()) return Bad("command is not an object");
  CommandSettings settings;
  const auto argv = command->find("argv");
  if (argv == command->end() || !ReadTexts(*argv, settings.argv) || settings.argv.empty() ||
      settings.argv[0].empty()) {
    return Bad("command.argv is missing or not a list of texts");
  }
  if (const auto env = command->find("env"); env != command->end()) {
    if (!env->is_object()) return Bad("command.env is not an object");
    for (const auto& [name, value] : env->items()) {
      if (!value.is_string()) return Bad("command.env holds what is not a text");
      settings.env[name] = value.get<std::string>();
    }
  }
  settings.workdir = TextAt(*command, "workdir");
  settings.upload = TextAt(*command, "upload");
  settings.image = TextAt(*command, "image");
  if (!settings.image.empty() && !IsImageFile(settings.image) &&
      !IsImageReference(settings.image)) {
    return Bad("command.image is no image");
  }
  // An image has one of its own.
  if (settings.workdir.empty() && (settings.image.empty() || !settings.upload.empty())) {
    return Bad("command.workdir is missing");
  }
  const auto restart = spec.find("restart");
  if (restart != spec.end() && restart->is_object()) {
    settings.max_restarts = restart->value("max_restarts", json()).is_number_unsigned()
                                ? restart->find("max_restarts")->get<uint32_t>()
                                : 0;
  }
  return settings;
}

std::string EncodeGangFacts(const GangFacts& facts) {
  return json{{"master_address", facts.master_address},
              {"master_port", facts.master_port},
              {"resume_path", facts.resume_path},
              {"resume_step", facts.resume_step}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<GangFacts> DecodeGangFacts(absl::string_view text) {
  const json object = json::parse(text.begin(), text.end(), nullptr, false);
  const absl::Status bad = absl::InternalError("rank 0's agent published what cannot be read");
  if (!object.is_object()) return bad;
  GangFacts facts;
  facts.master_address = TextAt(object, "master_address");
  facts.resume_path = TextAt(object, "resume_path");
  const auto port = object.find("master_port");
  const auto step = object.find("resume_step");
  if (facts.master_address.empty() || port == object.end() || !port->is_number_unsigned() ||
      port->get<uint64_t>() == 0 || port->get<uint64_t>() > 65535 || step == object.end() ||
      !step->is_number_integer()) {
    return bad;
  }
  facts.master_port = static_cast<uint16_t>(port->get<uint64_t>());
  facts.resume_step = step->get<int64_t>();
  return facts;
}

std::vector<std::string> CommandEnvironment(const std::vector<std::string>& base,
                                            const v1::StartRanks& start,
                                            const v1::StartRanks::Rank& rank,
                                            const CommandSettings& settings, const GangFacts& facts,
                                            const CommandPlace& place) {
  std::vector<std::string> environment;
  absl::flat_hash_set<absl::string_view> named;
  const auto add = [&](absl::string_view name, absl::string_view value) {
    if (named.insert(name).second) environment.push_back(absl::StrCat(name, "=", value));
  };
  add(kRankDirVariable, place.folder);

  const v1::Fence& fence = start.fence();
  const std::string rank_text = absl::StrCat(rank.rank());
  const std::string world = absl::StrCat(start.world_size());
  add("MASTER_ADDR", facts.master_address);
  add("MASTER_PORT", absl::StrCat(facts.master_port));
  add("RANK", rank_text);
  add("WORLD_SIZE", world);
  add("LOCAL_RANK", absl::StrCat(rank.local_rank()));
  add("LOCAL_WORLD_SIZE", absl::StrCat(start.ranks_size()));
  add("GROUP_RANK", absl::StrCat(start.group_rank()));
  add("GROUP_WORLD_SIZE", absl::StrCat(start.group_world_size()));
  add("ROLE_NAME", "default");
  add("ROLE_RANK", rank_text);
  add("ROLE_WORLD_SIZE", world);
  add("TORCHELASTIC_RESTART_COUNT", absl::StrCat(fence.attempt() - 1));
  add("TORCHELASTIC_MAX_RESTARTS", absl::StrCat(settings.max_restarts));
  add("TORCHELASTIC_RUN_ID", absl::StrCat("muster-", fence.job_id()));
  // Rank 0 itself serves the store at MASTER_PORT.
  add("TORCHELASTIC_USE_AGENT_STORE", "False");
  add("CUDA_VISIBLE_DEVICES", place.visible_gpus);
  add("MUSTER_JOB_ID", absl::StrCat(fence.job_id()));
  add("MUSTER_JOB_NAME", start.job_name());
  add("MUSTER_ATTEMPT", absl::StrCat(fence.attempt()));
  add("MUSTER_WORKER", place.worker);
  add("MUSTER_SOCKET", place.socket);
  add("MUSTER_CHECKPOINT_DIR", place.checkpoint_directory);
  add("MUSTER_RESUME", facts.resume_path);
  add("MUSTER_RESUME_STEP", absl::StrCat(facts.resume_step));
  // The signal that says: save and leave.
  add("MUSTER_SAVE_SIGNAL", "SIGTERM");
  if (start.array_id() != 0) {
    add("MUSTER_ARRAY_ID", absl::StrCat(start.array_id()));
    add("MUSTER_ARRAY_INDEX", absl::StrCat(start.array_index()));
  }

  for (const auto& [name, value] : settings.env) add(name, value);
  add("OMP_NUM_THREADS", absl::StrCat(place.threads));
  for (const absl::string_view entry : base) {
    const std::pair<absl::string_view, absl::string_view> variable =
        absl::StrSplit(entry, absl::MaxSplits('=', 1));
    add(variable.first, variable.second);
  }
  // A log should show at once what Python prints.
  add("PYTHONUNBUFFERED", "1");
  return environment;
}

std::optional<std::string> FindVariable(const std::vector<std::string>& environment,
                                        absl::string_view name) {
  for (const std::string& entry : environment) {
    if (absl::StartsWith(entry, name) && entry.size() > name.size() && entry[name.size()] == '=') {
      return entry.substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

absl::StatusOr<std::string> FindProgram(const std::string& name, const std::string& path,
                                        const std::string& directory,
                                        const std::function<void(const std::string&)>& touch) {
  const auto check = [&touch](const std::string& file) {
    if (touch != nullptr) touch(file);
    return CheckProgram(file);
  };
  const auto failure = [&](int error, const std::string& where) -> absl::Status {
    if (error == EACCES) {
      return absl::PermissionDeniedError(absl::StrCat(where, " is not an executable file"));
    }
    return absl::NotFoundError(absl::StrCat("no program `", name, "` ", where));
  };
  if (absl::StrContains(name, '/')) {
    const std::string file = name[0] == '/' ? name : absl::StrCat(directory, "/", name);
    const int error = check(file);
    if (error == 0) return file;
    return failure(error, error == EACCES ? file : absl::StrCat("(looked for ", file, ")"));
  }
  std::string forbidden;
  const std::string folders = path.empty() ? kDefaultPath : path;
  for (const absl::string_view folder : absl::StrSplit(folders, ':')) {
    // An empty part is the current folder, as for a shell.
    const std::string file =
        absl::StrCat(folder.empty() ? absl::string_view(directory) : folder, "/", name);
    const int error = check(file);
    if (error == 0) return file;
    if (error == EACCES && forbidden.empty()) forbidden = file;
  }
  if (!forbidden.empty()) return failure(EACCES, forbidden);
  return failure(ENOENT, absl::StrCat("in PATH (", folders, ")"));
}

absl::Status AsMissing(absl::Status error, v1::RankEvent::Missing where) {
  error.SetPayload(kMissingUrl, absl::Cord(v1::RankEvent::Missing_Name(where)));
  return error;
}

absl::Status AsStorageUnavailable(absl::Status error) {
  error.SetPayload(kStorageUrl, absl::Cord());
  return error;
}

bool IsStorageUnavailable(const absl::Status& error) {
  return error.GetPayload(kStorageUrl).has_value();
}

v1::RankEvent::Missing MissingOf(const absl::Status& error) {
  v1::RankEvent::Missing where = v1::RankEvent::MISSING_UNSPECIFIED;
  const auto said = error.GetPayload(kMissingUrl);
  if (said.has_value()) v1::RankEvent::Missing_Parse(std::string(*said), &where);
  return where;
}

v1::RankEvent::Missing PlaceOfProgram(const CommandSettings& settings) {
  const std::string& name = settings.argv[0];
  const bool in_upload = !settings.upload.empty() && name[0] != '/' &&
                         absl::StrContains(name, '/') && !absl::StrContains(name, "..");
  return in_upload ? v1::RankEvent::IN_UPLOAD : v1::RankEvent::ON_WORKER;
}

}  // namespace muster::worker
