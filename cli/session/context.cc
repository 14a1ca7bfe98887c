#include "cli/session/context.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cli/session/error.h"
#include "cli/session/saved_contexts.h"
#include "common/base/status_macros.h"
#include "common/os/loopback.h"
#include "common/rpc/token_file.h"
#include "common/tls/tls_files.h"

namespace muster::cli {
namespace {

constexpr uint64_t kMaxContextBytes = 64 << 10;

// How gRPC writes an address that is looked up by its name, as all of ours are.
constexpr char kDnsScheme[] = "dns:///";

// What loopback is called does not matter.
bool SameAddress(const std::string& a, const std::string& b) {
  const auto normal = [](const std::string& address) {
    constexpr char kLocalhost[] = "localhost:";
    return address.rfind(kLocalhost, 0) == 0
               ? absl::StrCat("127.0.0.1:", address.substr(sizeof(kLocalhost) - 1))
               : address;
  };
  return normal(a) == normal(b);
}

// What the flags, the environment and the files name as the context; nothing in it: there is none.
absl::StatusOr<SavedContext> ChosenContext(const Host& host, FileSystem& fs,
                                           const ContextFlags& flags) {
  std::string name = flags.context.empty() ? host.Env("MUSTER_CONTEXT") : flags.context;
  const bool asked = !name.empty();
  const bool has_folder = ContextPath(host).ok();
  const auto is_none = [&](const absl::Status& status) {
    return !has_folder || absl::IsNotFound(status);
  };
  const absl::StatusOr<ContextConfig> config = LoadContexts(host, fs);
  if (!config.ok() && !is_none(config.status())) return config.status();
  if (!asked && config.ok()) name = config->current;
  if (config.ok() && !name.empty() && name != kLocalContext) {
    const auto context = config->contexts.find(name);
    if (context != config->contexts.end()) return context->second;
  }
  if (asked && name != kLocalContext) {
    return WithHint(absl::NotFoundError(absl::StrCat("context ", name, ": there is none")),
                    "`muster config get-contexts` lists them, `muster login` makes one");
  }
  absl::StatusOr<SavedContext> local = LoadContext(host, fs);
  if (local.ok() || !is_none(local.status())) return local;
  if (!asked) return SavedContext();
  return WithHint(absl::NotFoundError("context local: no local Muster runs"),
                  "`muster local up` starts one");
}

}  // namespace

absl::Status CheckAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon != std::string::npos && colon > 0 &&
      absl::SimpleAtoi(address.substr(colon + 1), &port) && port > 0 && port < 65536) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", address, "' is no address: write it as HOST:PORT, for example ", kDefaultAddress));
}

absl::Status CheckMaySend(const Endpoint& endpoint) {
  const absl::string_view address = endpoint.address;
  if (endpoint.token.empty() || !endpoint.ca_file.empty() || endpoint.insecure ||
      IsLoopbackAddress(address)) {
    return absl::OkStatus();
  }
  return WithHint(
      absl::InvalidArgumentError(absl::StrCat("the token would go to ", endpoint.address,
                                              " in plain text, for anyone on the way to read")),
      "give the CA's certificates with --ca-file (MUSTER_CA_FILE), so that the connection is "
      "encrypted; or --insecure (MUSTER_INSECURE=1), where the network is safe");
}

absl::StatusOr<std::string> ContextPath(const Host& host) {
  if (const std::string config = host.Env("XDG_CONFIG_HOME"); !config.empty()) {
    return absl::StrCat(config, "/muster/context.json");
  }
  if (const std::string home = host.Env("HOME"); !home.empty()) {
    return absl::StrCat(home, "/.config/muster/context.json");
  }
  return absl::FailedPreconditionError(
      "neither HOME nor XDG_CONFIG_HOME is set: no place for settings");
}

