#include "worker/dist/nccl_environment.h"

#include <gmock/gmock.h>
#include <stdlib.h>

namespace muster::worker {
namespace {

using ::testing::Contains;
using ::testing::IsSupersetOf;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StrEq;

const std::vector<InterfaceAddress> kInterfaces = {{"lo", "127.0.0.1"},
                                                   {"lo", "::1"},
                                                   {"docker0", "172.17.0.1"},
                                                   {"eth0", "10.0.0.7"},
                                                   {"eth0", "fe80::5054:ff:fe00:1%eth0"},
                                                   {"ib0", "10.0.1.7"},
                                                   {"ib0", "fd00::7"}};

TEST(NcclEnvironment, NamesTheInterfaceThatHasTheAdvertisedAddress) {
  const auto named = [](absl::string_view address) {
    return NcclEnvironment(address, kInterfaces)["NCCL_SOCKET_IFNAME"];
  };
  EXPECT_EQ(named("10.0.1.7"), "=ib0");
  EXPECT_EQ(named("10.0.0.7"), "=eth0");
  EXPECT_EQ(named("fd00:0:0::0007"), "=ib0");
  EXPECT_EQ(named("fe80::5054:ff:fe00:1"), "=eth0");
}

// A gang over several hosts, of which one is said to be reached over loopback, worked before.
TEST(NcclEnvironment, LeavesTheChoiceToNcclWhereNoInterfaceToOthersHasTheAddress) {
  for (const char* address : {"10.0.0.70", "10.0.0.", "", "gpu-1", "::", "127.0.0.1", "::1"})
    EXPECT_THAT(NcclEnvironment(address, kInterfaces), Not(Contains(Key("NCCL_SOCKET_IFNAME"))))
        << address;
}

TEST(NcclEnvironment, MakesErrorsOfLostRanksAndNotTheEndOfTheProcess) {
  EXPECT_THAT(NcclEnvironment("", {}), IsSupersetOf({Pair("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"),
                                                     Pair("TORCH_NCCL_ENABLE_MONITORING", "0"),
                                                     Pair("TORCH_NCCL_DUMP_ON_TIMEOUT", "0")}));
}

TEST(NcclEnvironment, KeepsWhatIsSet) {
  ::setenv("TORCH_NCCL_DUMP_ON_TIMEOUT", "1", 1);
  ::unsetenv("NCCL_SOCKET_IFNAME");
  ::unsetenv("TORCH_NCCL_ENABLE_MONITORING");
  for (const char* address : {"127.0.0.1", "localhost"}) {
    SetNcclEnvironment(address);
    EXPECT_THAT(::getenv("TORCH_NCCL_DUMP_ON_TIMEOUT"), StrEq("1"));
    EXPECT_THAT(::getenv("TORCH_NCCL_ENABLE_MONITORING"), StrEq("0"));
    EXPECT_EQ(::getenv("NCCL_SOCKET_IFNAME"), nullptr);
  }
}

}  // namespace
}  // namespace muster::worker
