// The whole agent against a controller on loopback, with ranks that are real processes following a
// script: what the tests of worker/agent/agent.h share.
#pragma once

#include <stdlib.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/agent/fake_controller.h"
#include "worker/agent/agent.h"

namespace muster::worker {

using ::muster::testing::FakeController;
using ::muster::testing::TempDir;
using ::muster::testing::WaitUntil;
using Heard = FakeController::Heard;

inline constexpr absl::Duration kPatience = absl::Minutes(1);

inline std::string Binary(const std::string& name) {
  const char* folder = ::getenv("MUSTER_BIN_DIR");
  return absl::StrCat(folder == nullptr ? "build/release/bin" : folder, "/", name);
}

inline bool Lives(uint32_t pid) {
  return ::muster::testing::IsAlive(::muster::testing::IdentifyProcess(static_cast<pid_t>(pid)));
}

// Where jobs keep their checkpoints: this process's own, for agents make, rename and remove folders
// there, and tests run side by side.
inline std::string CheckpointRoot() {
  static const TempDir folder;
  return folder / "jobs/1";
}

inline v1::ControllerMessage StartMessage(uint64_t seq, const std::vector<std::string>& script,
                                          uint32_t ranks = 1, uint32_t attempt = 1,
                                          const std::string& controller_lost_timeout = "1h") {
  v1::ControllerMessage message;
  v1::StartRanks& start = *message.mutable_start_ranks();
  start.set_outbox_seq(seq);
  v1::Fence& fence = *start.mutable_fence();
  fence.set_job_id(1);
  fence.set_attempt(attempt);
  fence.set_generation(1);
  fence.set_term(1);
  start.set_job_name("test");
  start.set_world_size(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    v1::StartRanks::Rank& added = *start.add_ranks();
    added.set_rank(rank);
    added.set_local_rank(rank);
    added.add_slots(rank);
  }
  const nlohmann::json spec = {{"train", {{"threads_per_rank", 3}}},
                               {"restart", {{"controller_lost_timeout", controller_lost_timeout}}},
                               {"script", script}};
  start.set_spec_json(spec.dump());
  start.set_checkpoint_root(CheckpointRoot());
  return message;
}

// The same of another job, on a slot of its own; the attempt, which is the job's number too, tells
// what is heard of it apart.
inline v1::ControllerMessage OtherStart(uint64_t seq, uint32_t attempt, uint32_t slot,
                                        const std::vector<std::string>& script) {
  v1::ControllerMessage message = StartMessage(seq, script, /*ranks=*/1, attempt);
  message.mutable_start_ranks()->mutable_fence()->set_job_id(attempt);
  message.mutable_start_ranks()->mutable_ranks(0)->set_slots(0, slot);
  return message;
}

// The same for a command; all ranks are on this worker.
inline v1::ControllerMessage CommandMessage(uint64_t seq, const std::vector<std::string>& argv,
                                            uint32_t ranks = 1, uint32_t attempt = 1,
                                            const std::string& workdir = "/") {
  v1::ControllerMessage message = StartMessage(seq, {}, ranks, attempt);
  v1::StartRanks& start = *message.mutable_start_ranks();
  const nlohmann::json spec = {{"command", {{"argv", argv}, {"workdir", workdir}}},
                               {"restart", {{"controller_lost_timeout", "1h"}}}};
  start.set_spec_json(spec.dump());
  start.set_group_world_size(1);
  return message;
}

inline v1::ControllerMessage StopMessage(uint64_t seq, v1::StopRanks::Mode mode, int64_t grace_ms,
                                         uint32_t attempt = 1) {
  v1::ControllerMessage message;
  v1::StopRanks& stop = *message.mutable_stop_ranks();
  stop.set_outbox_seq(seq);
  stop.mutable_fence()->set_job_id(1);
  stop.mutable_fence()->set_attempt(attempt);
  stop.mutable_fence()->set_generation(1);
  stop.set_mode(mode);
  stop.set_grace_ms(grace_ms);
  stop.set_reason("as the test says");
  return message;
}

inline bool Exited(const Heard& heard) { return heard.FindEvent(v1::RankEvent::EXITED) != nullptr; }
inline auto ExitedIn(uint32_t attempt) {
  return [attempt](const Heard& heard) {
    return heard.FindEvent(v1::RankEvent::EXITED, 0, attempt) != nullptr;
  };
}
inline auto Logged(const std::string& text) {
  return [text](const Heard& heard) { return heard.Log().find(text) != std::string::npos; };
}
inline auto Acked(uint64_t seq) {
  return [seq](const Heard& heard) { return heard.assignment_acks.contains(seq); };
}

class AgentTest : public ::testing::Test {
 protected:
  ~AgentTest() override { EndAgent(); }

  AgentConfig Config() {
    AgentConfig config;
    config.controller = controller_.address();
    config.name = "w1";
    config.data_dir = dir_ / "data";
    config.slots = 4;
    config.trainer = trainer_;
    config.allow_commands = allow_commands_;
    config.stop_grace = stop_grace_;
    config.kill_patience = kill_patience_;
    config.path_patience = path_patience_;
    config.cgroups = cgroups_;
    config.container_runtime = container_runtime_;
    config.container_options = container_options_;
    config.container_init = Binary("muster-init");
    config.preemption_source = preemption_source_;
    config.preemption_url = preemption_url_;
    return config;
  }

  // Builds and runs an agent on a thread of its own, which forks the ranks and outlives them.
  void StartAgent() {
    auto started = std::make_shared<std::promise<void>>();
    std::future<void> ready = started->get_future();
    thread_ = std::thread([this, started] {
      auto agent = Agent::Create(Config(), clock_, *fs_);
      if (!agent.ok()) {
        result_ = agent.status();
        started->set_value();
        return;
      }
      agent_ = agent->get();
      mailbox_ = (*agent)->loop().mailbox();
      started->set_value();
      result_ = (*agent)->Run();
    });
    ready.wait();
    ASSERT_TRUE(controller_.Await([](const Heard& heard) { return heard.heartbeats > 0; }));
  }
  // The loop drops the task when the agent has ended by itself.
  void PostStop(int times = 1) {
    mailbox_->Post([agent = agent_.load(), times] {
      for (int i = 0; i < times; ++i) agent->BeginStop("the test ends");
    });
  }
  // Asks it to stop and waits. Its ranks are killed when the script would keep them.
  void EndAgent() {
    if (!thread_.joinable()) return;
    if (mailbox_ != nullptr) PostStop(/*times=*/2);
    thread_.join();
  }

  TempDir dir_;
  std::string trainer_ = Binary("fake_trainer");
  bool allow_commands_ = true;
  absl::Duration stop_grace_ = absl::Seconds(10);
  absl::Duration kill_patience_ = absl::Seconds(60);
  absl::Duration path_patience_ = absl::Seconds(30);
  bool cgroups_ = true;
  std::string container_runtime_ = "none";
  std::vector<std::string> container_options_;
  std::string preemption_source_ = kNoSource;
  std::string preemption_url_;
  FakeController controller_;
  RealClock clock_;
  FileSystem* fs_ = &PosixFileSystem();  // of the agent; outlives it
  std::atomic<Agent*> agent_ = nullptr;
  std::shared_ptr<Mailbox> mailbox_;
  absl::Status result_;
  std::thread thread_;
};

}  // namespace muster::worker
