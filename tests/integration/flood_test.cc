// Slowloris and half-open connections, against a real musterd with TLS: very many connections that
// ask for nothing, on each of its ports, for several leases. A job that runs goes on, people and
// machines still come in, and all is as before when they have gone. MUSTER_CHAOS=whole: musterd
// holds at least 10,000 of them at once, for a minute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/connection_flood.h"
#include "tests/support/tls_musterd.h"

namespace muster::testing {
namespace {

using ::testing::HasSubstr;
using Kind = ConnectionFlood::Kind;

constexpr absl::Duration kLease = absl::Seconds(6);
constexpr size_t kHosts = 200;
constexpr int64_t kMiB = 1 << 20;

constexpr size_t kWhole = 10'000;
constexpr absl::Duration kPatience = absl::Minutes(10);

struct Size {
  size_t people = 0;  // connections to each port
  size_t workers = 0;
  size_t http = 0;
  uint64_t musterd_descriptors = 0;
  absl::Duration length;  // how long the flood lasts once `at_once` connections are open
  size_t at_once = 0;
  int tries = 1;         // a command of a person's is given so many
  int64_t kept_mib = 0;  // resident memory that may remain when they are closed

  // The descriptors that the test itself needs.
  uint64_t Needs() const { return people + workers + http + 500; }
};

// This process' own bound, as high as it may be.
uint64_t RaiseOwnDescriptors() {
  rlimit bound = {};
  (void)::getrlimit(RLIMIT_NOFILE, &bound);
  bound.rlim_cur = bound.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &bound);
  return bound.rlim_cur;
}

// By default each port has more than its bound; whole: the people's and the HTTP port have, and
// the workers' port what is missing to 10,000 and more.
Size SizeOfFlood() {
  const char* chaos = ::getenv("MUSTER_CHAOS");
  const bool whole = chaos != nullptr && std::string(chaos) == "whole";
  if (!whole) return {1000, 1000, 500, 1536, 4 * kLease, 0, 1, 300};
  return {5500, 8500, 500, 20'000, absl::Minutes(1), kWhole, 3, 700};
}

struct Use {
  size_t descriptors = 0;
  int64_t resident_mib = 0;
};

Use UseOf(pid_t pid) {
  Use use;
  const std::string process = absl::StrCat("/proc/", pid);
  std::error_code error;
  const auto all = std::filesystem::directory_iterator(process + "/fd", error);
  use.descriptors = static_cast<size_t>(std::distance(begin(all), end(all)));
  std::ifstream statm(process + "/statm");
  int64_t pages = 0;
  statm >> pages >> pages;
  use.resident_mib = pages * ::sysconf(_SC_PAGESIZE) / kMiB;
  return use;
}

class FloodTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const uint64_t most = RaiseOwnDescriptors();
    ASSERT_GE(most, std::max(size_.Needs(), size_.musterd_descriptors))
        << "RLIMIT_NOFILE is too low here for a flood of " << size_.at_once
        << " connections: raise it (ulimit -Hn)";
    musterd_.Start({"--http-listen", "0.0.0.0:0", "--heartbeat-interval", "1s", "--suspect-after",
                    "3s", "--lost-after", "6s", "--startup-grace", "0s"},
                   {"prlimit", absl::StrCat("--nofile=", size_.musterd_descriptors)});
  }
  void TearDown() override {
    for (const auto& agent : agents_) {
      agent->Signal(SIGTERM);
      agent->Wait(absl::Seconds(30));
    }
  }

  void StartAgent(const std::string& name) {
    ASSERT_NO_FATAL_FAILURE(musterd_.Certify(name));
    agents_.push_back(musterd_.StartAgent(name, name));
  }
  std::string StateOf(const std::string& job) {
    return Text(Member(musterd_.CliJson({"show", job}), "summary"), "state");
  }
  // Whether `muster ls` shows the job alone. While thousands come each second a port of a machine
  // that is too slow for them may refuse one.
  bool Lists(const std::string& job) {
    for (int i = 0; i < size_.tries; ++i) {
      const ProcessResult list = musterd_.Cli({"ls", "-q"});
      if (list.exit_code == 0 && list.out == job + "\n") return true;
      std::cout << "`muster ls` ended with " << list.exit_code << ": " << list.err << "\n";
    }
    return false;
  }
  std::string Get(const std::string& path) {
    const std::string token(
        absl::StripAsciiWhitespace(musterd_.Read(musterd_.Folder() + "/scrape-token")));
    return RunProcess({"curl", "-sf", "-m", "5", "--cacert", musterd_.Folder() + "/tls/ca.pem",
                       "-H", "Authorization: Bearer " + token,
                       absl::StrCat("https://127.0.0.1:", musterd_.Port("http"), path)},
                      musterd_.environment(), absl::Seconds(20))
        .out;
  }
  // Of the series whose line begins so.
  double Metric(const std::string& series) {
    const std::string page = Get("/metrics");
    const size_t at = page.find("\n" + series + " ");
    if (at == std::string::npos) return -1;
    return ::strtod(page.c_str() + at + 1 + series.size(), nullptr);
  }

