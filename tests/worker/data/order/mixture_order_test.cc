#include "worker/data/order/mixture_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "worker/data/order/sampler.h"

namespace muster::worker {
namespace {

constexpr uint64_t kBlock = MixtureOrder::kBlock;

// How many of [begin, end) are of each source.
std::vector<uint64_t> Count(const MixtureOrder& order, const std::vector<uint64_t>& sizes,
                            uint64_t begin, uint64_t end) {
  std::vector<uint64_t> counts(sizes.size(), 0);
  for (uint64_t position = begin; position < end; ++position) {
    uint64_t id = order.At(position);
    size_t source = 0;
    for (; source < sizes.size() && id >= sizes[source]; ++source) id -= sizes[source];
    EXPECT_LT(source, sizes.size());
    ++counts[source];
  }
  return counts;
}

TEST(MixtureOrderTest, EachBlockHasTheSharesExactly) {
  const std::vector<uint64_t> sizes = {100, 5000, 7};
  const MixtureOrder order(sizes, {{0, {2, 1, 1}}}, 0, 9);
  for (uint64_t block = 0; block < 5; ++block) {
    EXPECT_EQ(Count(order, sizes, block * kBlock, (block + 1) * kBlock),
              (std::vector<uint64_t>{2048, 1024, 1024}));
  }
}

TEST(MixtureOrderTest, APartOfABlockIsMixedToo) {
  const std::vector<uint64_t> sizes = {1000, 1000};
  const MixtureOrder order(sizes, {{0, {3, 1}}}, 0, 9);
  for (uint64_t begin = 0; begin < 4000; begin += 256) {
    const uint64_t first = Count(order, sizes, begin, begin + 256)[0];
    EXPECT_GT(first, 150u);
    EXPECT_LT(first, 235u);
  }
}

// Sizes that divide a block's share: then no pass reaches over a block.
TEST(MixtureOrderTest, ASampleComesAgainWhenAllOthersOfItsSourceHaveCome) {
  const std::vector<uint64_t> sizes = {1024, 512};
  const MixtureOrder order(sizes, {{0, {1, 1}}}, 0, 9);
  for (uint64_t block = 0; block < 4; ++block) {
    std::map<uint64_t, int> times;
    for (uint64_t i = 0; i < kBlock; ++i) ++times[order.At(block * kBlock + i)];
    ASSERT_EQ(times.size(), 1536u);
    for (const auto& [id, count] : times) EXPECT_EQ(count, id < 1024 ? 2 : 4) << id;
  }
}

TEST(MixtureOrderTest, PassesGoOnThroughTheWeightsOfACurriculum) {
  const std::vector<uint64_t> sizes = {3000, 2000};
  // The phases end inside of blocks.
  const MixtureOrder order(sizes, {{0, {1, 0}}, {5000, {1, 3}}, {15'001, {0, 1}}}, 0, 9);
  EXPECT_EQ(Count(order, sizes, 0, 5000), (std::vector<uint64_t>{5000, 0}));
  EXPECT_EQ(Count(order, sizes, 5000, 15'001), (std::vector<uint64_t>{2500, 7501}));
  EXPECT_EQ(Count(order, sizes, 15'001, 20'000), (std::vector<uint64_t>{0, 4999}));
  // No sample is passed over: of each source every number of draws up to the last was drawn.
  std::map<uint64_t, uint64_t> times;
  for (uint64_t position = 0; position < 15'001; ++position) ++times[order.At(position)];
  for (uint64_t id = 0; id < 5000; ++id) {
    const uint64_t draws = id < 3000 ? 7500 : 7501, size = id < 3000 ? 3000 : 2000;
    EXPECT_GE(times[id], draws / size) << id;
    EXPECT_LE(times[id], draws / size + 1) << id;
  }
}

TEST(MixtureOrderTest, ASmallWeightIsNotNone) {
  const std::vector<uint64_t> sizes = {10, 10, 10};
  const MixtureOrder order(sizes, {{0, {1e6, 1, 0}}}, 0, 9);
  EXPECT_EQ(Count(order, sizes, 0, kBlock), (std::vector<uint64_t>{kBlock - 1, 1, 0}));
}

TEST(MixtureOrderTest, ManySourcesOfAnyWeightsFillEveryBlock) {
  std::vector<uint64_t> sizes;
  std::vector<double> weights;
  for (int i = 0; i < 300; ++i) {
    sizes.push_back(static_cast<uint64_t>(i + 1));
    weights.push_back(i % 3 == 0 ? 1e-9 : std::exp(i * 0.05));
  }
  const MixtureOrder order(sizes, {{0, weights}, {100, weights}}, 0, 9);
  for (uint64_t position = 0; position < 3 * kBlock; ++position)
    ASSERT_LT(order.At(position), 300u * 301 / 2);
}

TEST(MixtureOrderTest, WindowsPassThroughEachSource) {
  const std::vector<uint64_t> sizes = {2048, 100};
  const MixtureOrder order(sizes, {{0, {1, 1}}}, 256, 9);
  std::map<uint64_t, int> times;
  for (uint64_t i = 0; i < kBlock; ++i) ++times[order.At(i)];
  for (uint64_t id = 0; id < 2048; ++id) EXPECT_EQ(times[id], 1) << id;
  EXPECT_EQ(times.size(), 2148u);
}

// Fixed for ever: a resumed run must go on in the order that it started with.
TEST(MixtureOrderTest, TheOrderIsTheOneThatCheckpointsWereWrittenWith) {
  const MixtureOrder order({1000, 258}, {{0, {1, 3}}, {5000, {3, 1}}}, 0, 7);
  std::vector<uint64_t> ids;
  for (uint64_t i = 4996; i < 5004; ++i) ids.push_back(order.At(i));
  EXPECT_EQ(ids, (std::vector<uint64_t>{1128, 1096, 1088, 1158, 1175, 699, 385, 485}));
}

TEST(MixtureOrderTest, AnyWorldSizeSeesTheSameBatches) {
  const Sampler sampler(1258, 48, 5, {.source_sizes = {1000, 258}, .phases = {{0, {1, 3}}}});
  EXPECT_FALSE(sampler.in_windows());
  for (uint64_t step = 0; step < 100; ++step) {
    const std::vector<int64_t> one = sampler.Ids(step, 0, 1);
    for (const uint32_t world : {2u, 3u, 5u, 7u}) {
      std::vector<int64_t> all;
      for (uint32_t rank = 0; rank < world; ++rank) {
        const std::vector<int64_t> part = sampler.Ids(step, rank, world);
        all.insert(all.end(), part.begin(), part.end());
      }
      ASSERT_EQ(all, one);
    }
  }
}

}  // namespace
}  // namespace muster::worker
