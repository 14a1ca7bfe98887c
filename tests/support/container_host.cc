#include "tests/support/container_host.h"

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

}  // namespace

ContainerHost::ContainerHost(const std::string& folder) {
  if (RunProcess({"podman", "--version"}, {}, kPatience).exit_code != 0) {
    reason_ = "podman is not installed";
    return;
  }
  const std::string program = BinDir() + "/../tests/container_program";
  const std::string root = folder + "/image";
  std::filesystem::create_directories(root);
  std::filesystem::copy_file(program, root + kTestProgram,
                             std::filesystem::copy_options::overwrite_existing);
  const std::string archive = folder + "/image.tar";
  RunProcess({"tar", "-C", root, "-cf", archive, "."}, {}, kPatience);
  const Words id = {"podman", "images", "--quiet", "--no-trunc", kTestImage};
  const std::string before = RunProcess(id, {}, kPatience).out;
  const ProcessResult imported =
      RunProcess({"podman", "import", "--quiet", archive, kTestImage}, {}, kPatience);
  if (imported.exit_code != 0) {
    reason_ = "podman import: " + imported.err;
    return;
  }
  // The one that has lost its name, unless another test still runs it.
  if (!before.empty()) {
    RunProcess({"podman", "rmi", before.substr(0, before.find('\n'))}, {}, kPatience);
  }
  const std::string first = TryToRun();
  if (first.empty()) return;
  const std::string settings = folder + "/containers.conf";
  std::ofstream(settings) << kPlainSettings;
  environment_ = {{"CONTAINERS_CONF", settings}};
  const std::string second = TryToRun();
  if (!second.empty()) reason_ = absl::StrCat("podman run: ", first, "; with runc: ", second);
}

std::string ContainerHost::TryToRun() const {
  const ProcessResult run =
      RunProcess({"podman", "run", "--rm", "--network=host", kTestImage, kTestProgram, "say:hello"},
                 environment_, kPatience);
  return run.exit_code == 0 && run.out == "hello\n" ? "" : absl::StrCat("`", run.err, "`");
}

std::string ContainerHost::Containers(const std::string& prefix) const {
  return RunProcess({"podman", "ps", "--all", "--format={{.Names}}", "--filter=name=^" + prefix},
                    environment_, kPatience)
      .out;
}

}  // namespace muster::testing