  const Size size_ = SizeOfFlood();
  TlsMusterd musterd_;
  std::vector<std::unique_ptr<Subprocess>> agents_;
};

TEST_F(FloodTest, AJobThatRunsGoesOnAndPeopleAndMachinesStillComeIn) {
  ASSERT_NO_FATAL_FAILURE(StartAgent("node-1"));
  std::ofstream(musterd_.Path("job.yaml")) << "name: stays\nplacement: {wait_for_capacity: true}\n"
                                              "command: {argv: [\"sleep\", \"600\"]}\n";
  const ProcessResult submitted = musterd_.Cli({"submit", "-q", "-f", musterd_.Path("job.yaml")});
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  const std::string job(absl::StripAsciiWhitespace(submitted.out));
  ASSERT_TRUE(WaitUntil(absl::Minutes(1), [&] { return StateOf(job) == "RUNNING"; }))
      << musterd_.Log("node-1");
  const Use before = UseOf(musterd_.pid());

  int listed = 0;
  int asked = 0;
  int healthy = 0;
  size_t at_once = 0;
  Use most;
  {
    const ConnectionFlood people(
        musterd_.Port("grpc"), size_.people, kHosts,
        {Kind::kSilent, Kind::kHalfHello, Kind::kByteEachSecond, Kind::kOnlyTls, Kind::kOnlyHttp2});
    const ConnectionFlood workers(
        musterd_.Port("worker"), size_.workers, kHosts,
        {Kind::kSilent, Kind::kHalfHello, Kind::kByteEachSecond, Kind::kOnlyTls});
    const ConnectionFlood http(musterd_.Port("http"), size_.http, kHosts,
                               {Kind::kSilent, Kind::kHalfHello, Kind::kByteEachSecond,
                                Kind::kOnlyTls, Kind::kEndlessHeaders});
    const absl::Time latest = Now() + kPatience;
    absl::Time end = Now() + size_.length;
    while (Now() < end) {
      at_once = std::max(at_once, people.open() + workers.open() + http.open());
      // It takes a slow machine longer until all stand.
      const bool stand =
          at_once >= size_.at_once && most.descriptors >= before.descriptors + size_.at_once;
      if (!stand && Now() < latest) end = Now() + size_.length;
      const Use now = UseOf(musterd_.pid());
      most.descriptors = std::max(most.descriptors, now.descriptors);
      most.resident_mib = std::max(most.resident_mib, now.resident_mib);
      ++asked;
      if (Lists(job)) ++listed;
      if (Get("/healthz") == "ok\n") ++healthy;
      // A machine that comes amid all of it.
      if (agents_.size() == 1) {
        ASSERT_NO_FATAL_FAILURE(StartAgent("node-2"));
      }
      ::usleep(300'000);
    }
    std::cout << "open at once: " << at_once << "; at most: people " << people.most_open()
              << ", workers " << workers.most_open() << ", http " << http.most_open()
              << "; connected " << people.connects() + workers.connects() + http.connects()
              << " times, closed " << people.closed() + workers.closed() + http.closed()
              << " times; `muster ls` " << listed << " of " << asked << ", /healthz " << healthy
              << " of " << asked << "; descriptors " << before.descriptors << " to "
              << most.descriptors << ", resident MiB " << before.resident_mib << " to "
              << most.resident_mib << "\n";
    EXPECT_GE(at_once, size_.at_once);
    EXPECT_GE(most.descriptors, before.descriptors + size_.at_once) << "musterd held them";
    EXPECT_EQ(listed, asked);
    EXPECT_EQ(healthy, asked);
    EXPECT_THAT(musterd_.Cli({"nodes"}).out, HasSubstr("node-2"));
  }

  // What they held is given back: handshakes end after 10 s, HTTP's requests after 30 s.
  EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] {
    return UseOf(musterd_.pid()).descriptors <= before.descriptors + 20;
  })) << UseOf(musterd_.pid()).descriptors;
  EXPECT_LT(UseOf(musterd_.pid()).resident_mib, before.resident_mib + size_.kept_mib);
  std::cout << "afterwards: descriptors " << UseOf(musterd_.pid()).descriptors << ", resident MiB "
            << UseOf(musterd_.pid()).resident_mib << "\n";
  EXPECT_EQ(musterd_.Cli({"ls", "-q"}).out, job + "\n");
  const Json shown = musterd_.CliJson({"show", job});
  EXPECT_EQ(Text(Member(shown, "summary"), "state"), "RUNNING");
  EXPECT_EQ(Member(shown, "attempts").size(), 1u) << shown;
  const std::string log = musterd_.Log();
  EXPECT_THAT(log, ::testing::Not(HasSubstr("lost")));
  EXPECT_THAT(log, HasSubstr("event=connection_displaced"));
  EXPECT_GT(Metric("muster_controller_closed_connections_total{port=\"people\"}"), 0);
  EXPECT_GT(Metric("muster_controller_closed_connections_total{port=\"http\"}"), 0);
}

}  // namespace
}  // namespace muster::testing
