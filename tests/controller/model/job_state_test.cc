#include "controller/model/job_state.h"

#include <gtest/gtest.h>

#include <set>

namespace muster::controller {
namespace {

template <typename F>
void ForEachPair(F&& visit) {
  for (int state = 1; state <= kJobStateCount; ++state) {
    for (int input = 0; input < kJobInputCount; ++input) {
      visit(static_cast<JobState>(state), static_cast<JobInput>(input));
    }
  }
}

std::string Name(JobState state, JobInput input) {
  return std::string(JobStateName(state)) + " + " + std::string(JobInputName(input));
}

TEST(JobStateTest, EveryPairIsInTheTableAndComplete) {
  int pairs = 0;
  ForEachPair([&](JobState state, JobInput input) {
    ++pairs;
    const JobRule& rule = LookUp(state, input);
    switch (rule.handling) {
      case Handling::kUnset:
        ADD_FAILURE() << Name(state, input) << " is missing";
        break;
      case Handling::kMove:
        EXPECT_NE(rule.next, state) << Name(state, input);
        EXPECT_NE(rule.reason, Reason::kNone) << Name(state, input) << " has no reason";
        break;
      case Handling::kNote:
        EXPECT_NE(rule.reason, Reason::kNone) << Name(state, input) << " has no reason";
        break;
      case Handling::kStay:
        break;
      case Handling::kIgnore:
        EXPECT_STRNE(rule.because, "") << Name(state, input);
        EXPECT_EQ(rule.effect, JobEffect::kNone) << Name(state, input);
        break;
      case Handling::kReject:
        EXPECT_STRNE(rule.because, "") << Name(state, input);
        EXPECT_NE(rule.code, absl::StatusCode::kOk) << Name(state, input);
        EXPECT_EQ(rule.effect, JobEffect::kNone) << Name(state, input);
        break;
    }
  });
  EXPECT_EQ(pairs, kJobStateCount * kJobInputCount);
}

TEST(JobStateTest, OnlyARequeueLeavesATerminalStateAndNoneLeavesSuccess) {
  ForEachPair([](JobState state, JobInput input) {
    if (!IsTerminal(state)) return;
    const JobRule& rule = LookUp(state, input);
    if (input == JobInput::kRequeue && state != JobState::kSucceeded) {
      EXPECT_EQ(rule.handling, Handling::kMove) << Name(state, input);
      EXPECT_EQ(rule.next, JobState::kPending) << Name(state, input);
      return;
    }
    const Handling handling = rule.handling;
    EXPECT_TRUE(handling == Handling::kIgnore || handling == Handling::kReject)
        << Name(state, input);
  });
}

TEST(JobStateTest, OnlyThePlacementStartsAnAttempt) {
  ForEachPair([](JobState state, JobInput input) {
    const JobRule& rule = LookUp(state, input);
    if (rule.handling != Handling::kMove || rule.next != JobState::kStarting) return;
    EXPECT_EQ(state, JobState::kPending);
    EXPECT_EQ(input, JobInput::kPlaced);
  });
}

// A state in which ranks may live is left for one without them only when the attempt ends.
TEST(JobStateTest, NoRankOutlivesItsAttempt) {
  auto has_ranks = [](JobState state) {
    return state == JobState::kStarting || state == JobState::kRunning ||
           state == JobState::kRecovering || state == JobState::kStopping;
  };
  ForEachPair([&](JobState state, JobInput input) {
    const JobRule& rule = LookUp(state, input);
    if (rule.handling != Handling::kMove || !has_ranks(state)) return;
    EXPECT_EQ(rule.effect == JobEffect::kEndAttempt, !has_ranks(rule.next)) << Name(state, input);
    if (rule.next == JobState::kRecovering || rule.next == JobState::kStopping) {
      EXPECT_NE(rule.effect, JobEffect::kNone) << Name(state, input) << " stops nobody";
    }
  });
}

TEST(JobStateTest, EveryStateThatIsNotTerminalCanBeCancelled) {
  for (int state = 1; state <= kJobStateCount; ++state) {
    const JobRule& rule = LookUp(static_cast<JobState>(state), JobInput::kCancel);
    if (!IsTerminal(static_cast<JobState>(state))) {
      EXPECT_NE(rule.handling, Handling::kReject) << JobStateName(static_cast<JobState>(state));
    }
  }
}

TEST(JobStateTest, EveryStateIsReachedFromPending) {
  std::set<JobState> reached = {JobState::kPending};
  for (size_t before = 0; before != reached.size();) {
    before = reached.size();
    ForEachPair([&](JobState state, JobInput input) {
      const JobRule& rule = LookUp(state, input);
      if (reached.count(state) != 0 && rule.handling == Handling::kMove) reached.insert(rule.next);
    });
  }
  EXPECT_EQ(reached.size(), static_cast<size_t>(kJobStateCount));
}

}  // namespace
}  // namespace muster::controller
