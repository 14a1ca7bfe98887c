// Each cloud's source against a metadata service on loopback: as the manuals say, and with all that
// can go wrong.
#include "worker/agent/preemption/notice_source.h"

#include <stdlib.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/agent/preemption/fake_cloud.h"
#include "worker/agent/preemption/metadata_client.h"
#include "worker/agent/preemption/notice_answers.h"

namespace muster::worker {
namespace {

using ::muster::testing::FakeCloud;
using ::muster::testing::ScriptedServer;
using ::muster::testing::ServerRequest;
using ::muster::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kMachine[] = "vm-1";

class NoticeSourceTest : public ::testing::Test {
 protected:
  std::unique_ptr<NoticeSource> Make(const std::string& name, std::string url = "") {
    if (url.empty()) url = cloud_.Url(kMachine);
    auto source = MakeNoticeSource(name, url, /*has_gpus=*/false, clock_, stop_);
    EXPECT_OK(source);
    return source.ok() ? *std::move(source) : nullptr;
  }
  // Until there is a notice, at most a minute.
  std::optional<MachineNotice> Await(NoticeSource& source) {
    const absl::Duration end = clock_.SinceBoot() + absl::Minutes(1);
    while (clock_.SinceBoot() < end) {
      const auto answer = source.Ask();
      if (answer.ok() && answer->has_value()) return *answer;
    }
    return std::nullopt;
  }

  RealClock clock_;
  HttpStop stop_;
  FakeCloud cloud_;
};

TEST_F(NoticeSourceTest, AwsGivesATokenOnceAndThenAnswers) {
  const auto source = Make(kAwsSource);
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto none, source->Ask());
    EXPECT_FALSE(none.has_value());
  }
  EXPECT_EQ(cloud_.Count("/latest/api/token", "PUT"), 1u);
  cloud_.Interrupt(kMachine, absl::Seconds(90));
  ASSERT_OK_AND_ASSIGN(const auto notice, source->Ask());
  ASSERT_TRUE(notice.has_value());
  EXPECT_GT(notice->left, absl::Seconds(80));
  EXPECT_LE(notice->left, absl::Seconds(90));
  cloud_.Withdraw(kMachine);
  ASSERT_OK_AND_ASSIGN(const auto gone, source->Ask());
  EXPECT_FALSE(gone.has_value());
}

TEST_F(NoticeSourceTest, ATokenThatAwsRefusesIsRenewedOnceAndNotForEver) {
  const auto source = Make(kAwsSource);
  ASSERT_OK(source->Ask());
  cloud_.RevokeTokens();
  cloud_.Interrupt(kMachine, absl::Seconds(90));
  ASSERT_OK_AND_ASSIGN(const auto notice, source->Ask());
  EXPECT_TRUE(notice.has_value());
  EXPECT_EQ(cloud_.Count("/latest/api/token", "PUT"), 2u);

  cloud_.SetTrouble([](const ServerRequest& request, ScriptedServer::Answer& answer) {
    if (request.method == "PUT") return false;
    answer.Reply(401, {}, "");
    return true;
  });
  EXPECT_THAT(source->Ask(), StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("401")));
  EXPECT_EQ(cloud_.Count("/latest/api/token", "PUT"), 3u);
}

TEST_F(NoticeSourceTest, AnAwsTokenIsRenewedBeforeItEnds) {
  SimulatedClock clock;
  auto source =
      MakeNoticeSource(kAwsSource, cloud_.Url(kMachine), /*has_gpus=*/false, clock, stop_);
  ASSERT_OK(source);
  ASSERT_OK((*source)->Ask());
  clock.Advance(absl::Hours(2));
  ASSERT_OK((*source)->Ask());
  EXPECT_EQ(cloud_.Count("/latest/api/token", "PUT"), 1u);
  clock.Advance(absl::Hours(2));
  ASSERT_OK((*source)->Ask());
  EXPECT_EQ(cloud_.Count("/latest/api/token", "PUT"), 2u);
}

