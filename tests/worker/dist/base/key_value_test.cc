#include "worker/dist/base/key_value.h"

#include <thread>

#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

using muster::testing::StatusIs;

TEST(MemoryKeyValue, SetsGetsAddsAndDeletes) {
  MemoryKeyValue store;
  ASSERT_OK(store.Set("a", "x"));
  EXPECT_EQ(*store.Get("a", absl::ZeroDuration()), "x");
  EXPECT_EQ(*store.Add("n", 2), 2);
  EXPECT_EQ(*store.Add("n", 3), 5);
  EXPECT_EQ(*store.Get("n", absl::ZeroDuration()), "5");
  EXPECT_TRUE(*store.Check({"a", "n"}));
  EXPECT_FALSE(*store.Check({"a", "b"}));
  EXPECT_EQ(*store.Count(), 2);
  EXPECT_TRUE(*store.Delete("a"));
  EXPECT_FALSE(*store.Delete("a"));
}

TEST(MemoryKeyValue, GetOfAKeyThatNeverComesRunsIntoItsDeadline) {
  MemoryKeyValue store;
  EXPECT_THAT(store.Get("a", absl::Milliseconds(5)), StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST(MemoryKeyValue, AddToTextIsRefused) {
  MemoryKeyValue store;
  ASSERT_OK(store.Set("a", "text"));
  EXPECT_THAT(store.Add("a", 1), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(MemoryKeyValue, WaitingGetSeesALaterSet) {
  MemoryKeyValue store;
  std::thread setter([&store] { ASSERT_OK(store.Set("late", "here")); });
  EXPECT_EQ(*store.Get("late", absl::Seconds(30)), "here");
  setter.join();
}

}  // namespace
}  // namespace muster::worker
