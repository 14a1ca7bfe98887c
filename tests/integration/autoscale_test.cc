// A pool whose workers come and go with the queue: a real musterd, real agents, and a program that
// starts and stops them as a cloud's group would.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/cluster.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Minutes(2);

std::string ReadText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool Exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

void WriteText(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

class ScaledMuster {
 public:
  void Up() {
    ASSERT_EQ(::mkdir((dir_ / "group").c_str(), 0700), 0);
    WriteText(dir_ / "scale", Script());
    ASSERT_EQ(::chmod((dir_ / "scale").c_str(), 0700), 0);
    WriteText(dir_ / "autoscale.yaml",
              absl::StrCat("every: 200ms\npools:\n  cloud:\n    max: 2\n"
                           "    worker: {slots: 1, commands: true}\n"
                           "    patience: 0s\n    idle-after: 1s\n    cooldown: 1s\n"
                           "    scale-command: [",
                           dir_ / "scale", "]\n"));
    Start();
  }

  void Start() {
    const std::string endpoints = dir_ / "controller/endpoints.json";
    musterd_ = std::make_unique<Subprocess>(std::vector<std::string>{BinDir() + "/musterd",
                                                                     "--data-dir",
                                                                     dir_ / "controller",
                                                                     "--checkpoint-root",
                                                                     dir_ / "checkpoints",
                                                                     "--listen",
                                                                     listen_[0],
                                                                     "--worker-listen",
                                                                     listen_[1],
                                                                     "--http-listen",
                                                                     "127.0.0.1:0",
                                                                     "--heartbeat-interval",
                                                                     "500ms",
                                                                     "--suspect-after",
                                                                     "2s",
                                                                     "--lost-after",
                                                                     "4s",
                                                                     "--startup-grace",
                                                                     "5s",
                                                                     "--autoscale",
                                                                     dir_ / "autoscale.yaml"},
                                            Environment{}, dir_ / "musterd.log");
    Json told;
    ASSERT_TRUE(WaitUntil(kPatience, [&] {
      told = Json::parse(ReadText(endpoints), nullptr, false);
      return told.is_object() && Number(told, "pid") == musterd_->pid();
    })) << ReadText(dir_ / "musterd.log");
    listen_[0] = Text(told, "grpc_address");
    listen_[1] = Text(told, "worker_address");
    environment_ = {{"MUSTER_ADDR", listen_[0]}, {"MUSTER_TOKEN_FILE", dir_ / "controller/token"}};
    WriteText(dir_ / "group/worker_address", listen_[1]);
  }

  void Kill() {
    musterd_->Signal(SIGKILL);
    ASSERT_TRUE(musterd_->Wait(kPatience));
  }

  ~ScaledMuster() {
    if (musterd_ != nullptr) {
      musterd_->Signal(SIGTERM);
      musterd_->Wait(absl::Seconds(30));
    }
    if (::testing::Test::HasFailure()) {
      for (const char* log : {"musterd.log", "scale.log", "group/auto-1.log"}) {
        ADD_FAILURE() << log << ":\n" << ReadText(dir_ / log);
      }
    }
    // Only what the group started, by the numbers that it noted.
    for (int i = 1; i <= 2; ++i) {
      const std::string pid = ReadText(absl::StrCat(dir_ / "group/auto-", i, ".pid"));
      if (!pid.empty()) ::kill(std::stoi(pid), SIGTERM);
    }
    WaitUntil(absl::Seconds(30), [&] { return Agents().empty(); });
  }

  ProcessResult Cli(std::vector<std::string> args) {
    args.insert(args.begin(), BinDir() + "/muster");
    return RunProcess(args, environment_, absl::Minutes(1));
  }
  Json CliJson(std::vector<std::string> args) {
    args.insert(args.end(), {"-o", "json"});
    const ProcessResult result = Cli(args);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Json::parse(result.out, nullptr, false);
  }
  size_t Nodes() {
    const Json answer = CliJson({"nodes"});
    return (answer.is_array() ? answer : Member(answer, "workers")).size();
  }
  std::string Submit(const std::string& script) {
    WriteText(
        dir_ / "job.yaml",
        absl::StrCat("name: job\nranks: 1\nplacement: {pool: cloud}\ncommand: [/bin/sh, -c, '",
                     script, "']\n"));
    const ProcessResult result = Cli({"submit", "-f", dir_ / "job.yaml", "-q"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out.substr(0, result.out.find('\n'));
  }
  std::string State(const std::string& job) {
    return Text(Member(CliJson({"show", job}), "summary"), "state");
  }
  bool AwaitState(const std::string& job, const std::string& state) {
    return WaitUntil(kPatience, [&] { return State(job) == state; });
  }
  std::vector<std::string> Agents() const { return ProcessesMentioning(dir_ / "group/auto"); }
  std::string Path(const std::string& name) const { return dir_ / name; }

 private:
  // As a cloud's group: it starts what is missing, and ends those that it is told to.
  std::string Script() const {
    return absl::StrCat("#!/bin/sh\nset -eu\ncd '", dir_ / "group", "'\nagent='", BinDir(),
                        R"sh(/muster-worker'
exec >> ../scale.log 2>&1
[ ! -e ../cloud-is-down ] || { echo no quota >&2; exit 1; }
echo "$MUSTER_POOL: $MUSTER_WORKERS to $MUSTER_WANTED, leaving: $MUSTER_LEAVING"
for name in $MUSTER_LEAVING; do
  [ -e $name.pid ] || continue
  kill -TERM "$(cat $name.pid)"
  rm $name.pid
done
for number in 1 2; do
  set -- *.pid
  [ -e "$1" ] || set --
  [ $# -lt "$MUSTER_WANTED" ] || break
  [ ! -e auto-$number.pid ] || continue
  setsid "$agent" --controller "$(cat worker_address)" --token-file ../controller/token \
    --name auto-$number --data-dir "$PWD/auto-$number" --slots 1 --pool cloud --allow-commands \
    --http-listen 127.0.0.1:0 --spool-max-bytes 16MiB < /dev/null >> auto-$number.log 2>&1 &
  echo $! > auto-$number.pid
done
)sh");
  }

  TempDir dir_;
  std::string listen_[2] = {"127.0.0.1:0", "127.0.0.1:0"};
  Environment environment_;
  std::unique_ptr<Subprocess> musterd_;
};

TEST(Autoscale, AWorkerComesForAJobAndIsDrainedAndGoneWhenItIsIdle) {
  ScaledMuster muster;
  ASSERT_NO_FATAL_FAILURE(muster.Up());
  EXPECT_EQ(muster.Nodes(), 0u);
  const std::string job = muster.Submit("echo trained");
  ASSERT_TRUE(muster.AwaitState(job, "SUCCEEDED"));
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return muster.Agents().empty(); }));
  // Nothing is left of it in the list, and its pool is still one that jobs may name.
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return muster.Nodes() == 0; }));
  const std::string next = muster.Submit("echo trained again");
  ASSERT_TRUE(muster.AwaitState(next, "SUCCEEDED"));
}

