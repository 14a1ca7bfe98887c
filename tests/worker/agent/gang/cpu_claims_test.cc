#include "worker/agent/gang/cpu_claims.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <string>

namespace muster::worker {
namespace {

TEST(CpuClaims, NoTwoHoldersShareACpuUntilOneIsGone) {
  const std::string space = "muster-test-" + std::to_string(::getpid()) + "-";
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  const uint32_t all = static_cast<uint32_t>(CPU_COUNT(&allowed));
  EXPECT_TRUE(ClaimCpus(0, space.c_str()).cpus.empty());
  EXPECT_TRUE(ClaimCpus(all + 1, space.c_str()).cpus.empty());
  {
    const CpuClaim first = ClaimCpus(all, space.c_str());
    ASSERT_EQ(first.cpus.size(), all);
    for (const int cpu : first.cpus) EXPECT_TRUE(CPU_ISSET(cpu, &allowed)) << cpu;
    EXPECT_TRUE(ClaimCpus(1, space.c_str()).cpus.empty());
  }
  EXPECT_EQ(ClaimCpus(1, space.c_str()).cpus.size(), 1u);
}

}  // namespace
}  // namespace muster::worker
