#include "worker/dist/base/host_layout.h"

#include <gmock/gmock.h>

#include <future>

#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

using ::testing::HasSubstr;
using ::muster::testing::StatusIs;

HostLayoutOptions As(int rank, const std::string& address) {
  return {.rank = rank, .world_size = 2, .address = address, .timeout = absl::Seconds(10)};
}

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
  MemoryKeyValue store;
  ASSERT_OK(store.Set("host/1", "3f9c/pid:[4026531836]/10.0.0.2"));
  EXPECT_THAT(FindHosts(store, As(0, "10.0.0.1")).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("rank 1 runs another version of muster-trainer")));
}

}  // namespace
}  // namespace muster::worker
