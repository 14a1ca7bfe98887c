// A Muster whose pool `hosts` has agents that a test starts itself, also such as see other mounts
// than the rest of the machine.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/cluster.h"

namespace muster::testing {

class Hosts {
 public:
  void Up() {
    ASSERT_NO_FATAL_FAILURE(cluster_.Up(1));
    controller_ = Text(cluster_.Daemon("worker-1"), "grpc_address");
    ASSERT_NE(controller_, "") << cluster_.CliJson({"local", "status"}).dump(1);
  }
  ~Hosts() {
    for (const auto& [name, agent] : agents_) {
      agent->Signal(SIGTERM);
      agent->Wait(absl::Seconds(30));
    }
  }

  // `before`: a program and its first arguments that run the agent; `more`: its further flags.
  void Start(const std::string& name, const std::vector<std::string>& before = {},
             const std::vector<std::string>& more = {}) {
    std::vector<std::string> argv = before;
    for (const std::string& word :
         {BinDir() + "/muster-worker", std::string("--controller"), controller_,
          std::string("--token-file"), cluster_.Path("local/controller/token"),
          std::string("--name"), name, std::string("--data-dir"), cluster_.Path(name),
          std::string("--slots"), std::string("2"), std::string("--pool"), std::string("hosts"),
          std::string("--http-listen"), std::string("127.0.0.1:0")}) {
      argv.push_back(word);
    }
    argv.insert(argv.end(), more.begin(), more.end());
    agents_[name] =
        std::make_unique<Subprocess>(argv, cluster_.environment(), cluster_.Path(name + ".log"));
  }
  // Kills the agent, and with it its ranks, as when the machine is switched off.
  void SwitchOff(const std::string& name) {
    agents_[name]->Signal(SIGKILL);
    EXPECT_TRUE(agents_[name]->Wait(absl::Seconds(30)));
  }

  Cluster& cluster() { return cluster_; }

 private:
  Cluster cluster_;
  std::string controller_;
  std::map<std::string, std::unique_ptr<Subprocess>> agents_;  // by name
};

// Runs what follows with an empty folder in the place of `path`, as on a machine that did not mount
// it; empty: this machine lets nobody do so.
inline std::vector<std::string> WithoutMount(const std::string& path) {
  for (const char* flags : {"-m", "-rm"}) {
    const ProcessResult tried =
        RunProcess({"unshare", flags, "mount", "-t", "tmpfs", "none", path}, {}, absl::Seconds(20));
    if (tried.exit_code != 0) continue;
    return {"unshare", flags, "sh", "-c", "mount -t tmpfs none \"$0\" && exec \"$@\"", path};
  }
  return {};
}

}  // namespace muster::testing