TEST_F(NoticeSourceTest, ATokenThatWouldBreakAHeaderIsNone) {
  cloud_.SetTrouble([](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Reply(200, {}, "a\r\nHost: elsewhere");
    return true;
  });
  EXPECT_THAT(Make(kAwsSource)->Ask(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(NoticeSourceTest, GcpTellsAChangeAtOnce) {
  const auto source = Make(kGcpSource);
  ASSERT_OK_AND_ASSIGN(const auto none, source->Ask());
  EXPECT_FALSE(none.has_value());
  std::atomic<bool> preempted = false;
  std::thread later([&] {
    // The next question waits for a change by now.
    while (cloud_.Count("/instance/preempted") < 2) std::this_thread::yield();
    preempted = true;
    cloud_.SetPreempted(kMachine, true);
  });
  const absl::Duration began = clock_.SinceBoot();
  ASSERT_OK_AND_ASSIGN(const auto notice, source->Ask());
  later.join();
  ASSERT_TRUE(notice.has_value());
  EXPECT_TRUE(preempted);
  EXPECT_EQ(notice->left, kGcpNotice);
  EXPECT_LT(clock_.SinceBoot() - began, absl::Seconds(4)) << "before the wait's own end";
  EXPECT_THAT(cloud_.requests().back().target,
              HasSubstr("wait_for_change=true&timeout_sec=5&last_etag=e1"));
}

TEST_F(NoticeSourceTest, GcpsMaintenanceThatEndsTheMachineIsANotice) {
  const auto source = Make(kGcpSource);
  cloud_.SetMaintenance(kMachine, "MIGRATE_ON_HOST_MAINTENANCE");
  ASSERT_OK_AND_ASSIGN(const auto moved, source->Ask());
  EXPECT_FALSE(moved.has_value());
  cloud_.SetMaintenance(kMachine, "TERMINATE_ON_HOST_MAINTENANCE");
  const auto notice = Await(*source);
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->left, kGcpMaintenanceNotice);
}

TEST_F(NoticeSourceTest, WhatDoesNotSayThatItIsGoogleIsNotAsked) {
  cloud_.SetTrouble([](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Reply(200, {}, "TRUE");
    return true;
  });
  EXPECT_THAT(Make(kGcpSource)->Ask(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("Metadata-Flavor")));
}

TEST_F(NoticeSourceTest, AnEtagThatIsNoneIsNotSentBack) {
  cloud_.SetTrouble([](const ServerRequest& request, ScriptedServer::Answer& answer) {
    const bool is_first = absl::StrContains(request.target, "preempted");
    answer.Reply(200, {{"Metadata-Flavor", "Google"}, {"ETag", "a&b=c"}},
                 is_first ? "FALSE" : "NONE");
    return true;
  });
  const auto source = Make(kGcpSource);
  for (int i = 0; i < 2; ++i) ASSERT_OK(source->Ask());
  for (const ServerRequest& request : cloud_.requests())
    EXPECT_THAT(request.target, ::testing::Not(HasSubstr("a&b")));
}

TEST_F(NoticeSourceTest, AzuresEventsOfOtherMachinesAreNoneAndItsOwnIsApproved) {
  const auto source = Make(kAzureSource);
  cloud_.Schedule("other", "Preempt", {"vm-2"}, absl::Seconds(20));
  ASSERT_OK_AND_ASSIGN(const auto none, source->Ask());
  EXPECT_FALSE(none.has_value());
  cloud_.Schedule("own", "Preempt", {kMachine}, absl::Seconds(25));
  ASSERT_OK_AND_ASSIGN(const auto notice, source->Ask());
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->id, "own");
  EXPECT_GT(notice->left, absl::Seconds(20));
  EXPECT_LE(notice->left, absl::Seconds(25));
  EXPECT_TRUE(notice->awaits_approval);
  EXPECT_OK(source->Approve(notice->id));
  EXPECT_THAT(cloud_.approved(), ElementsAre("own"));
}

TEST_F(NoticeSourceTest, AzureMayTakeItsTimeForTheFirstAnswerOnly) {
  std::atomic<int> asked = 0;
  cloud_.SetTrouble([&](const ServerRequest& request, ScriptedServer::Answer&) {
    const bool events = absl::StrContains(request.target, "scheduledevents");
    if (events && asked++ == 0) {
      HttpStop nobody;
      nobody.Sleep(kMetadataDeadline + absl::Seconds(1));
    }
    return false;
  });
  const auto source = Make(kAzureSource);
  ASSERT_OK(source->Ask());
  EXPECT_EQ(asked, 1);
}

// What any service may do, of each cloud.
class EachSourceTest : public NoticeSourceTest,
                       public ::testing::WithParamInterface<const char*> {};

TEST_P(EachSourceTest, AServerErrorIsAnErrorAndPasses) {
  const auto source = Make(GetParam());
  cloud_.SetTrouble([](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Reply(500, {}, "oops");
    return true;
  });
  EXPECT_THAT(source->Ask(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("500")));
  cloud_.SetTrouble(nullptr);
  EXPECT_OK(source->Ask());
}

TEST_P(EachSourceTest, GarbageIsNoNotice) {
  const auto source = Make(GetParam());
  ASSERT_OK(source->Ask());
  cloud_.SetTrouble([](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Reply(200, {{"Metadata-Flavor", "Google"}}, "<html>captive portal</html>\x01");
    return true;
  });
  EXPECT_THAT(source->Ask(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_P(EachSourceTest, AnAnswerThatIsTooLongIsNotRead) {
  const auto source = Make(GetParam());
  ASSERT_OK(source->Ask());
  cloud_.SetTrouble([](const ServerRequest&, ScriptedServer::Answer& answer) {
    // 64 MiB are promised; who reads on gets them.
    answer.Reply(200, {{"Metadata-Flavor", "Google"}}, std::string(64 << 20, 'x'));
    return true;
  });
  EXPECT_THAT(source->Ask(), StatusIs(absl::StatusCode::kOutOfRange));
}

TEST_P(EachSourceTest, ASilentServiceIsGivenUpAfterItsDeadline) {
  const auto source = Make(GetParam());
  ASSERT_OK(source->Ask());
  cloud_.SetTrouble([](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Stall();
    return true;
  });
  const absl::Duration began = clock_.SinceBoot();
  EXPECT_THAT(source->Ask(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_LT(clock_.SinceBoot() - began, absl::Seconds(20));
}

TEST_P(EachSourceTest, TheStopEndsAQuestion) {
  const auto source = Make(GetParam());
  cloud_.SetTrouble([](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Stall();
    return true;
  });
  std::thread later([&] {
    while (cloud_.requests().empty()) std::this_thread::yield();
    stop_.Stop();
  });
  const auto answer = source->Ask();
  later.join();
  EXPECT_FALSE(answer.ok());
}

TEST_P(EachSourceTest, AServiceThatIsGoneOrBreaksOffIsUnavailable) {
  auto cloud = std::make_unique<FakeCloud>();
  const auto source = Make(GetParam(), cloud->Url(kMachine));
  ASSERT_OK(source->Ask());
  cloud->SetTrouble([](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Send("HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\nContent-Length: 100\r\n\r\nTR");
    answer.Close();
    return true;
  });
  EXPECT_THAT(source->Ask(), StatusIs(absl::StatusCode::kUnavailable));
  cloud.reset();
  EXPECT_THAT(source->Ask(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_P(EachSourceTest, ARedirectIsNotFollowed) {
  const auto source = Make(GetParam());
  cloud_.SetTrouble([&](const ServerRequest&, ScriptedServer::Answer& answer) {
    answer.Reply(302, {{"Location", cloud_.Url("elsewhere/")}}, "");
    return true;
  });
  EXPECT_FALSE(source->Ask().ok());
  for (const ServerRequest& request : cloud_.requests())
    EXPECT_THAT(request.target, ::testing::Not(HasSubstr("elsewhere")));
}

// The proxy would be another machine than this one, and would get the token.
TEST_P(EachSourceTest, NoProxyIsAskedWhateverTheEnvironmentNames) {
  ScriptedServer proxy(
      [](const ServerRequest&, ScriptedServer::Answer& answer) { answer.Reply(502, {}, ""); });
  for (const char* name : {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"})
    ::setenv(name, proxy.Url("").c_str(), 1);
  EXPECT_OK(Make(GetParam())->Ask());
  for (const char* name : {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}) ::unsetenv(name);
  EXPECT_EQ(proxy.connections(), 0);
}

INSTANTIATE_TEST_SUITE_P(OfEachCloud, EachSourceTest,
                         ::testing::Values(kAwsSource, kGcpSource, kAzureSource),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(CheckNoticeSourceTest, EachBadValueIsNamed) {
  EXPECT_OK(CheckNoticeSource("none", ""));
  EXPECT_OK(CheckNoticeSource("aws", ""));
  EXPECT_OK(CheckNoticeSource("gcp", "http://metadata.google.internal"));
  EXPECT_OK(CheckNoticeSource("azure", "http://[fd00:ec2::254]:80/base/"));
  const auto refused = [](const std::string& name, const std::string& url, const char* what) {
    EXPECT_THAT(CheckNoticeSource(name, url),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)))
        << name << " " << url;
  };
  refused("ec2", "", "--preemption-source: `ec2`");
  refused("none", "http://127.0.0.1", "--preemption-url: needs");
  refused("aws", "127.0.0.1", "does not begin");
  refused("aws", "ftp://127.0.0.1", "does not begin");
  refused("aws", "http://", "names no host");
  refused("aws", "http://:80/", "names no host");
  refused("aws", "http://user:secret@host/", "a user");
  refused("aws", "http://host/?a=b", "a query");
  refused("aws", "http://host/a b", "a character");
  refused("aws", "http://host/" + std::string(600, 'x'), "more than 512");
}

}  // namespace
}  // namespace muster::worker
