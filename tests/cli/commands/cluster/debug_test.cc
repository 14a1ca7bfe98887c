// `muster debug bundle`, of a service without a controller and of a folder of a local Muster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "cli/commands/cluster/loopback_page.h"
#include "tests/cli/cli_run.h"
#include "tests/cli/fake_job_service.h"
#include "tests/support/status_matchers.h"

namespace muster::cli::testing {
namespace {

using ::muster::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DebugTest : public ::testing::Test {
 protected:
  DebugTest() {
    service_.Start();
    run_.env()["MUSTER_ADDR"] = service_.address();
    run_.env()["MUSTER_TOKEN"] = "t0ken";
    run_.env()["MUSTER_LOCAL_DIR"] = run_.dir() / "local";
    out_ = run_.dir() / "bundle.tar";
  }

  // What tar finds in it.
  std::string Tar(const std::string& flags) {
    std::string text;
    FILE* pipe = ::popen(("tar " + flags + " " + out_ + " 2>&1").c_str(), "r");
    if (pipe == nullptr) return "no pipe";
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
    ::pclose(pipe);
    return text;
  }

  FakeJobService service_;
  CliRun run_;
  std::string out_;
};

TEST_F(DebugTest, ABundleHasTheStatesAndTheLogsAndNoSecrets) {
  v1::GetJobResponse job = MakeJob(7, "digits", v1::FAILED);
  (*job.mutable_spec()->mutable_command()->mutable_env())["API_KEY"] = "hunter2hunter2";
  for (const char* word : {"python", "train.py", "--key=hunter2hunter2"}) {
    job.mutable_spec()->mutable_command()->add_argv(word);
  }
  service_.PutJob(job);
  const std::string local = run_.dir() / "local";
  std::filesystem::create_directories(local + "/logs");
  std::filesystem::create_directories(local + "/controller");
  std::ofstream(local + "/controller/token") << "l0cal-token\n";
  std::ofstream(local + "/logs/musterd.log") << "began with l0cal-token\n";
  const std::string config = run_.dir() / "etc";
  std::filesystem::create_directories(config);
  std::ofstream(config + "/musterd.yaml")
      << "listen: 0.0.0.0:7070\ntls-key: /etc/muster/tls/k.pem\n"
      << "scrape-token-file: /s\nsome-token: hunter2hunter2\n"
      << "  scale-command: [/bin/scale, --api, hunter2]\n"
      << "container-options:\n  - --env=KEY=hunter2\n# hunter2\napi-key: hunter2\n";
  std::ofstream(config + "/worker.yaml") << "http-listen: 0.0.0.0:7073\n";
  const CliResult result = run_({"debug", "bundle", "--out", out_, "--config-dir", config});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, out_ + "\n");
  EXPECT_EQ(std::filesystem::status(out_).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_THAT(Tar("-tf"),
              AllOf(HasSubstr("/versions.json\n"), HasSubstr("/jobs.json\n"),
                    HasSubstr("/jobs/7.json\n"), HasSubstr("/events.jsonl\n"),
                    HasSubstr("/local/logs/musterd.log\n"), HasSubstr("/README.txt\n"),
                    HasSubstr("/config/musterd.yaml\n"), HasSubstr("/config/worker.yaml\n")));
  const std::string all = Tar("-xOf");
  EXPECT_THAT(all, AllOf(HasSubstr("began with [hidden]"), HasSubstr("\"API_KEY\": \"[hidden]\""),
                         HasSubstr("\"python\""), HasSubstr("\"version\": \"9.9.9\""),
                         HasSubstr("listen: 0.0.0.0:7070\ntls-key: /etc/muster/tls/k.pem\n"
                                   "scrape-token-file: /s\nsome-token: [hidden]\n"
                                   "  [hidden]\ncontainer-options:\n  [hidden]\n"
                                   "[hidden]\napi-key: [hidden]\n")));
  EXPECT_THAT(all, AllOf(Not(HasSubstr("l0cal-token")), Not(HasSubstr("hunter2"))));
}

TEST_F(DebugTest, WithoutAControllerItTellsWhatIsMissing) {
  service_.Stop();
  const std::string config = run_.dir() / "nowhere";
  EXPECT_EQ(run_({"debug", "bundle", "--out", out_, "--config-dir", config}).code, 0)
      << "it is needed most then";
  EXPECT_THAT(Tar("-xOf"), AllOf(HasSubstr("missing: controller: no controller at"),
                                 HasSubstr("missing: config: --config-dir: " + config)));
}

TEST_F(DebugTest, AFileThatCannotBeWrittenIsAnError) {
  const CliResult result = run_({"debug", "bundle", "--out", run_.dir() / "no/such/b.tar"});
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("no/such"));
}

TEST_F(DebugTest, PagesAreReadFromThisMachineAlone) {
  EXPECT_THAT(ReadLoopbackPage("http://10.0.0.1:80/metrics"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ReadLoopbackPage("http://127.0.0.1:1/metrics"),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace muster::cli::testing
