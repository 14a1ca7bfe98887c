#include "worker/data/order/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace muster::worker {
namespace {

std::vector<int64_t> AllRanks(const Sampler& sampler, uint64_t step, uint32_t world) {
  std::vector<int64_t> ids;
  for (uint32_t rank = 0; rank < world; ++rank) {
    const std::vector<int64_t> part = sampler.Ids(step, rank, world);
    ids.insert(ids.end(), part.begin(), part.end());
  }
  return ids;
}

TEST(SamplerTest, TheCipherIsAPermutationOfEverySize) {
  for (const uint64_t size :
       {1, 2, 3, 4, 5, 7, 15, 16, 17, 63, 64, 65, 255, 257, 1258, 4096, 5000}) {
    std::vector<bool> seen(size, false);
    for (uint64_t place = 0; place < size; ++place) {
      const uint64_t id = Permute(/*seed=*/9, /*epoch=*/3, size, place);
      ASSERT_LT(id, size);
      ASSERT_FALSE(seen[id]) << size << " " << place;
      seen[id] = true;
    }
  }
}

TEST(SamplerTest, HugeSetsNeedNoMemory) {
  const uint64_t size = (uint64_t{1} << 62) + 12345;
  std::set<uint64_t> ids;
  for (uint64_t place = 0; place < 1000; ++place) ids.insert(Permute(1, 0, size, size - 1 - place));
  EXPECT_EQ(ids.size(), 1000u);
  EXPECT_LT(*ids.rbegin(), size);
}

TEST(SamplerTest, SeedAndEpochChangeTheOrder) {
  const auto order = [](uint64_t seed, uint64_t epoch) {
    std::vector<uint64_t> ids;
    for (uint64_t place = 0; place < 100; ++place) ids.push_back(Permute(seed, epoch, 100, place));
    return ids;
  };
  EXPECT_EQ(order(1, 0), order(1, 0));
  EXPECT_NE(order(1, 0), order(1, 1));
  EXPECT_NE(order(1, 0), order(2, 0));
}

// Fixed for ever: a resumed run must go on in the order that it started with.
TEST(SamplerTest, TheOrderIsTheOneThatCheckpointsWereWrittenWith) {
  std::vector<uint64_t> ids;
  for (uint64_t place = 0; place < 8; ++place) ids.push_back(Permute(7, 1, 1258, place));
  EXPECT_EQ(ids, (std::vector<uint64_t>{44, 1166, 795, 587, 431, 1017, 1104, 1088}));
}

TEST(SamplerTest, AnyWorldSizeSeesTheSameBatches) {
  const Sampler sampler(103, 32, 5);
  for (uint64_t step = 0; step < 20; ++step) {
    const std::vector<int64_t> one = sampler.Ids(step, 0, 1);
    ASSERT_EQ(one.size(), 32u);
    for (const uint32_t world : {2u, 3u, 5u, 7u, 40u}) {
      EXPECT_EQ(AllRanks(sampler, step, world), one) << world;
    }
  }
}

TEST(SamplerTest, EachSampleComesOnceAnEpochThoughBatchesCrossItsEnd) {
  const uint64_t samples = 103;
  const Sampler sampler(samples, 32, 5);
  std::vector<int64_t> consumed;
  // One resize after the other.
  for (uint64_t step = 0; consumed.size() < 10 * samples; ++step) {
    const std::vector<int64_t> batch = AllRanks(sampler, step, static_cast<uint32_t>(1 + step % 5));
    consumed.insert(consumed.end(), batch.begin(), batch.end());
  }
  for (uint64_t epoch = 0; epoch < 10; ++epoch) {
    const auto begin = consumed.begin() + static_cast<ptrdiff_t>(epoch * samples);
    EXPECT_EQ(std::set<int64_t>(begin, begin + static_cast<ptrdiff_t>(samples)).size(), samples);
  }
}

TEST(SamplerTest, ARunCountedInEpochsEndsExactlyThere) {
  Sampler sampler(103, 32, 5);
  sampler.LimitToEpochs(2);
  ASSERT_EQ(sampler.StepsFor(2), 7u);
  std::map<int64_t, int> times;
  for (uint64_t step = 0; step < 7; ++step) {
    for (const int64_t id : AllRanks(sampler, step, 3)) ++times[id];
  }
  EXPECT_EQ(times.size(), 103u);
  for (const auto& [id, count] : times) EXPECT_EQ(count, 2) << id;
  EXPECT_EQ(sampler.GlobalBatch(5), 32u);
  EXPECT_EQ(sampler.GlobalBatch(6), 206u - 6 * 32);
  EXPECT_EQ(sampler.EpochAt(7), 2.0);
  EXPECT_EQ(sampler.GlobalBatch(7), 0u);
}

TEST(SamplerTest, StepsRoundUpAndAreNeverNone) {
  const Sampler sampler(100, 10, 0);
  EXPECT_EQ(sampler.StepsFor(1), 10u);
  EXPECT_EQ(sampler.StepsFor(1.01), 11u);
  EXPECT_EQ(sampler.StepsFor(0.5), 5u);
  EXPECT_EQ(sampler.StepsFor(0.0001), 1u);
  EXPECT_EQ(Sampler(10, 64, 0).StepsFor(3), 1u);
}

TEST(SamplerTest, EpochsOfARunCountedInStepsGoOn) {
  const Sampler sampler(100, 30, 0);
  EXPECT_EQ(sampler.EpochAt(0), 0.0);
  EXPECT_EQ(sampler.EpochAt(5), 1.5);
  EXPECT_EQ(sampler.GlobalBatch(1000), 30u);
}

TEST(SamplerTest, ShardsCoverEverythingInOrderAndDifferByOneAtMost) {
  for (const uint64_t count : {0ull, 1ull, 5ull, 64ull, 363ull, 1ull << 60}) {
    for (const uint32_t world : {1u, 2u, 3u, 7u, 4096u}) {
      uint64_t end = 0;
      for (uint32_t rank = 0; rank < world; ++rank) {
        const PlaceRange shard = EvenPart(count, rank, world);
        ASSERT_EQ(shard.begin, end);
        ASSERT_LE(shard.size(), count / world + 1);
        ASSERT_GE(shard.size(), count / world);
        end = shard.end;
      }
      ASSERT_EQ(end, count);
    }
  }
}

TEST(SamplerTest, AShortLastBatchMayLeaveARankEmpty) {
  Sampler sampler(33, 32, 0);
  sampler.LimitToEpochs(1);
  EXPECT_EQ(AllRanks(sampler, 1, 2).size(), 1u);
  EXPECT_TRUE(sampler.Ids(1, 0, 2).empty());
  EXPECT_EQ(sampler.Ids(1, 1, 2).size(), 1u);
}

TEST(SamplerTest, PlacesGoOnFromStepToStepAndFromEpochToEpoch) {
  const Sampler sampler(10, 4, 0);
  EXPECT_EQ(sampler.PlaceOf(0, 0), (EpochPlace{0, 0}));
  EXPECT_EQ(sampler.PlaceOf(1, 3), (EpochPlace{0, 7}));
  EXPECT_EQ(sampler.PlaceOf(2, 1), (EpochPlace{0, 9}));
  EXPECT_EQ(sampler.PlaceOf(2, 2), (EpochPlace{1, 0}));  // the batch reaches over the end
  EXPECT_EQ(sampler.PlaceOf(25, 0), (EpochPlace{10, 0}));
}

}  // namespace
}  // namespace muster::worker
