#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "controller/model/cow_map.h"
#include "controller/model/cow_table.h"

namespace muster::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CowMapTest, ACopyKeepsWhatItHad) {
  CowMap<int> first;
  EXPECT_EQ(first.Find("a"), nullptr);
  first.Put("a", 1);
  CowMap<int> second = first;
  second.Put("a", 2);
  second.Put("b", 3);
  EXPECT_EQ(*first.Find("a"), 1);
  EXPECT_EQ(first.Find("b"), nullptr);
  EXPECT_EQ(*second.Find("a"), 2);
  EXPECT_EQ(*second.Find("b"), 3);
}

TEST(CowMapTest, IsAMap) {
  CowMap<uint64_t> map;
  std::map<std::string, uint64_t> model;
  for (uint64_t i = 0; i < 20'000; ++i) {
    const std::string key = "key-" + std::to_string(SplitMix64(i) % 5'000);
    map.Put(key, i);
    model[key] = i;
  }
  for (const auto& [key, value] : model) EXPECT_EQ(*map.Find(key), value);
  EXPECT_EQ(map.Find("key-5000"), nullptr);
}

TEST(CowTableTest, TellsWhichRowsAreOthers) {
  CowTable<int> first;
  first.Put(1, std::make_shared<const int>(1));
  first.Put(100, std::make_shared<const int>(100));
  CowTable<int> second = first;
  const auto changes = [&] {
    std::vector<uint64_t> ids;
    second.ForEachChange(first, [&ids](uint64_t id, const int*, const int*) { ids.push_back(id); });
    return ids;
  };
  EXPECT_THAT(changes(), IsEmpty());
  second.Put(100, std::make_shared<const int>(100));
  second.Put(500, std::make_shared<const int>(500));
  EXPECT_THAT(changes(), ElementsAre(100, 500));
  second.ForEachChange(first, [](uint64_t id, const int* before, const int* now) {
    EXPECT_EQ(before == nullptr, id == 500);
    EXPECT_EQ(*now, static_cast<int>(id));
  });
  second.ForEachChange(CowTable<int>(),
                       [](uint64_t, const int* before, const int*) { EXPECT_EQ(before, nullptr); });
}

}  // namespace
}  // namespace muster::controller
