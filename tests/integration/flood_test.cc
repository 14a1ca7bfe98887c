// Slowloris and half-open connections, against a real musterd with TLS: very many connections that
// ask for nothing, on each of its ports, for several leases. A job that runs goes on, people and
// machines still come in, and all is as before when they have gone. MUSTER_CHAOS=whole: 10,000
// connections, as far as the machine's bounds on descriptors allow, for a minute.
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

struct Size {
  size_t people = 0;  // connections to each port
  size_t workers = 0;
  size_t http = 0;
  uint64_t musterd_descriptors = 0;
  absl::Duration length;
};

// This process' own bound, as high as it may be.
uint64_t RaiseOwnDescriptors() {
  rlimit bound = {};
  (void)::getrlimit(RLIMIT_NOFILE, &bound);
  bound.rlim_cur = bound.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &bound);
  return bound.rlim_cur;
}

// By default each port has more than its bound; whole: as many as can be, of which the people's
// port has more than its bound.
Size SizeOfFlood() {
  const uint64_t most = RaiseOwnDescriptors();
  const char* chaos = ::getenv("MUSTER_CHAOS");
  const bool whole = chaos != nullptr && std::string(chaos) == "whole";
  if (!whole) return {1000, 1000, 500, 1536, 4 * kLease};
  const size_t part = std::min<size_t>(10'000, most - 500) / 5;
  return {3 * part, part, part, most, absl::Minutes(1)};
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
    musterd_.Start({"--heartbeat-interval", "1s", "--suspect-after", "3s", "--lost-after", "6s",
                    "--startup-grace", "0s"},
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
  std::string Get(const std::string& path) {
    return RunProcess(
               {"curl", "-sf", "-m", "5", absl::StrCat("http://", musterd_.Address("http"), path)},
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
  Use most;
  {
    const ConnectionFlood people(
        musterd_.Port("grpc"), size_.people, kHosts,
        {Kind::kSilent, Kind::kHalfHello, Kind::kByteEachSecond, Kind::kOnlyTls, Kind::kOnlyHttp2});
    const ConnectionFlood workers(
        musterd_.Port("worker"), size_.workers, kHosts,
        {Kind::kSilent, Kind::kHalfHello, Kind::kByteEachSecond, Kind::kOnlyTls});
    const ConnectionFlood http(musterd_.Port("http"), size_.http, kHosts,
                               {Kind::kSilent, Kind::kEndlessHeaders});
    const absl::Time end = Now() + size_.length;
    while (Now() < end) {
      const Use now = UseOf(musterd_.pid());
      most.descriptors = std::max(most.descriptors, now.descriptors);
      most.resident_mib = std::max(most.resident_mib, now.resident_mib);
      const ProcessResult list = musterd_.Cli({"ls", "-q"});
      ++asked;
      if (list.exit_code == 0 && list.out == job + "\n") ++listed;
      if (Get("/healthz") == "ok\n") ++healthy;
      // A machine that comes amid all of it.
      if (agents_.size() == 1) {
        ASSERT_NO_FATAL_FAILURE(StartAgent("node-2"));
      }
      ::usleep(300'000);
    }
    std::cout << "open at most: people " << people.most_open() << ", workers "
              << workers.most_open() << ", http " << http.most_open() << "; connected "
              << people.connects() + workers.connects() + http.connects() << " times, closed "
              << people.closed() + workers.closed() + http.closed() << " times; `muster ls` "
              << listed << " of " << asked << ", /healthz " << healthy << " of " << asked
              << "; descriptors " << before.descriptors << " to " << most.descriptors
              << ", resident MiB " << before.resident_mib << " to " << most.resident_mib << "\n";
    EXPECT_EQ(listed, asked);
    EXPECT_EQ(healthy, asked);
    EXPECT_THAT(musterd_.Cli({"nodes"}).out, HasSubstr("node-2"));
  }

  // What they held is given back: handshakes end after 10 s, HTTP's requests after 30 s.
  EXPECT_TRUE(WaitUntil(absl::Minutes(1), [&] {
    return UseOf(musterd_.pid()).descriptors <= before.descriptors + 20;
  })) << UseOf(musterd_.pid()).descriptors;
  EXPECT_LT(UseOf(musterd_.pid()).resident_mib, before.resident_mib + 300);
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
