#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/rng.h"
#include "controller/model/tables/cow_map.h"
#include "controller/model/tables/cow_table.h"

namespace muster::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CowTableTest, WhatIsErasedIsGoneAndItsIdIsNotGivenAgain) {
  CowTable<int> first;
  for (uint64_t id = 1; id <= 200; ++id) first.Put(id, std::make_shared<const int>(id));
  CowTable<int> second = first;
  for (uint64_t id = 64; id < 128; ++id) second.Erase(id);
  second.Erase(100);  // once more
  second.Erase(5'000);
  EXPECT_EQ(first.size(), 200u);
  EXPECT_EQ(second.size(), 136u);
  EXPECT_EQ(second.Find(70), nullptr);
  EXPECT_EQ(*second.Find(128), 128);
  EXPECT_EQ(*first.Find(70), 70);
  EXPECT_EQ(second.last_id(), 200u);
  std::vector<uint64_t> gone;
  second.ForEachChange(first, [&](uint64_t id, const int* before, const int* now) {
    if (before != nullptr && now == nullptr) gone.push_back(id);
  });
  EXPECT_EQ(gone.size(), 64u);
  second.Put(201, std::make_shared<const int>(1));
  EXPECT_EQ(second.size(), 137u);
}

TEST(CowTableTest, TheNextRowIsFoundAcrossWhatIsErased) {
  CowTable<int> table;
  for (uint64_t id : {1, 2, 63, 64, 4'095, 4'096, 50'000}) {
    table.Put(id, std::make_shared<const int>(static_cast<int>(id)));
  }
  table.Erase(2);
  table.Erase(4'095);
  std::vector<uint64_t> up;
  for (uint64_t id = 0; (id = table.NextId(id)) != 0;) up.push_back(id);
  EXPECT_THAT(up, ElementsAre(1, 63, 64, 4'096, 50'000));
  std::vector<uint64_t> down;
  for (uint64_t id = table.last_id() + 1; (id = table.PreviousId(id)) != 0;) down.push_back(id);
  EXPECT_THAT(down, ElementsAre(50'000, 4'096, 64, 63, 1));
  EXPECT_EQ(table.NextId(~uint64_t{0}), 0u);
  EXPECT_EQ(table.PreviousId(~uint64_t{0}), 50'000u);
  EXPECT_EQ(table.PreviousId(0), 0u);
  table.SkipTo(60'000);
  EXPECT_EQ(table.last_id(), 60'000u);
  EXPECT_EQ(table.NextId(50'000), 0u);
  EXPECT_EQ(table.PreviousId(60'000), 50'000u);
  table.SkipTo(7);
  EXPECT_EQ(table.last_id(), 60'000u);
}

// As the outbox does: old rows go, and now and then one of them comes back.
TEST(CowTableTest, LowIdsLeaveAndComeBack) {
  CowTable<int> table;
  const auto row = std::make_shared<const int>(7);
  for (uint64_t id = 1; id <= 20'000; ++id) table.Put(id, row);
  CowTable<int> later = table;
  for (uint64_t id = 1; id <= 20'000; ++id) {
    if (id != 18'000) later.Erase(id);
  }
  EXPECT_EQ(later.NextId(0), 18'000u);
  EXPECT_EQ(later.PreviousId(18'000), 0u);
  size_t gone = 0;
  later.ForEachChange(table, [&](uint64_t, const int*, const int* now) { gone += now == nullptr; });
  EXPECT_EQ(gone, 19'999u);
  later.Put(3, row);
  EXPECT_EQ(later.NextId(0), 3u);
  EXPECT_EQ(later.PreviousId(18'000), 3u);
  std::vector<uint64_t> come;
  table.ForEachChange(later, [&](uint64_t id, const int* before, const int*) {
    if (before != nullptr) come.push_back(id);
  });
  EXPECT_THAT(come, IsEmpty()) << "both have the same rows there";
  later.Erase(3);
  later.Erase(18'000);
  EXPECT_EQ(later.size(), 0u);
  EXPECT_EQ(later.NextId(0), 0u);
  EXPECT_EQ(later.PreviousId(later.last_id() + 1), 0u);
  later.Put(20'001, row);
  EXPECT_EQ(later.NextId(0), 20'001u);
}

TEST(CowMapTest, WhatIsErasedIsGoneFromThisCopyAlone) {
  CowMap<int> first;
  for (int i = 0; i < 5'000; ++i) first.Put(std::to_string(i), i);
  CowMap<int> second = first;
  for (int i = 0; i < 5'000; i += 2) second.Erase(std::to_string(i));
  second.Erase("0");  // once more
  second.Erase("none");
  for (int i = 0; i < 5'000; ++i) {
    const int* left = second.Find(std::to_string(i));
    EXPECT_EQ(left != nullptr, i % 2 == 1) << i;
    ASSERT_NE(first.Find(std::to_string(i)), nullptr) << i;
  }
  second.Put("0", 7);
  EXPECT_EQ(*second.Find("0"), 7);
  EXPECT_EQ(*first.Find("0"), 0);
}

TEST(CowTableTest, AskingEndsAtTheFirstRowOfWhichItIsTrue) {
  CowTable<int> table;
  for (uint64_t id = 1; id <= 10'000; ++id) table.Put(id, std::make_shared<const int>(id));
  int asked = 0;
  const auto is_at_least = [&](int least) {
    asked = 0;
    return table.AnyOf([&](int row) { return ++asked > 0 && row >= least; });
  };
  EXPECT_TRUE(is_at_least(5'000));
  EXPECT_EQ(asked, 5'000);
  EXPECT_FALSE(is_at_least(10'001));
  EXPECT_EQ(asked, 10'000);
}

// The applier copies the tables of all events and jobs with each batch.
TEST(CowTableTest, ACopyOfALargeTableTakesLittleMemory) {
  const auto allocated = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  CowTable<int> first;
  const auto row = std::make_shared<const int>(7);
  for (uint64_t id = 1; id <= 1'000'000; ++id) first.Put(id, row);
  const size_t before = allocated();
  CowTable<int> second = first;
  second.Put(500'000, std::make_shared<const int>(8));
  EXPECT_LT(allocated() - before, 16u << 10);
  EXPECT_EQ(*second.Find(500'000), 8);
  EXPECT_EQ(*first.Find(500'000), 7);
}

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
  second.Put(9'000, std::make_shared<const int>(9'000));
  EXPECT_THAT(changes(), ElementsAre(100, 500, 9'000));
  second.ForEachChange(first, [](uint64_t id, const int* before, const int* now) {
    EXPECT_EQ(before == nullptr, id != 100);
    EXPECT_EQ(*now, static_cast<int>(id));
  });
  second.ForEachChange(CowTable<int>(),
                       [](uint64_t, const int* before, const int*) { EXPECT_EQ(before, nullptr); });
}

TEST(CowTableTest, ACopyKeepsWhatItHad) {
  CowTable<int> first;
  const auto put = [](CowTable<int>& table, uint64_t id, int value) {
    table.Put(id, std::make_shared<const int>(value));
  };
  put(first, 1, 10);
  put(first, 2, 20);  // in place
  CowTable<int> second = first;
  put(first, 1, 11);
  put(second, 2, 22);
  put(first, 3, 31);
  put(second, 3, 32);
  const CowTable<int> third = second;
  put(second, 1, 12);
  const auto rows = [](const CowTable<int>& table) {
    std::vector<int> all;
    table.ForEach([&all](int row) { all.push_back(row); });
    return all;
  };
  EXPECT_THAT(rows(first), ElementsAre(11, 20, 31));
  EXPECT_THAT(rows(second), ElementsAre(12, 22, 32));
  EXPECT_THAT(rows(third), ElementsAre(10, 22, 32));
  first = third;
  put(first, 1, 0);
  EXPECT_THAT(rows(third), ElementsAre(10, 22, 32));
  second = std::move(first);
  put(second, 2, 0);
  EXPECT_THAT(rows(second), ElementsAre(0, 0, 32));
}

TEST(CowTableTest, ManyCopiesAreAsManyTables) {
  constexpr uint64_t kIds = 300;
  constexpr uint64_t kApart = 97;  // so that they lie in many blocks and some branches
  std::vector<CowTable<uint64_t>> tables(1);
  std::vector<std::map<uint64_t, uint64_t>> models(1);
  for (uint64_t i = 0; i < 5'000; ++i) {
    const uint64_t dice = SplitMix64(i);
    const size_t at = dice % tables.size();
    if (dice % 7 == 0 && tables.size() < 50) {
      tables.push_back(CowTable<uint64_t>(tables[at]));
      models.push_back(std::map<uint64_t, uint64_t>(models[at]));
    } else if (dice % 11 == 0) {
      const size_t from = SplitMix64(dice) % tables.size();
      tables[at] = CowTable<uint64_t>(tables[from]);
      models[at] = std::map<uint64_t, uint64_t>(models[from]);
    } else {
      const uint64_t id = kApart * (1 + SplitMix64(dice) % kIds);
      tables[at].Put(id, std::make_shared<const uint64_t>(i));
      models[at][id] = i;
    }
  }
  for (size_t at = 0; at < tables.size(); ++at) {
    EXPECT_EQ(tables[at].size(), models[at].size());
    std::map<uint64_t, uint64_t> rows;
    for (uint64_t id = 1; id <= kApart * kIds; ++id) {
      if (const uint64_t* row = tables[at].Find(id); row != nullptr) rows[id] = *row;
    }
    EXPECT_EQ(rows, models[at]);
  }
}

// As the applier and the readers of its snapshots do; for ThreadSanitizer.
TEST(CowTableTest, AWriterChangesItsCopyWhileOthersReadAndDropTheirs) {
  auto published = std::make_shared<const CowTable<uint64_t>>();
  Mutex mutex;
  std::atomic<bool> over = false;
  const auto take = [&] {
    MutexLock lock(mutex);
    return published;
  };
  std::thread reader([&] {
    while (!over) {
      const auto table = take();
      uint64_t sum = 0;
      table->ForEach([&sum](uint64_t row) { sum += row; });
      EXPECT_EQ(sum % 3, 0u);
    }
  });
  for (uint64_t i = 0; i < 2'000; ++i) {
    auto next = std::make_shared<CowTable<uint64_t>>(*take());
    // Twice in the same block, and always three of a kind.
    for (const uint64_t id : {1 + i % 100, 1 + i % 100, 200 + i % 7}) {
      next->Put(id, std::make_shared<const uint64_t>(3 * i));
    }
    MutexLock lock(mutex);
    published = std::move(next);
  }
  over = true;
  reader.join();
}

TEST(CowMapTest, ManyCopiesAreAsManyMaps) {
  std::vector<CowMap<uint64_t>> maps(1);
  std::vector<std::map<std::string, uint64_t>> models(1);
  for (uint64_t i = 0; i < 5'000; ++i) {
    const uint64_t dice = SplitMix64(i);
    const size_t at = dice % maps.size();
    if (dice % 7 == 0 && maps.size() < 50) {
      maps.push_back(CowMap<uint64_t>(maps[at]));
      models.push_back(std::map<std::string, uint64_t>(models[at]));
    } else if (dice % 11 == 0) {
      const size_t from = SplitMix64(dice) % maps.size();
      maps[at] = CowMap<uint64_t>(maps[from]);
      models[at] = std::map<std::string, uint64_t>(models[from]);
    } else {
      const std::string key = "key-" + std::to_string(SplitMix64(dice) % 300);
      maps[at].Put(key, i);
      models[at][key] = i;
    }
  }
  for (size_t at = 0; at < maps.size(); ++at) {
    for (int i = 0; i < 300; ++i) {
      const std::string key = "key-" + std::to_string(i);
      const uint64_t* value = maps[at].Find(key);
      const auto expected = models[at].find(key);
      ASSERT_EQ(value != nullptr, expected != models[at].end());
      if (value == nullptr) continue;
      EXPECT_EQ(*value, expected->second);
    }
  }
}

}  // namespace
}  // namespace muster::controller
