#include "common/os/eviction_order.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(EvictionOrderTest, TheOldestOfTheAddressThatHasMostIsNext) {
  EvictionOrder order;
  EXPECT_EQ(order.Next(), std::nullopt);
  order.Add(1, "guest");
  for (int fd = 2; fd < 5; ++fd) order.Add(fd, "crowd");
  EXPECT_EQ(order.Next(), 2);
  EXPECT_EQ(order.NextOf("guest"), 1);
  EXPECT_EQ(order.NextOf("nobody"), std::nullopt);
  order.Remove(2);
  EXPECT_EQ(order.Next(), 3);
  order.Remove(3);
  order.Remove(4);
  EXPECT_EQ(order.Next(), 1);
  order.Remove(1);
  order.Remove(1);
  EXPECT_EQ(order.Next(), std::nullopt);
  EXPECT_EQ(order.size(), 0u);
}

TEST(EvictionOrderTest, ANumberThatComesAgainIsTheNewConnections) {
  EvictionOrder order;
  order.Add(1, "one");
  order.Add(2, "one");
  order.Add(1, "other");
  EXPECT_EQ(order.size(), 2u);
  EXPECT_EQ(order.NextOf("one"), 2);
  EXPECT_EQ(order.NextOf("other"), 1);
}

TEST(EvictionOrderTest, AGuestOutlastsAFloodFromManyAddresses) {
  EvictionOrder order;
  order.Add(0, "guest");
  for (int fd = 1; fd < 10'000; ++fd) {
    order.Add(fd, "flood-" + std::to_string(fd % 100));
    if (order.size() > 200) order.Remove(*order.Next());
  }
  EXPECT_EQ(order.NextOf("guest"), 0);
}

}  // namespace
}  // namespace muster
