#include "worker/agent/preemption/notice_answers.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

const absl::Time kNoon = absl::FromUnixSeconds(1'768'478'400);  // 2026-01-15T12:00:00Z

TEST(NoticeAnswersTest, AwsNamesTheActionAndItsTime) {
  ASSERT_OK_AND_ASSIGN(
      const MachineNotice notice,
      ReadAwsAction(R"({"action": "terminate", "time": "2026-01-15T12:01:58Z"})", kNoon));
  EXPECT_EQ(notice.left, absl::Seconds(118));
  EXPECT_THAT(notice.message, HasSubstr("terminate"));
  EXPECT_FALSE(notice.awaits_approval);
}

TEST(NoticeAnswersTest, ATimeThatIsPastLeavesNothingAndOneTooFarAwayIsAWrongClock) {
  const auto left = [](const std::string& time) {
    const auto notice =
        ReadAwsAction(absl::StrCat(R"({"action":"stop","time":")", time, "\"}"), kNoon);
    return notice.ok() ? notice->left : -absl::InfiniteDuration();
  };
  EXPECT_EQ(left("2026-01-15T11:59:00Z"), absl::ZeroDuration());
  EXPECT_EQ(left("2027-01-15T12:00:00Z"), kAwsNotice);
  EXPECT_EQ(left("soon"), kAwsNotice) << "the action stands, whenever it is";
}

