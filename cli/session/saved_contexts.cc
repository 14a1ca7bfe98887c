#include "cli/session/saved_contexts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cli/session/error.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

constexpr uint64_t kMaxConfigBytes = 1 << 20;

// The folder that holds all of it.
absl::StatusOr<std::string> ConfigFolder(const Host& host) {
  MUSTER_ASSIGN_OR_RETURN(const std::string path, ContextPath(host));
  return path.substr(0, path.rfind('/'));
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
  MUSTER_ASSIGN_OR_RETURN(const std::string text, fs.ReadFile(path, kMaxConfigBytes));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
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

absl::StatusOr<std::string> ContextTokenPath(const Host& host, const std::string& name) {
  MUSTER_ASSIGN_OR_RETURN(const std::string folder, ConfigFolder(host));
  return absl::StrCat(folder, "/tokens/", name);
}

absl::StatusOr<std::string> ContextCaPath(const Host& host, const std::string& name) {
  MUSTER_ASSIGN_OR_RETURN(const std::string folder, ConfigFolder(host));
  return absl::StrCat(folder, "/ca/", name, ".pem");
}

}  // namespace muster::cli
