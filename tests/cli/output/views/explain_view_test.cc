#include "cli/output/views/explain_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

v1::ExplainJobResponse MakeAnswer() {
  v1::ExplainJobResponse answer;
  answer.mutable_summary()->set_id(7);
  answer.mutable_summary()->set_name("digits");
  answer.mutable_summary()->set_state(v1::PENDING);
  v1::Outlook& outlook = *answer.mutable_outlook();
  outlook.set_reason("waits behind job 5; needs 2 CPU slots in pool default");
  v1::Blocker& slots = *outlook.add_blockers();
  slots.set_kind(v1::Blocker::SLOTS);
  slots.set_message("pool default has too few free CPU slots");
  slots.set_needed("2 CPU slots");
  slots.set_available("1 of 4 free on 1 ready worker");
  v1::Blocker& hint = *outlook.add_blockers();
  hint.set_kind(v1::Blocker::GPU_TYPE);
  hint.set_is_hint(true);
  hint.set_message("GPUs of another model");
  v1::Outlook::Ahead& ahead = *outlook.add_ahead();
  ahead.set_id(5);
  ahead.set_name("resnet");
  ahead.set_project("vision");
  ahead.set_state(v1::PENDING);
  ahead.set_slots(4);
  outlook.set_ahead_count(3);
  outlook.set_start_ms(absl::ToUnixMillis(kNow + absl::Minutes(22)));
  v1::Outlook::End& end = *outlook.add_rests_on();
  end.set_job_id(4);
  end.set_name("lm");
  end.set_source(v1::LEARNED);
  end.set_end_ms(outlook.start_ms());
  outlook.set_rests_on_count(1);
  v1::Outlook::Place& place = *outlook.add_places();
  place.set_worker("w1");
  place.set_ranks(2);
  place.add_slots(0);
  place.add_slots(3);
  outlook.set_ranks(2);
  outlook.set_slots(2);
  outlook.set_run_seconds(5400);
  outlook.set_run_time_source(v1::DECLARED);
  outlook.set_slot_hours(3);
  return answer;
}

TEST(ExplainPage, NamesATaskOfAnArrayAsLsDoes) {
  v1::ExplainJobResponse answer = MakeAnswer();
  v1::Outlook::Ahead& ahead = *answer.mutable_outlook()->mutable_ahead(0);
  ahead.set_array_id(2);
  ahead.set_array_index(6);
  EXPECT_THAT(ExplainPage(answer, kNow), HasSubstr("  2_6  resnet  vision   PENDING"));
}

TEST(ExplainPage, TellsWhatIsInTheWayWhoIsFirstAndWhen) {
  EXPECT_EQ(ExplainPage(MakeAnswer(), kNow),
            "job:      7 digits\n"
            "state:    PENDING\n"
            "reason:   waits behind job 5; needs 2 CPU slots in pool default\n"
            "BLOCKER  WHAT                                     NEEDED       AVAILABLE\n"
            "slots    pool default has too few free CPU slots  2 CPU slots  1 of 4 free on 1 ready "
            "worker\n"
            "there, but not for it:\n"
            "BLOCKER   WHAT                   NEEDED  AVAILABLE\n"
            "gpu_type  GPUs of another model  -       -\n"
            "AHEAD  NAME    PROJECT  STATE    PRIO  SLOTS\n"
            "    5  resnet  vision   PENDING     0      4\n"
            "and 2 more\n"
            "start:    2023-11-14 22:35:20 UTC, in 22m\n"
            "rests on: job 4 lm ends by 2023-11-14 22:35:20 (learned from earlier ones)\n"
            "where:    2 ranks on w1 (slots 0,3)\n"
            "for:      1h30m, declared\n"
            "cost:     3.00 slot-hours\n");
}

TEST(ExplainPage, WhatNobodyKnowsIsSaid) {
  v1::ExplainJobResponse answer = MakeAnswer();
  v1::Outlook& outlook = *answer.mutable_outlook();
  outlook.clear_start_ms();
  outlook.clear_run_seconds();
  outlook.clear_slot_hours();
  outlook.set_why_unknown("nobody can tell when job 4 (lm) will end");
  const std::string page = ExplainPage(answer, kNow);
  EXPECT_THAT(page, HasSubstr("start:    unknown: nobody can tell when job 4 (lm) will end\n"));
  EXPECT_THAT(page, HasSubstr("for:      unknown: declare scheduling.expected_run_time\n"));
  EXPECT_THAT(page, Not(HasSubstr("cost")));
  EXPECT_THAT(page, Not(HasSubstr("rests on")));
}

TEST(ExplainPage, AJobThatRunsHasAPlaceAndNoBlockers) {
  v1::ExplainJobResponse answer = MakeAnswer();
  answer.mutable_summary()->set_state(v1::RUNNING);
  answer.mutable_outlook()->clear_blockers();
  const std::string page = ExplainPage(answer, kNow);
  EXPECT_THAT(page, HasSubstr("where:    2 ranks on w1 (slots 0,3)\n"));
  EXPECT_THAT(page, Not(HasSubstr("start")));
  EXPECT_THAT(page, HasSubstr("ends:     unknown: it declares no run time"));
  answer.mutable_outlook()->set_end_ms(absl::ToUnixMillis(kNow + absl::Seconds(18)));
  answer.mutable_outlook()->set_run_time_source(v1::PROGRESS);
  EXPECT_THAT(ExplainPage(answer, kNow),
              HasSubstr("ends:     2023-11-14 22:13:38 UTC, in 18s, by its progress\n"));
}

}  // namespace
}  // namespace muster::cli