TEST(Autoscale, AJobSaysWhatIsAskedForAndFailuresPass) {
  ScaledMuster muster;
  ASSERT_NO_FATAL_FAILURE(muster.Up());
  WriteText(muster.Path("cloud-is-down"), "");
  const std::string job = muster.Submit("echo trained");
  ASSERT_TRUE(WaitUntil(kPatience, [&] {
    return muster.Cli({"explain", job}).out.find("exited with 1") != std::string::npos;
  })) << muster.Cli({"explain", job}).out;
  EXPECT_EQ(muster.State(job), "PENDING");
  ASSERT_EQ(::unlink(muster.Path("cloud-is-down").c_str()), 0);
  ASSERT_TRUE(muster.AwaitState(job, "SUCCEEDED"));
}

TEST(Autoscale, ARestartedControllerTakesNobodyFromAJob) {
  ScaledMuster muster;
  ASSERT_NO_FATAL_FAILURE(muster.Up());
  const std::string job =
      muster.Submit(absl::StrCat("touch ", muster.Path("began"), "; while [ ! -e ",
                                 muster.Path("go"), " ]; do sleep 0.2; done"));
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return Exists(muster.Path("began")); }));
  ASSERT_NO_FATAL_FAILURE(muster.Kill());
  ASSERT_NO_FATAL_FAILURE(muster.Start());
  // Another job brings the second worker, beside the first one.
  const std::string other = muster.Submit("echo trained");
  ASSERT_TRUE(muster.AwaitState(other, "SUCCEEDED"));
  WriteText(muster.Path("go"), "");
  ASSERT_TRUE(muster.AwaitState(job, "SUCCEEDED"));
  EXPECT_EQ(Member(muster.CliJson({"show", job}), "attempts").size(), 1u);
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return muster.Agents().empty(); }));
}

}  // namespace
}  // namespace muster::testing
