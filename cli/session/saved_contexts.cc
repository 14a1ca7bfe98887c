#include "cli/session/saved_contexts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/session/error.h"
#include "common/base/status_macros.h"
#include "common/os/unique_name.h"

namespace muster::cli {
namespace {

constexpr uint64_t kMaxConfigBytes = 1 << 20;
constexpr uint64_t kMaxCaBytes = 1 << 20;

// The folder that holds all of it.
absl::StatusOr<std::string> ConfigFolder(const Host& host) {
  MUSTER_ASSIGN_OR_RETURN(const std::string path, ContextPath(host));
  return path.substr(0, path.rfind('/'));
}

// The text in a new file of that folder of ours: what a context names is never written over.
absl::StatusOr<std::string> WriteKept(const Host& host, FileSystem& fs, absl::string_view folder,
                                      const std::string& name, const std::string& text) {
  MUSTER_ASSIGN_OR_RETURN(std::string path, ConfigFolder(host));
  absl::StrAppend(&path, "/", folder);
  MUSTER_RETURN_IF_ERROR(fs.MakeDirectories(path));
  absl::StrAppend(&path, "/", name, ".", UniqueName());
  MUSTER_RETURN_IF_ERROR(WriteFileAtomically(fs, path, text, 0600));
  return path;
}

std::string MemberText(const nlohmann::json& object, const char* key) {
  const auto member = object.find(key);
  return member != object.end() && member->is_string() ? member->get<std::string>() : "";
}

}  // namespace

absl::Status CheckContextName(absl::string_view name) {
  constexpr size_t kMostBytes = 64;
  const bool good = !name.empty() && name.size() <= kMostBytes && name != kLocalContext &&
                    name[0] != '.' && std::all_of(name.begin(), name.end(), [](unsigned char c) {
                      return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
                    });
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "' is no name of a context: 1 to ", kMostBytes,
                   " letters, digits, '.', '_' and '-'; `local` is that of `muster local up`"));
}

absl::StatusOr<ContextConfig> LoadContexts(const Host& host, FileSystem& fs) {
  MUSTER_ASSIGN_OR_RETURN(const std::string folder, ConfigFolder(host));
  const std::string path = absl::StrCat(folder, "/config.json");
  const absl::StatusOr<std::string> read = fs.ReadFile(path, kMaxConfigBytes);
  if (absl::IsNotFound(read.status())) return read.status();
  if (!read.ok()) return WithHint(read.status(), "make it readable, or remove it and log in again");
  const auto json = nlohmann::json::parse(*read, nullptr, /*allow_exceptions=*/false);
  const bool good = json.is_object() && json.contains("contexts") && json["contexts"].is_object();
  if (!good) {
    return WithHint(
        absl::InvalidArgumentError(absl::StrCat(path, ": no contexts that muster wrote")),
        "remove the file and log in again");
  }
  ContextConfig config{.current = MemberText(json, "current"), .contexts = {}};
  for (const auto& [name, one] : json["contexts"].items()) {
    if (!one.is_object() || !CheckContextName(name).ok()) continue;
    SavedContext& context = config.contexts[name];
    context.address = MemberText(one, "address");
    context.token_file = MemberText(one, "token_file");
    context.ca_file = MemberText(one, "ca_file");
    const auto insecure = one.find("insecure");
    context.insecure = insecure != one.end() && insecure->is_boolean() && insecure->get<bool>();
  }
  return config;
}

absl::Status SaveContexts(const Host& host, FileSystem& fs, const ContextConfig& config) {
  MUSTER_ASSIGN_OR_RETURN(const std::string folder, ConfigFolder(host));
  MUSTER_RETURN_IF_ERROR(fs.MakeDirectories(folder));
  nlohmann::ordered_json json = {{"current", config.current},
                                 {"contexts", nlohmann::ordered_json::object()}};
  for (const auto& [name, context] : config.contexts) {
    nlohmann::ordered_json& one = json["contexts"][name];
    one = {{"address", context.address}, {"token_file", context.token_file}};
    if (!context.ca_file.empty()) one["ca_file"] = context.ca_file;
    if (context.insecure) one["insecure"] = true;
  }
  return WriteFileAtomically(fs, absl::StrCat(folder, "/config.json"), json.dump(2) + "\n", 0600);
}

absl::Status KeepContext(const Host& host, FileSystem& fs, const std::string& name,
                         const Endpoint& endpoint) {
  absl::StatusOr<ContextConfig> config = LoadContexts(host, fs);
  if (absl::IsNotFound(config.status())) config = ContextConfig();
  MUSTER_RETURN_IF_ERROR(config.status());
  SavedContext kept{.address = endpoint.address, .insecure = endpoint.insecure};
  MUSTER_ASSIGN_OR_RETURN(kept.token_file,
                          WriteKept(host, fs, "tokens", name, absl::StrCat(endpoint.token, "\n")));
  if (!endpoint.ca_file.empty()) {
    MUSTER_ASSIGN_OR_RETURN(const std::string ca, fs.ReadFile(endpoint.ca_file, kMaxCaBytes));
    MUSTER_ASSIGN_OR_RETURN(kept.ca_file, WriteKept(host, fs, "ca", name, ca));
  }
  const SavedContext former = std::exchange(config->contexts[name], std::move(kept));
  config->current = name;
  MUSTER_RETURN_IF_ERROR(SaveContexts(host, fs, *config));
  return RemoveKept(host, fs, former, *config);
}

absl::Status RemoveKept(const Host& host, FileSystem& fs, const SavedContext& gone,
                        const ContextConfig& config) {
  MUSTER_ASSIGN_OR_RETURN(const std::string folder, ConfigFolder(host));
  for (const std::string& path : {gone.token_file, gone.ca_file}) {
    const bool is_ours =
        absl::StartsWith(path, folder + "/tokens/") || absl::StartsWith(path, folder + "/ca/");
    const bool is_named =
        std::any_of(config.contexts.begin(), config.contexts.end(), [&](const auto& entry) {
          return entry.second.token_file == path || entry.second.ca_file == path;
        });
    if (!is_ours || is_named) continue;
    const absl::Status removed = fs.RemoveFile(path);
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  }
  return absl::OkStatus();
}

}  // namespace muster::cli
