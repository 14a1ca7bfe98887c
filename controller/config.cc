#include "controller/config.h"

#include <arpa/inet.h>
#include <yaml-cpp/yaml.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/base/version.h"

namespace muster::controller {
namespace {

constexpr absl::Duration kMinInterval = absl::Milliseconds(50);
constexpr absl::Duration kMaxDuration = absl::Hours(24 * 365 * 10);
constexpr uint64_t kMinMetricsBytes = 16ull << 20;
constexpr size_t kMaxConfigBytes = 1 << 20;

// Lets CLI11 read a flat YAML map. Faults are thrown as CLI11 wants them; ParseCommandLine catches.
class YamlConfig final : public CLI::Config {
 public:
  explicit YamlConfig(const CLI::App* app) : app_(app) {}

  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return ""; }

  std::vector<CLI::ConfigItem> from_config(std::istream& stream) const override {
    std::string text(std::istreambuf_iterator<char>(stream), {});
    if (text.size() > kMaxConfigBytes) throw CLI::ConfigError("config file: larger than 1 MiB");
    YAML::Node root;
    try {
      root = YAML::Load(text);
    } catch (const YAML::Exception& error) {
      throw CLI::ConfigError(absl::StrCat("config file: ", error.what()));
    }
    if (root.IsNull()) return {};
    if (!root.IsMap()) throw CLI::ConfigError("config file: must be a map of key: value");
    std::set<std::string> seen;
    std::vector<CLI::ConfigItem> items;
    for (const auto& entry : root) {
      if (!entry.first.IsScalar() || !entry.second.IsScalar()) {
        throw CLI::ConfigError("config file: every key and every value must be plain text");
      }
      const std::string key = entry.first.Scalar();
      if (!seen.insert(key).second) {
        throw CLI::ConfigError(absl::StrCat("config file: `", key, "` is there twice"));
      }
      const CLI::Option* option = app_->get_option_no_throw(absl::StrCat("--", key));
      if (option == nullptr || !option->get_configurable()) {
        throw CLI::ConfigError(absl::StrCat("config file: unknown key `", key,
                                            "`; the keys are the flags of musterd --help"));
      }
      CLI::ConfigItem item;
      item.name = key;
      item.inputs = {entry.second.Scalar()};
      items.push_back(std::move(item));
    }
    return items;
  }

 private:
  const CLI::App* app_;
};

void AddDuration(CLI::App& app, const std::string& flag, absl::Duration* out,
                 const std::string& help) {
  app.add_option_function<std::string>(
         flag,
         [flag, out](const std::string& text) {
           const absl::StatusOr<absl::Duration> parsed = ParseDuration(text);
           if (!parsed.ok())
             throw CLI::ValidationError(flag, std::string(parsed.status().message()));
           *out = *parsed;
         },
         help)
      ->type_name("DURATION")
      ->default_str(HumanDuration(*out));
}

void AddBytes(CLI::App& app, const std::string& flag, uint64_t* out, const std::string& help) {
  app.add_option_function<std::string>(
         flag,
         [flag, out](const std::string& text) {
           const absl::StatusOr<uint64_t> parsed = ParseBytes(text);
           if (!parsed.ok())
             throw CLI::ValidationError(flag, std::string(parsed.status().message()));
           *out = *parsed;
         },
         help)
      ->type_name("BYTES")
      ->default_str(HumanBytes(static_cast<double>(*out)));
}

void DescribeOptions(CLI::App& app, Config& config) {
  app.add_option("--data-dir", config.data_dir,
                 "Folder of the databases, the token and the lock; made when missing")
      ->type_name("DIR")
      ->required();
  app.add_option("--listen", config.listen, "Address for people (the CLI); port 0 picks one")
      ->capture_default_str()
      ->type_name("HOST:PORT");
  app.add_option("--worker-listen", config.worker_listen, "Address for the workers' agents")
      ->capture_default_str()
      ->type_name("HOST:PORT");
  app.add_option("--http-listen", config.http_listen,
                 "Address of /metrics, /healthz, /readyz, /sd and the page")
      ->capture_default_str()
      ->type_name("HOST:PORT");
  app.add_option("--checkpoint-root", config.checkpoint_root,
                 "Folder, reached by every worker, for checkpoints of jobs that name none; default "
                 "DATA-DIR/checkpoints")
      ->type_name("DIR");
  AddDuration(app, "--heartbeat-interval", &config.heartbeat_interval, "How often agents report");
  AddDuration(app, "--suspect-after", &config.suspect_after,
              "A worker silent for this long gets no new work");
  AddDuration(app, "--lost-after", &config.lost_after, "A worker silent for this long is given up");
  AddDuration(app, "--startup-grace", &config.startup_grace,
              "No worker is given up this soon after a start");
  AddDuration(app, "--start-timeout", &config.start_timeout,
              "A job must begin to train this soon after it is placed");
  AddDuration(app, "--series-grace", &config.series_grace,
              "Prometheus series of a finished job stay this long");
  AddDuration(app, "--metrics-retention", &config.metrics_retention,
              "Points and logs of a finished job are removed after this long");
  AddBytes(app, "--metrics-max-bytes", &config.metrics_max_bytes,
           "Above this size of metrics.db the longest finished jobs lose points and logs first");
  app.add_option("--calls-per-second", config.calls_per_second,
                 "Calls of one caller (token and address) beyond this wait: RESOURCE_EXHAUSTED; 0: "
                 "no bound")
      ->capture_default_str()
      ->type_name("N");
  app.add_flag("--insecure", config.insecure,
               "Listen beyond loopback although nothing is encrypted");
}

absl::Status CheckDuration(absl::string_view name, absl::Duration value, absl::Duration least) {
  if (value < least || value > kMaxDuration) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", HumanDuration(value),
                                                   " is not between ", HumanDuration(least),
                                                   " and ten years"));
  }
  return absl::OkStatus();
}

