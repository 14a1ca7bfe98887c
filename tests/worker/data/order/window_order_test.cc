#include "worker/data/order/window_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "worker/data/order/sampler.h"

namespace muster::worker {
namespace {

TEST(WindowOrderTest, EachSampleComesOnceAnEpochWhateverTheSizes) {
  for (const uint64_t samples : {1u, 2u, 127u, 128u, 129u, 1000u, 1003u}) {
    for (const uint64_t batch : {1u, 7u, 32u, 2000u}) {
      for (const uint64_t window : {1u, 100u, 128u, 256u, 999u, 5000u}) {
        const WindowOrder order(samples, batch, window, /*seed=*/3);
        for (uint64_t epoch = 0; epoch < 3; ++epoch) {
          std::set<uint64_t> seen;
          for (uint64_t place = 0; place < samples; ++place)
            seen.insert(order.At(epoch * samples + place));
          ASSERT_EQ(seen.size(), samples) << samples << " " << batch << " " << window;
          ASSERT_LT(*seen.rbegin(), samples);
        }
      }
    }
  }
}

TEST(WindowOrderTest, AWindowHasNoMoreBlocksThanItSays) {
  constexpr uint64_t kSamples = 100'000, kWindow = 12'800, kBlock = kWindow / 128;
  const WindowOrder order(kSamples, 64, kWindow, 3);
  ASSERT_EQ(order.window(), kWindow);
  for (uint64_t window = 0; window < kSamples / kWindow; ++window) {
    std::set<uint64_t> blocks;
    for (uint64_t i = 0; i < kWindow; ++i) blocks.insert(order.At(window * kWindow + i) / kBlock);
    EXPECT_EQ(blocks.size(), WindowOrder::kBlocksPerWindow);
  }
}

TEST(WindowOrderTest, EpochsAndSeedsDiffer) {
  const auto first = [](uint64_t seed, uint64_t from) {
    const WindowOrder order(5000, 10, 1280, seed);
    std::vector<uint64_t> places;
    for (uint64_t i = 0; i < 100; ++i) places.push_back(order.At(from + i));
    return places;
  };
  EXPECT_EQ(first(1, 0), first(1, 0));
  EXPECT_NE(first(1, 0), first(2, 0));
  EXPECT_NE(first(1, 0), first(1, 5000));
  EXPECT_NE(first(1, 0), first(1, 1280));
}

// Fixed for ever: a resumed run must go on in the order that it started with.
TEST(WindowOrderTest, TheOrderIsTheOneThatCheckpointsWereWrittenWith) {
  const WindowOrder order(1258, 32, 256, 7);
  std::vector<uint64_t> places;
  for (uint64_t i = 1300; i < 1308; ++i) places.push_back(order.At(i));
  EXPECT_EQ(places, (std::vector<uint64_t>{729, 1208, 116, 1174, 325, 192, 168, 788}));
}

// What several machines fetch from afar: each its part, whatever their number. Neighbouring ranks
// may share a block, and batches reach over the ends of windows.
TEST(WindowOrderTest, RanksTogetherReadEachPieceOfStorageOnce) {
  constexpr uint64_t kSamples = 65'536, kBatch = 64, kWindow = 8192, kPiece = 16;
  const Sampler sampler(kSamples, kBatch, 5, {.window = kWindow});
  for (const uint32_t world : {1u, 2u, 4u, 8u}) {
    uint64_t pieces = 0;
    for (uint32_t rank = 0; rank < world; ++rank) {
      std::set<int64_t> of_rank;
      for (uint64_t step = 0; step < kSamples / kBatch; ++step) {
        for (const int64_t place : sampler.Ids(step, rank, world))
          of_rank.insert(place / static_cast<int64_t>(kPiece));
      }
      pieces += of_rank.size();
    }
    EXPECT_LE(pieces, kSamples / kPiece + kSamples / kWindow * (world - 1)) << world;
  }
}

TEST(WindowOrderTest, ABatchIsOfManyBlocks) {
  const Sampler sampler(100'000, 64, 5, {.window = 12'800});
  for (const uint64_t step : {0u, 7u, 150u}) {
    std::set<int64_t> blocks;
    for (const int64_t place : sampler.Ids(step, 0, 1)) blocks.insert(place / 100);
    EXPECT_GE(blocks.size(), 60u);
  }
}

TEST(WindowOrderTest, AnyWorldSizeSeesTheSameBatchesAndAWindowOfAllIsNone) {
  const Sampler windows(1000, 48, 5, {.window = 256});
  EXPECT_TRUE(windows.in_windows());
  EXPECT_EQ(windows.steps_in_window(), 6u);
  for (uint64_t step = 0; step < 50; ++step) {
    const std::vector<int64_t> one = windows.Ids(step, 0, 1);
    for (const uint32_t world : {2u, 3u, 5u, 7u}) {
      std::vector<int64_t> all;
      for (uint32_t rank = 0; rank < world; ++rank) {
        const std::vector<int64_t> part = windows.Ids(step, rank, world);
        all.insert(all.end(), part.begin(), part.end());
      }
      ASSERT_EQ(all, one);
    }
  }
  const Sampler whole(1000, 48, 5, {.window = 1000});
  EXPECT_FALSE(whole.in_windows());
  EXPECT_EQ(whole.Ids(3, 0, 1), Sampler(1000, 48, 5).Ids(3, 0, 1));
}

}  // namespace
}  // namespace muster::worker
