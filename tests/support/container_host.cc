#include "tests/support/container_host.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

using Words = std::vector<std::string>;

constexpr absl::Duration kPatience = absl::Minutes(1);

// For hosts without cgroup v2, and for those that may not raise limits.
constexpr char kPlainSettings[] =
    "[engine]\nruntime = \"runc\"\n[containers]\n"
    "default_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n";

bool IsSet(const char* variable) {
  const char* value = ::getenv(variable);
  return value != nullptr && value[0] != '\0';
}

// Empty: the image is here. Else why not.
std::string ImportImage(const std::string& folder) {
  const std::string root = folder + "/image";
  std::filesystem::create_directories(root);
  std::filesystem::copy_file(BinDir() + "/../tests/container_program", root + kTestProgram);
  const std::string archive = folder + "/image.tar";
  RunProcess({"tar", "-C", root, "-cf", archive, "."}, {}, kPatience);
  const Words id = {"podman", "images", "--quiet", "--no-trunc", kTestImage};
  const std::string before = RunProcess(id, {}, kPatience).out;
  const ProcessResult imported =
      RunProcess({"podman", "import", "--quiet", archive, kTestImage}, {}, kPatience);
  if (imported.exit_code != 0) return "podman import: " + imported.err;
  // The one that has lost its name, unless another test still runs it.
  if (!before.empty()) {
    RunProcess({"podman", "rmi", before.substr(0, before.find('\n'))}, {}, kPatience);
  }
  return "";
}

// Empty: a container runs. Else what podman says.
std::string TryToRun() {
  const ProcessResult run =
      RunProcess({"podman", "run", "--rm", "--network=host", kTestImage, kTestProgram, "say:hello"},
                 {}, kPatience);
  return run.exit_code == 0 && run.out == "hello\n" ? "" : absl::StrCat("`", run.err, "`");
}

}  // namespace

const ContainerHost& ContainerHost::Get() {
  static const ContainerHost host;
  return host;
}

ContainerHost::ContainerHost() {
  is_required_ = IsSet("MUSTER_ALL_TOOLS");
  if (RunProcess({"podman", "--version"}, {}, kPatience).exit_code != 0) {
    reason_ = "podman is not installed";
    return;
  }
  is_required_ = is_required_ || IsSet("CI");
  reason_ = ImportImage(dir_.path());
  if (reason_.empty()) reason_ = FindSettings();
}

std::string ContainerHost::FindSettings() {
  const std::string first = TryToRun();
  if (first.empty()) return "";
  const std::string settings = dir_ / "containers.conf";
  std::ofstream(settings) << kPlainSettings;
  ::setenv("CONTAINERS_CONF", settings.c_str(), 1);
  const std::string second = TryToRun();
  return second.empty() ? "" : absl::StrCat("podman run: ", first, "; with runc: ", second);
}

std::string ContainerHost::Containers(const std::string& expression) const {
  return RunProcess({"podman", "ps", "--all", "--format={{.Names}}", "--filter=name=" + expression},
                    {}, kPatience)
      .out;
}

}  // namespace muster::testing