absl::Status CheckAddress(absl::string_view name, const std::string& address, bool insecure) {
  absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", parsed.status().message()));
  }
  if (!insecure && !IsLoopback(parsed->host)) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, ": ", address,
                     " is not a loopback address, and nothing on it would be encrypted; use ",
                     "127.0.0.1, or give --insecure if the network itself is trusted"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  CommandLine result;
  CLI::App app{
      "musterd: Muster's controller. Queues and places training jobs and keeps their record.",
      "musterd"};
  DescribeOptions(app, result.config);
  app.set_config("--config", "", "YAML file with any of these flags as keys")->type_name("FILE");
  app.config_formatter(std::make_shared<YamlConfig>(&app));
  app.set_version_flag("--version", VersionLine("musterd"));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    result.text = app.help();
    return result;
  } catch (const CLI::CallForVersion&) {
    result.text = absl::StrCat(VersionLine("musterd"), "\n");
    return result;
  } catch (const CLI::FileError& error) {
    return absl::NotFoundError(error.what());
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  if (result.config.checkpoint_root.empty()) {
    result.config.checkpoint_root = absl::StrCat(result.config.data_dir, "/checkpoints");
  }
  // Agents get this path, and their working directory is another.
  std::error_code error;
  const auto absolute = std::filesystem::absolute(result.config.checkpoint_root, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("--checkpoint-root: ", result.config.checkpoint_root, ": ", error.message()));
  }
  result.config.checkpoint_root = absolute.lexically_normal().string();
  MUSTER_RETURN_IF_ERROR(CheckConfig(result.config));
  return result;
}

absl::Status CheckConfig(const Config& config) {
  if (config.data_dir.empty()) return absl::InvalidArgumentError("--data-dir: is empty");
  MUSTER_RETURN_IF_ERROR(CheckAddress("--listen", config.listen, config.insecure));
  MUSTER_RETURN_IF_ERROR(CheckAddress("--worker-listen", config.worker_listen, config.insecure));
  MUSTER_RETURN_IF_ERROR(CheckAddress("--http-listen", config.http_listen, config.insecure));
  MUSTER_RETURN_IF_ERROR(
      CheckDuration("--heartbeat-interval", config.heartbeat_interval, kMinInterval));
  MUSTER_RETURN_IF_ERROR(CheckDuration("--suspect-after", config.suspect_after, kMinInterval));
  MUSTER_RETURN_IF_ERROR(CheckDuration("--lost-after", config.lost_after, kMinInterval));
  MUSTER_RETURN_IF_ERROR(
      CheckDuration("--startup-grace", config.startup_grace, absl::ZeroDuration()));
  MUSTER_RETURN_IF_ERROR(CheckDuration("--start-timeout", config.start_timeout, kMinInterval));
  MUSTER_RETURN_IF_ERROR(
      CheckDuration("--series-grace", config.series_grace, absl::ZeroDuration()));
  MUSTER_RETURN_IF_ERROR(
      CheckDuration("--metrics-retention", config.metrics_retention, absl::ZeroDuration()));
  if (!(config.heartbeat_interval < config.suspect_after &&
        config.suspect_after < config.lost_after)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--heartbeat-interval (", HumanDuration(config.heartbeat_interval),
        ") must be shorter than ", "--suspect-after (", HumanDuration(config.suspect_after),
        "), and that shorter than --lost-after (", HumanDuration(config.lost_after), ")"));
  }
  if (config.metrics_max_bytes < kMinMetricsBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--metrics-max-bytes: ", config.metrics_max_bytes, " is less than ", kMinMetricsBytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<HostPort> ParseHostPort(absl::string_view address) {
  const auto bad = [&] {
    return absl::InvalidArgumentError(absl::StrCat("`", address, "` is not HOST:PORT"));
  };
  const size_t colon = address.rfind(':');
  if (colon == address.npos) return bad();
  absl::string_view host = address.substr(0, colon);
  int port = 0;
  if (!absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 || port > 65535) return bad();
  if (absl::ConsumePrefix(&host, "[")) {
    if (!absl::ConsumeSuffix(&host, "]")) return bad();
  } else if (host.find(':') != host.npos) {
    return bad();
  }
  if (host.empty()) return bad();
  return HostPort{std::string(host), port};
}

std::string JoinHostPort(const HostPort& address) {
  if (address.host.find(':') != std::string::npos)
    return absl::StrCat("[", address.host, "]:", address.port);
  return absl::StrCat(address.host, ":", address.port);
}

bool IsLoopback(absl::string_view host) {
  if (host == "localhost") return true;
  const std::string text(host);
  in_addr v4{};
  if (::inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  if (::inet_pton(AF_INET6, text.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return false;
}

}  // namespace muster::controller
