#include "tests/support/cluster.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace muster::testing {
namespace {

constexpr absl::Duration kUpTimeout = absl::Minutes(1);
constexpr int kUnreachable = 5;  // the CLI's exit code
constexpr size_t kLogTailBytes = 6000;

std::string Variable(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? "" : value;
}

bool IsTerminal(const std::string& state) {
  return state == "SUCCEEDED" || state == "FAILED" || state == "CANCELLED";
}

}  // namespace

double Number(const Json& object, const std::string& key) {
  const Json& value = Member(object, key);
  return value.is_number() ? value.get<double>() : 0;
}

std::string Text(const Json& object, const std::string& key) {
  const Json& value = Member(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

const Json& Member(const Json& object, const std::string& key) {
  static const Json* const kNothing = new Json(Json::array());
  if (!object.is_object()) return *kNothing;
  const auto found = object.find(key);
  return found == object.end() ? *kNothing : *found;
}

std::string BinDir() { return Variable("MUSTER_BIN_DIR"); }
std::string SourceDir() { return Variable("MUSTER_SOURCE_DIR"); }

Cluster::Cluster() {
  environment_ = {{"HOME", dir_ / "home"},
                  {"XDG_CONFIG_HOME", dir_ / "config"},
                  {"XDG_STATE_HOME", dir_ / "state"},
                  {"XDG_CACHE_HOME", dir_ / "cache"},
                  {"MUSTER_LOCAL_DIR", dir_ / "local"},
                  {"MUSTER_ADDR", ""},
                  {"MUSTER_TOKEN", ""},
                  {"MUSTER_TOKEN_FILE", ""}};
  std::filesystem::create_directories(dir_ / "home");
}

Cluster::~Cluster() {
  if (::testing::Test::HasFailure()) PrintLogs();
  if (up_) Down();
  // Nothing of a test outlives it, whatever went wrong.
  for (const std::string& process : Processes()) {
    int pid = 0;
    const std::vector<std::string> words = absl::StrSplit(process, absl::MaxSplits(' ', 1));
    if (absl::SimpleAtoi(words[0], &pid)) ::kill(pid, SIGKILL);
  }
}

void Cluster::Up(int workers, const std::vector<std::string>& more) {
  std::vector<std::string> args = {"local", "up", "--any-port", "--workers", absl::StrCat(workers)};
  args.insert(args.end(), more.begin(), more.end());
  up_ = true;
  const ProcessResult result = Cli(args, kUpTimeout);
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
}

void Cluster::Down() {
  up_ = false;
  const ProcessResult result = Cli({"local", "down"}, absl::Minutes(2));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  // The supervisor leaves just after it has answered.
  EXPECT_TRUE(WaitUntil(absl::Seconds(10), [&] { return Processes().empty(); }))
      << "left over:\n"
      << absl::StrJoin(Processes(), "\n");
}

ProcessResult Cluster::Cli(const std::vector<std::string>& args, absl::Duration timeout) {
  std::vector<std::string> argv = {BinDir() + "/muster"};
  argv.insert(argv.end(), args.begin(), args.end());
  return RunProcess(argv, environment_, timeout);
}

Json Cluster::CliJson(std::vector<std::string> args) {
  args.insert(args.end(), {"-o", "json"});
  const ProcessResult result = Cli(args);
  Json json = Json::parse(result.out, nullptr, /*allow_exceptions=*/false);
  if (result.exit_code != 0 || json.is_discarded()) {
    ADD_FAILURE() << "muster " << absl::StrJoin(args, " ") << " -> " << result.exit_code << "\n"
                  << result.out << result.err;
    return nullptr;
  }
  return json;
}

uint64_t Cluster::Submit(const std::string& yaml, const std::vector<std::string>& more) {
  const std::string path = dir_ / "job.yaml";
  std::ofstream(path) << yaml;
  std::vector<std::string> args = {"submit", "-f", path};
  args.insert(args.end(), more.begin(), more.end());
  return static_cast<uint64_t>(Number(CliJson(args), "job_id"));
}

Json Cluster::Show(uint64_t job) { return CliJson({"show", absl::StrCat(job)}); }

Json Cluster::ShowIfReachable(uint64_t job) {
  const ProcessResult result = Cli({"show", absl::StrCat(job), "-o", "json"});
  EXPECT_TRUE(result.exit_code == 0 || result.exit_code == kUnreachable) << result.exit_code << "\n"
                                                                         << result.err;
  const Json json = Json::parse(result.out, nullptr, /*allow_exceptions=*/false);
  return result.exit_code == 0 && !json.is_discarded() ? json : Json::object();
}

std::string Cluster::State(uint64_t job) { return Text(Member(Show(job), "summary"), "state"); }

int64_t Cluster::Step(uint64_t job) {
  return static_cast<int64_t>(Number(Member(Show(job), "summary"), "step"));
}

void Cluster::WaitForStep(uint64_t job, int64_t step, absl::Duration timeout) {
  std::string state;
  const bool reached = WaitUntil(timeout, [&] {
    const Json shown = ShowIfReachable(job);
    const Json& summary = Member(shown, "summary");
    state = Text(summary, "state");
    return IsTerminal(state) || (state == "RUNNING" && Number(summary, "step") >= step);
  });
  ASSERT_TRUE(reached && !IsTerminal(state))
      << "job " << job << " is " << state << " and did not pass step " << step << " while running\n"
      << Show(job).dump(1);
}

std::string Cluster::WaitForEnd(uint64_t job, absl::Duration timeout) {
  std::string state;
  EXPECT_TRUE(WaitUntil(timeout, [&] {
    const Json shown = ShowIfReachable(job);
    return IsTerminal(state = Text(Member(shown, "summary"), "state"));
  })) << Show(job).dump(1);
  return state;
}

Json Cluster::Daemon(const std::string& name) {
  const Json status = CliJson({"local", "status"});
  for (const Json& daemon : Member(status, "daemons")) {
    if (Text(daemon, "name") == name) return daemon;
  }
  return Json::object();
}

ProcessId Cluster::DaemonProcess(const std::string& name) {
  return IdentifyProcess(static_cast<pid_t>(Number(Daemon(name), "pid")));
}

ProcessId Cluster::Supervisor() {
  return IdentifyProcess(
      static_cast<pid_t>(Number(CliJson({"local", "status"}), "supervisor_pid")));
}

std::vector<ProcessId> Cluster::RankProcesses(uint64_t job) {
  const Json show = Show(job);
  Json newest;
  for (const Json& attempt : Member(show, "attempts")) {
    if (Number(attempt, "number") > Number(newest, "number")) newest = attempt;
  }
  std::vector<ProcessId> processes;
  for (const Json& rank : Member(newest, "ranks")) {
    processes.push_back(IdentifyProcess(static_cast<pid_t>(Number(rank, "pid"))));
  }
  return processes;
}

void Cluster::PrintLogs() const {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_.path(), ignored)) {
    if (entry.path().extension() != ".log") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    if (text.size() > kLogTailBytes) text = "..." + text.substr(text.size() - kLogTailBytes);
    if (!text.empty()) std::cerr << "---- " << entry.path().string() << "\n" << text << "\n";
  }
}

}  // namespace muster::testing
