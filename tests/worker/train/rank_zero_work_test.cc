#include "worker/train/rank_zero_work.h"

#include <gmock/gmock.h>

#include <atomic>
#include <stdexcept>

#include "absl/time/clock.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/dist/gang.h"
#include "worker/train/run/failure.h"

namespace muster::worker {
namespace {

using muster::testing::RunGang;
using muster::testing::StatusIs;
using ::testing::Each;
using ::testing::HasSubstr;

struct Seen {
  absl::StatusOr<std::string> answer = absl::UnknownError("nothing came");
  int beats = 0;
};

TEST(Turns, AllRanksWaitForRankZeroAndGetItsAnswer) {
  for (const int world : {1, 3}) {
    std::vector<Seen> seen(world);
    const auto body = [&](std::unique_ptr<Gang> gang) {
      Seen& mine = seen[gang->rank()];
      int turns = 0;
      const WorkInTurns work = [&](absl::Duration) -> std::optional<absl::StatusOr<std::string>> {
        EXPECT_EQ(gang->rank(), 0);
        if (++turns < 3) return std::nullopt;
        return "done";
      };
      mine.answer = DoInTurns(*gang, work, [&] { ++mine.beats; });
    };
    EXPECT_THAT(RunGang(world, body), Each(""));
    for (const Seen& rank : seen) {
      ASSERT_OK(rank.answer);
      EXPECT_EQ(*rank.answer, "done");
      EXPECT_EQ(rank.beats, 2);
    }
  }
}

TEST(Turns, WorkThatDoesNotGetOnDoesNotLookAlive) {
  std::vector<Seen> seen(2);
  const auto body = [&](std::unique_ptr<Gang> gang) {
    Seen& mine = seen[gang->rank()];
    int turns = 0;
    const WorkInTurns work = [&](absl::Duration) -> std::optional<absl::StatusOr<std::string>> {
      if (++turns < 5) return std::nullopt;
      return "done";
    };
    mine.answer = DoInTurns(
        *gang, work, [&] { ++mine.beats; }, [&] { return turns == 2; });
  };
  EXPECT_THAT(RunGang(2, body), Each(""));
  for (const Seen& rank : seen) {
    ASSERT_OK(rank.answer);
    EXPECT_EQ(rank.beats, 1) << "of four turns without an answer one brought it on";
  }
}

TEST(Turns, WorkOnAThreadOfItsOwnFailsOnEachRankWithItsClass) {
  std::vector<Seen> failed(2), thrown(2), fine(2);
  const auto body = [&](std::unique_ptr<Gang> gang) {
    const int rank = gang->rank();
    const auto beat = [] {};
    failed[rank].answer = OnRankZero(
        *gang,
        [](const OnProgress&) { return Classify(absl::NotFoundError("no file"), kDataError); },
        beat);
    thrown[rank].answer = OnRankZero(
        *gang, [](const OnProgress&) -> absl::StatusOr<std::string> { throw std::bad_alloc(); },
        beat);
    fine[rank].answer = OnRankZero(
        *gang, [](const OnProgress&) { return std::string(); }, beat);
  };
  EXPECT_THAT(RunGang(2, body), Each(""));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(failed[rank].answer, StatusIs(absl::StatusCode::kNotFound, HasSubstr("no file")));
    EXPECT_EQ(FailureClassOf(failed[rank].answer.status()), kDataError);
    EXPECT_EQ(FailureClassOf(thrown[rank].answer.status()), kOutOfMemory);
    ASSERT_OK(fine[rank].answer);
    EXPECT_EQ(*fine[rank].answer, "");
  }
}

TEST(Turns, AWaitThatEndsByItselfLooksAlive) {
  std::atomic<int> beats = 0;
  const auto body = [&](std::unique_ptr<Gang> gang) {
    const LongWork work = [&](const OnProgress& on_progress) -> absl::StatusOr<std::string> {
      return WaitAlive(on_progress, [&] {
        for (int i = 0; i < 6000 && beats < 2; ++i) absl::SleepFor(absl::Milliseconds(10));
        return absl::AbortedError("it is over");
      });
    };
    EXPECT_THAT(OnRankZero(*gang, work, [&] { ++beats; }),
                StatusIs(absl::StatusCode::kAborted, HasSubstr("it is over")));
  };
  EXPECT_THAT(RunGang(1, body), Each(""));
  EXPECT_GE(beats, 2);
}

}  // namespace
}  // namespace muster::worker
