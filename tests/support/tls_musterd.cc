#include "tests/support/tls_musterd.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace muster::testing {

TlsMusterd::TlsMusterd()
    : environment_({{"HOME", dir_.path()},
                    {"XDG_CONFIG_HOME", dir_ / "config"},
                    {"MUSTER_ADDR", ""},
                    {"MUSTER_TOKEN", ""},
                    {"MUSTER_CONTEXT", ""},
                    {"MUSTER_TOKEN_FILE", ""}}) {}

TlsMusterd::~TlsMusterd() { Stop(); }

void TlsMusterd::Start(const std::vector<std::string>& flags, std::vector<std::string> before) {
  if (!std::filesystem::exists(Folder() + "/musterd.yaml")) {
    const ProcessResult made = Musterd({"init", "--data-dir", Folder()});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  std::vector<std::string> argv = std::move(before);
  argv.insert(argv.end(), {BinDir() + "/musterd", "--config", Folder() + "/musterd.yaml"});
  for (const std::string port : {"--listen", "--worker-listen", "--http-listen"}) {
    if (std::find(flags.begin(), flags.end(), port) != flags.end()) continue;
    argv.insert(argv.end(), {port, "127.0.0.1:0"});
  }
  argv.insert(argv.end(), flags.begin(), flags.end());
  musterd_ = std::make_unique<Subprocess>(argv, environment_, Path("musterd.log"));
  ASSERT_TRUE(WaitUntil(absl::Minutes(1), [&] {
    endpoints_ = Json::parse(Read(Folder() + "/endpoints.json"), nullptr, false);
    return endpoints_.is_object();
  })) << Log();
}

void TlsMusterd::Stop() {
  if (musterd_ == nullptr) return;
  musterd_->Signal(SIGTERM);
  musterd_->Wait(absl::Seconds(30));
  musterd_.reset();
}

void TlsMusterd::Certify(const std::string& name) {
  const ProcessResult made =
      Musterd({"certify", name, "--data-dir", Folder(), "--out", Path(name)});
  ASSERT_EQ(made.exit_code, 0) << made.err;
}

std::unique_ptr<Subprocess> TlsMusterd::StartAgent(const std::string& name,
                                                   const std::string& certified,
                                                   const std::vector<std::string>& flags,
                                                   std::vector<std::string> before) {
  const std::string files = Path(certified);
  std::vector<std::string> argv = std::move(before);
  argv.insert(argv.end(), {BinDir() + "/muster-worker",
                           "--controller",
                           Address("worker"),
                           "--name",
                           name,
                           "--data-dir",
                           Path(name + ".data"),
                           "--slots",
                           "1",
                           "--http-listen",
                           "127.0.0.1:0",
                           "--allow-commands",
                           "--stop-grace",
                           "1s",
                           "--tls-ca",
                           files + "/ca.pem",
                           "--tls-cert",
                           files + "/worker.pem",
                           "--tls-key",
                           files + "/worker.key"});
  argv.insert(argv.end(), flags.begin(), flags.end());
  return std::make_unique<Subprocess>(argv, environment_, Path(name + ".log"));
}

ProcessResult TlsMusterd::Cli(std::vector<std::string> words, const std::string& token_file) {
  words.insert(words.begin(), {BinDir() + "/muster", "--addr", Address("grpc"), "--ca-file",
                               Folder() + "/tls/ca.pem", "--token-file",
                               token_file.empty() ? Folder() + "/token" : token_file});
  return RunProcess(words, environment_, absl::Minutes(2));
}

Json TlsMusterd::CliJson(std::vector<std::string> words) {
  words.insert(words.end(), {"-o", "json"});
  const ProcessResult done = Cli(words);
  EXPECT_EQ(done.exit_code, 0) << done.err;
  return Json::parse(done.out, nullptr, false);
}

bool TlsMusterd::IsReady(const std::string& worker) {
  for (const Json& row : CliJson({"nodes"})) {
    if (Text(row, "name") == worker) return Text(row, "state") == "ready";
  }
  return false;
}

ProcessResult TlsMusterd::Musterd(std::vector<std::string> words) {
  words.insert(words.begin(), BinDir() + "/musterd");
  return RunProcess(words, environment_, absl::Minutes(1));
}

std::string TlsMusterd::AddUser(const std::string& user, const std::string& project,
                                const std::string& role) {
  EXPECT_EQ(Cli({"user", "add", user}).exit_code, 0);
  EXPECT_EQ(Cli({"user", "grant", user, project, role}).exit_code, 0);
  const ProcessResult made = Cli({"token", "create", user, "--expires", "1h"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  const std::string path = Path(user + ".token");
  std::ofstream(path) << made.out;
  ::chmod(path.c_str(), 0600);
  return path;
}

std::string TlsMusterd::Read(const std::string& path) const {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string TlsMusterd::Address(const std::string& port) const {
  return Text(endpoints_, port + "_address");
}

int TlsMusterd::Port(const std::string& port) const {
  const std::string address = Address(port);
  int number = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &number)) << address;
  return number;
}

}  // namespace muster::testing