absl::StatusOr<SavedContext> LoadContext(const Host& host, FileSystem& fs) {
  MUSTER_ASSIGN_OR_RETURN(const std::string path, ContextPath(host));
  MUSTER_ASSIGN_OR_RETURN(const std::string text, fs.ReadFile(path, kMaxContextBytes));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  SavedContext context;
  if (json.is_object() && json.contains("address") && json["address"].is_string()) {
    context.address = json["address"].get<std::string>();
    if (json.contains("token_file") && json["token_file"].is_string()) {
      context.token_file = json["token_file"].get<std::string>();
    }
    if (json.contains("ca_file") && json["ca_file"].is_string()) {
      context.ca_file = json["ca_file"].get<std::string>();
    }
    return context;
  }
  return WithHint(
      absl::InvalidArgumentError(absl::StrCat(path, ": not a context that muster wrote")),
      "remove the file, or set MUSTER_ADDR");
}

absl::Status SaveContext(const Host& host, FileSystem& fs, const SavedContext& context) {
  MUSTER_ASSIGN_OR_RETURN(const std::string path, ContextPath(host));
  MUSTER_RETURN_IF_ERROR(fs.MakeDirectories(path.substr(0, path.rfind('/'))));
  nlohmann::ordered_json json = {{"address", context.address}, {"token_file", context.token_file}};
  if (!context.ca_file.empty()) json["ca_file"] = context.ca_file;
  return WriteFileAtomically(fs, path, json.dump(2) + "\n", 0600);
}

absl::Status ForgetContext(const Host& host, FileSystem& fs, const std::string& address) {
  const auto saved = LoadContext(host, fs);
  if (absl::IsNotFound(saved.status())) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(saved.status());
  if (saved->address != address) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(const std::string path, ContextPath(host));
  return fs.RemoveFile(path);
}

absl::StatusOr<Endpoint> FindController(const Host& host, FileSystem& fs,
                                        const ContextFlags& flags) {
  // A context on the command line goes before what the environment says.
  const bool named = !flags.context.empty();
  const auto env = [&](const char* name) { return named ? std::string() : host.Env(name); };
  Endpoint endpoint;
  endpoint.address = flags.address.empty() ? env("MUSTER_ADDR") : flags.address;
  std::string token_file = flags.token_file;
  if (token_file.empty()) endpoint.token = env("MUSTER_TOKEN");
  if (token_file.empty() && endpoint.token.empty()) token_file = env("MUSTER_TOKEN_FILE");

  endpoint.ca_file = flags.ca_file.empty() ? env("MUSTER_CA_FILE") : flags.ca_file;
  endpoint.insecure = flags.insecure || env("MUSTER_INSECURE") == "1";
  const bool complete = !named && !endpoint.address.empty() &&
                        (!endpoint.token.empty() || !token_file.empty()) &&
                        !endpoint.ca_file.empty();
  SavedContext saved;
  if (!complete) {
    MUSTER_ASSIGN_OR_RETURN(saved, ChosenContext(host, fs, flags));
  }
  if (endpoint.address.empty())
    endpoint.address = saved.address.empty() ? kDefaultAddress : saved.address;
  endpoint.address = std::string(absl::StripPrefix(endpoint.address, kDnsScheme));
  MUSTER_RETURN_IF_ERROR(CheckAddress(endpoint.address));
  if (SameAddress(saved.address, endpoint.address)) {
    if (endpoint.token.empty() && token_file.empty()) token_file = saved.token_file;
    if (endpoint.ca_file.empty()) endpoint.ca_file = saved.ca_file;
    endpoint.insecure = endpoint.insecure || saved.insecure;
  }
  MUSTER_RETURN_IF_ERROR(CheckTlsFiles({.ca = endpoint.ca_file}, WallNow()));
  if (!token_file.empty()) {
    MUSTER_ASSIGN_OR_RETURN(endpoint.token, ReadTokenFile(token_file));
  }
  if (!endpoint.token.empty()) {
    if (const absl::Status status = CheckTokenText(endpoint.token); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("MUSTER_TOKEN: ", status.message()));
    }
  }
  return endpoint;
}

}  // namespace muster::cli
