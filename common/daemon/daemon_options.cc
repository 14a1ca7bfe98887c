#include "common/daemon/daemon_options.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/units.h"
#include "common/base/version.h"

namespace muster {
namespace {

constexpr size_t kMaxConfigBytes = 1 << 20;

// One value, or those of a list or map when the flag may be repeated.
std::vector<std::string> Texts(const std::string& key, const YAML::Node& node, bool many) {
  if (node.IsScalar()) return {node.Scalar()};
  if (!many || !(node.IsSequence() || node.IsMap())) {
    throw CLI::ConfigError(absl::StrCat("config file: `", key, "` must be plain text"));
  }
  std::vector<std::string> texts;
  for (const auto& item : node) {
    const bool pair = node.IsMap() && item.first.IsScalar() && item.second.IsScalar();
    if (!pair && !(node.IsSequence() && item.IsScalar())) {
      throw CLI::ConfigError(absl::StrCat("config file: `", key, "` must hold plain text"));
    }
    texts.push_back(pair ? absl::StrCat(item.first.Scalar(), "=", item.second.Scalar())
                         : item.Scalar());
  }
  return texts;
}

// Lets CLI11 read a flat YAML map. Faults are thrown as CLI11 wants them; ParseDaemonOptions
// catches.
class YamlConfig final : public CLI::Config {
 public:
  explicit YamlConfig(const CLI::App* app) : app_(app) {}

  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return ""; }

  std::vector<CLI::ConfigItem> from_config(std::istream& stream) const override {
    const std::string text(std::istreambuf_iterator<char>(stream), {});
    if (text.size() > kMaxConfigBytes) throw CLI::ConfigError("config file: larger than 1 MiB");
    YAML::Node root;
    try {
      root = YAML::Load(text);
    } catch (const YAML::Exception& error) {
      throw CLI::ConfigError(absl::StrCat("config file: ", error.what()));
    }
    if (root.IsNull()) return {};
    if (!root.IsMap()) throw CLI::ConfigError("config file: must be a map of key: value");
    std::vector<CLI::ConfigItem> items;
    for (const auto& entry : root) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
      const CLI::Option* option = app_->get_option_no_throw(absl::StrCat("--", key));
      if (option == nullptr || !option->get_configurable()) {
        throw CLI::ConfigError(absl::StrCat("config file: unknown key `", key,
                                            "`; the keys are the flags of ", app_->get_name(),
                                            " --help"));
      }
      const bool twice = std::any_of(items.begin(), items.end(),
                                     [&](const auto& item) { return item.name == key; });
      if (twice) throw CLI::ConfigError(absl::StrCat("config file: `", key, "` is there twice"));
      CLI::ConfigItem item;
      item.name = key;
      item.inputs = Texts(key, entry.second, option->get_expected_max() > 1);
      items.push_back(std::move(item));
    }
    return items;
  }

 private:
  const CLI::App* app_;
};

// `parse` gives absl::StatusOr<T>.
template <typename T, typename Parse>
CLI::Option* AddParsed(CLI::App& app, const std::string& flag, T* out, const std::string& help,
                       Parse parse) {
  return app.add_option_function<std::string>(
      flag,
      [flag, out, parse](const std::string& text) {
        const absl::StatusOr<T> parsed = parse(text);
        if (!parsed.ok()) throw CLI::ValidationError(flag, std::string(parsed.status().message()));
        *out = *parsed;
      },
      help);
}

}  // namespace

void AddDuration(CLI::App& app, const std::string& flag, absl::Duration* out,
                 const std::string& help) {
  AddParsed(app, flag, out, help, [](const std::string& text) { return ParseDuration(text); })
      ->type_name("DURATION")
      ->default_str(HumanDuration(*out));
}

void AddBytes(CLI::App& app, const std::string& flag, uint64_t* out, const std::string& help) {
  AddParsed(app, flag, out, help, [](const std::string& text) { return ParseBytes(text); })
      ->type_name("BYTES")
      ->default_str(HumanBytes(static_cast<double>(*out)));
}

void AddTlsFiles(CLI::App& app, TlsFiles* out, const std::string& peers) {
  app.add_option("--tls-ca", out->ca, "Certificates of the CA that signs those of " + peers)
      ->type_name("FILE");
  app.add_option("--tls-cert", out->cert, "This side's certificate, with what leads to its CA")
      ->type_name("FILE");
  app.add_option("--tls-key", out->key, "Its private key, which others cannot read")
      ->type_name("FILE");
}

absl::Status CheckTlsFlags(const TlsFiles& files) {
  if (files.empty()) return absl::OkStatus();
  for (const auto& [flag, value] :
       {std::pair("--tls-ca", &files.ca), std::pair("--tls-cert", &files.cert),
        std::pair("--tls-key", &files.key)}) {
    if (value->empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          flag,
          ": is missing; --tls-ca, --tls-cert and --tls-key are given together or not at all"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ParseDaemonOptions(CLI::App& app, int argc, const char* const* argv) {
  const std::string version = VersionLine(app.get_name());
  app.set_config("--config", "", "YAML file with any of these flags as keys")->type_name("FILE");
  app.config_formatter(std::make_shared<YamlConfig>(&app));
  app.set_version_flag("--version", version);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::CallForVersion&) {
    return absl::StrCat(version, "\n");
  } catch (const CLI::FileError& error) {
    return absl::NotFoundError(error.what());
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  return std::string();
}

}  // namespace muster
