#include "worker/dist/base/host_layout.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

HostLayoutOptions As(int rank, const std::string& address, int world_size = 2) {
  return {.rank = rank, .world_size = world_size, .address = address, .timeout = absl::Seconds(10)};
}

// Counts what the ranks ask.
class CountingStore final : public KeyValue {
 public:
  absl::Status Set(const std::string& key, const std::string& value) override {
    return store_.Set(key, value);
  }
  absl::StatusOr<std::string> Get(const std::string& key, absl::Duration timeout) override {
    ++gets;
    return store_.Get(key, timeout);
  }
  absl::StatusOr<int64_t> Add(const std::string& key, int64_t delta) override {
    return store_.Add(key, delta);
  }
  absl::StatusOr<bool> Check(const std::vector<std::string>& keys) override {
    return store_.Check(keys);
  }
  absl::StatusOr<bool> Delete(const std::string& key) override { return store_.Delete(key); }
  absl::Status Wait(const std::vector<std::string>& keys, absl::Duration timeout) override {
    return store_.Wait(keys, timeout);
  }
  absl::StatusOr<int64_t> Count() override { return store_.Count(); }

  std::atomic<int> gets = 0;

 private:
  MemoryKeyValue store_;
};

TEST(FindHosts, RanksOfOneKernelUnderOneAddressAreOnOneHost) {
  for (const char* other : {"10.0.0.1", "10.0.0.2"}) {
    MemoryKeyValue store;
    auto second = std::async(std::launch::async, [&] { return FindHosts(store, As(1, other)); });
    ASSERT_OK_AND_ASSIGN(const HostLayout first, FindHosts(store, As(0, "10.0.0.1")));
    EXPECT_EQ(first.Text(), other == std::string("10.0.0.1") ? "0-1" : "0,1");
    ASSERT_OK(second.get().status());
  }
}

// A trainer of before: it said nothing of a protocol, and would meet in other collectives.
TEST(FindHosts, ARankOfAnotherVersionIsNamed) {
  for (const int other : {0, 1}) {
    MemoryKeyValue store;
    ASSERT_OK(store.Set(absl::StrCat("host/", other), "3f9c/pid:[4026531836]/10.0.0.2"));
    EXPECT_THAT(FindHosts(store, As(1 - other, "10.0.0.1")).status(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr(absl::StrCat("rank ", other,
                                                " runs another version of muster-trainer"))));
  }
}

// One that says nothing of itself: over Gloo alone older ones did not.
TEST(FindHosts, ARankThatDoesNotComeIsNamed) {
  MemoryKeyValue store;
  HostLayoutOptions options = As(0, "10.0.0.1");
  options.timeout = absl::Milliseconds(20);
  EXPECT_THAT(FindHosts(store, options).status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("rank 1 did not come, or runs a muster-trainer that is too old")));
}

TEST(FindHosts, AllRanksGetTheSameLayoutAndAskAFewQuestionsEach) {
  constexpr int kRanks = 24;
  CountingStore store;
  std::vector<std::future<absl::StatusOr<HostLayout>>> found;
  for (int rank = 0; rank < kRanks; ++rank) {
    found.push_back(std::async(std::launch::async, [&store, rank] {
      return FindHosts(store, As(rank, absl::StrCat("10.0.0.", rank / 8), kRanks));
    }));
  }
  for (auto& each : found) {
    ASSERT_OK_AND_ASSIGN(const HostLayout layout, each.get());
    EXPECT_EQ(layout.Text(), "0-7,8-15,16-23");
  }
  EXPECT_LE(store.gets, 3 * kRanks);
}

}  // namespace
}  // namespace muster::worker
