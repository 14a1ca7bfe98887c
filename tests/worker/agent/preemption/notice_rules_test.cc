#include "worker/agent/preemption/notice_rules.h"

#include <gtest/gtest.h>

namespace muster::worker {
namespace {

std::optional<MachineNotice> Notice(absl::Duration left) {
  MachineNotice notice;
  notice.id = "n";
  notice.left = left;
  return notice;
}

constexpr absl::Duration kStart = absl::Hours(5);

TEST(NoticeRulesTest, ANoticeIsGivenOnceAndItsEndIsTheFirstThatWasSaid) {
  NoticeRules rules;
  EXPECT_EQ(rules.OnAnswer(std::nullopt, kStart), NoticeChange::kNone);
  EXPECT_EQ(rules.OnAnswer(Notice(absl::Seconds(30)), kStart), NoticeChange::kGiven);
  // GCP names no time: each answer would put the end off.
  for (int i = 1; i < 100; ++i) {
    EXPECT_EQ(rules.OnAnswer(Notice(absl::Seconds(30)), kStart + absl::Seconds(i)),
              NoticeChange::kNone);
  }
  EXPECT_TRUE(rules.stands());
  EXPECT_EQ(rules.deadline(), kStart + absl::Seconds(30));
}

TEST(NoticeRulesTest, AnEndThatComesSoonerIsSaidAndOneThatJittersIsNot) {
  NoticeRules rules;
  EXPECT_EQ(rules.OnAnswer(Notice(absl::Seconds(120)), kStart), NoticeChange::kGiven);
  EXPECT_EQ(rules.OnAnswer(Notice(absl::Seconds(118.5)), kStart), NoticeChange::kNone);
  EXPECT_EQ(rules.OnAnswer(Notice(absl::Seconds(30)), kStart), NoticeChange::kSooner);
  EXPECT_EQ(rules.deadline(), kStart + absl::Seconds(30));
  EXPECT_EQ(rules.OnAnswer(Notice(absl::Seconds(120)), kStart), NoticeChange::kNone);
  EXPECT_EQ(rules.deadline(), kStart + absl::Seconds(30));
}

TEST(NoticeRulesTest, ANoticeIsWithdrawnOnlyWhenTheSourceSaysSoForAWhile) {
  NoticeRules rules;
  rules.OnAnswer(Notice(absl::Seconds(30)), kStart);
  EXPECT_EQ(rules.OnAnswer(std::nullopt, kStart), NoticeChange::kNone);
  EXPECT_EQ(rules.OnAnswer(std::nullopt, kStart + kWithdrawnAfter / 2), NoticeChange::kNone);
  // It stands after all: the wait begins anew.
  EXPECT_EQ(rules.OnAnswer(Notice(absl::Seconds(30)), kStart + kWithdrawnAfter),
            NoticeChange::kNone);
  EXPECT_EQ(rules.OnAnswer(std::nullopt, kStart + kWithdrawnAfter * 2), NoticeChange::kNone);
  EXPECT_EQ(rules.OnAnswer(std::nullopt, kStart + kWithdrawnAfter * 3), NoticeChange::kWithdrawn);
  EXPECT_FALSE(rules.stands());
  EXPECT_EQ(rules.OnAnswer(std::nullopt, kStart + kWithdrawnAfter * 4), NoticeChange::kNone);
}

TEST(NoticeRulesTest, ASourceThatFailsWithdrawsNothing) {
  NoticeRules rules;
  rules.OnAnswer(Notice(absl::Seconds(30)), kStart);
  EXPECT_EQ(rules.OnAnswer(std::nullopt, kStart), NoticeChange::kNone);
  rules.OnFailure();
  EXPECT_TRUE(rules.stands());
  EXPECT_EQ(rules.OnAnswer(std::nullopt, kStart + kWithdrawnAfter), NoticeChange::kNone)
      << "what was said before the failure does not count";
  EXPECT_EQ(rules.OnAnswer(std::nullopt, kStart + kWithdrawnAfter * 2), NoticeChange::kWithdrawn);
}

TEST(NoticeRulesTest, ASourceThatFlapsKeepsTheMachineFreeForLongerEachTime) {
  NoticeRules rules;
  absl::Duration now = kStart;
  absl::Duration last = absl::ZeroDuration();
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(rules.OnAnswer(Notice(absl::Seconds(30)), now), NoticeChange::kGiven);
    const absl::Duration began = now;
    while (rules.OnAnswer(std::nullopt, now) != NoticeChange::kWithdrawn) now += absl::Seconds(1);
    EXPECT_GE(now - began, last);
    last = now - began;
  }
  EXPECT_EQ(last, kMaxWithdrawnAfter);
}

}  // namespace
}  // namespace muster::worker