TEST(NoticeAnswersTest, WhatIsNoAnswerOfAwsIsNoNotice) {
  for (const std::string body :
       {"", "null", "[]", "{}", "terminate", R"({"action": 7})", R"({"action": "dance"})",
        R"({"action": "terminate")", "<html>404</html>", "\xff\xfe"}) {
    EXPECT_THAT(ReadAwsAction(body, kNoon), StatusIs(absl::StatusCode::kInvalidArgument)) << body;
  }
  EXPECT_THAT(ReadAwsAction(std::string(100'000, '['), kNoon),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(NoticeAnswersTest, TheServicesOwnTimeCountsNotThatOfTheMachine) {
  EXPECT_EQ(TimeOfAnswer("Thu, 15 Jan 2026 12:00:00 GMT", kNoon + absl::Hours(9)), kNoon);
  EXPECT_EQ(TimeOfAnswer("", kNoon), kNoon);
  EXPECT_EQ(TimeOfAnswer("yesterday", kNoon), kNoon);
}

TEST(NoticeAnswersTest, GcpSaysTrueOrFalse) {
  ASSERT_OK_AND_ASSIGN(const auto taken, ReadGcpPreempted("TRUE\n"));
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->left, kGcpNotice);
  ASSERT_OK_AND_ASSIGN(const auto none, ReadGcpPreempted("FALSE"));
  EXPECT_FALSE(none.has_value());
  for (const std::string body : {"", "true", "MAYBE", "TRUE FALSE"}) {
    EXPECT_THAT(ReadGcpPreempted(body), StatusIs(absl::StatusCode::kInvalidArgument)) << body;
  }
}

TEST(NoticeAnswersTest, AMachineThatGcpMovesAliveStays) {
  EXPECT_FALSE(ReadGcpMaintenance("NONE", /*has_gpus=*/false).has_value());
  EXPECT_FALSE(ReadGcpMaintenance("MIGRATE_ON_HOST_MAINTENANCE", /*has_gpus=*/false).has_value());
  EXPECT_FALSE(ReadGcpMaintenance("", /*has_gpus=*/false).has_value());
  EXPECT_EQ(ReadGcpMaintenance("TERMINATE_ON_HOST_MAINTENANCE", /*has_gpus=*/false)->left,
            kGcpMaintenanceNotice);
  EXPECT_EQ(ReadGcpMaintenance("TERMINATE_ON_HOST_MAINTENANCE", /*has_gpus=*/true)->left,
            kGcpGpuMaintenanceNotice);
}

std::string Events(const std::vector<nlohmann::json>& events) {
  return nlohmann::json{{"DocumentIncarnation", 3}, {"Events", events}}.dump();
}

nlohmann::json Event(const std::string& type, const std::vector<std::string>& resources,
                     const std::string& not_before, const std::string& status = "Scheduled") {
  return {{"EventId", "id-" + type},
          {"EventStatus", status},
          {"EventType", type},
          {"Resources", resources},
          {"NotBefore", not_before}};
}

TEST(NoticeAnswersTest, AnAzureEventForThisMachineIsANotice) {
  const std::string body = Events({Event("Preempt", {"VM_1"}, "Thu, 15 Jan 2026 12:00:20 GMT")});
  ASSERT_OK_AND_ASSIGN(const auto notice, ReadAzureEvents(body, "vm_1", kNoon));
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->id, "id-Preempt");
  EXPECT_EQ(notice->left, absl::Seconds(20));
  EXPECT_TRUE(notice->awaits_approval);
}

TEST(NoticeAnswersTest, EventsOfOtherMachinesAndThoseThatLeaveItAloneAreNone) {
  const std::string soon = "Thu, 15 Jan 2026 12:00:20 GMT";
  for (const nlohmann::json& event :
       {Event("Preempt", {"vm_2", "vm_11"}, soon), Event("Preempt", {}, soon),
        Event("Freeze", {"vm_1"}, soon), Event("Preempt", {"vm_1"}, soon, "Completed"),
        Event("Preempt", {"vm_1"}, soon, "Canceled"), nlohmann::json("Preempt"),
        nlohmann::json::object(), nlohmann::json{{"EventType", "Preempt"}, {"Resources", "vm_1"}},
        nlohmann::json{{"EventType", 1}, {"EventId", 2}, {"Resources", {3}}}}) {
    ASSERT_OK_AND_ASSIGN(const auto notice, ReadAzureEvents(Events({event}), "vm_1", kNoon));
    EXPECT_FALSE(notice.has_value()) << event;
  }
}

TEST(NoticeAnswersTest, OfSeveralAzureEventsTheSoonestCountsAndGarbageHidesNone) {
  const std::string body =
      Events({nlohmann::json(7), Event("Reboot", {"vm_1"}, "Thu, 15 Jan 2026 12:10:00 GMT"),
              Event("Preempt", {"vm_2"}, "Thu, 15 Jan 2026 12:00:01 GMT"),
              Event("Redeploy", {"vm_1", "vm_2"}, "Thu, 15 Jan 2026 12:05:00 GMT")});
  ASSERT_OK_AND_ASSIGN(const auto notice, ReadAzureEvents(body, "vm_1", kNoon));
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->id, "id-Redeploy");
  EXPECT_EQ(notice->left, absl::Minutes(5));
  EXPECT_FALSE(notice->awaits_approval) << "the other machine has a say, too";
}

TEST(NoticeAnswersTest, AnAzureEventThatHasBegunLeavesLittleTimeAndAwaitsNothing) {
  ASSERT_OK_AND_ASSIGN(
      const auto notice,
      ReadAzureEvents(Events({Event("Preempt", {"vm_1"}, "", "Started")}), "vm_1", kNoon));
  ASSERT_TRUE(notice.has_value());
  EXPECT_LE(notice->left, absl::Seconds(5));
  EXPECT_FALSE(notice->awaits_approval);
}

TEST(NoticeAnswersTest, WhatIsNoAnswerOfAzureIsAnError) {
  for (const std::string body :
       {"", "[]", "{}", R"({"Events": {}})", R"({"Events": 1})", "null", "Service Unavailable"}) {
    EXPECT_THAT(ReadAzureEvents(body, "vm_1", kNoon), StatusIs(absl::StatusCode::kInvalidArgument))
        << body;
  }
}

TEST(NoticeAnswersTest, AnApprovalNamesTheEvent) {
  EXPECT_EQ(AzureApproval("A\"1"), R"({"StartRequests":[{"EventId":"A\"1"}]})");
}

}  // namespace
}  // namespace muster::worker
