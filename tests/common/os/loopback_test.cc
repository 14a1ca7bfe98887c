#include "common/os/loopback.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(Loopback, IsWhatStaysWithinTheMachine) {
  for (const char* host : {"127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"", "0.0.0.0", "::", "10.0.0.1", "example.org", "128.0.0.1",
                           "127.example.org", "localhost.example.org", "[::1", "127.0.0.1.org"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

TEST(Loopback, AnAddressMayHaveAPort) {
  for (const char* address : {"127.0.0.1:9100", "[::1]:9100", "localhost:1", "::1", "127.0.0.1"}) {
    EXPECT_TRUE(IsLoopbackAddress(address)) << address;
  }
  for (const char* address : {"10.0.0.1:9100", "127.example.org:1", "[::2]:9100", ":9100"}) {
    EXPECT_FALSE(IsLoopbackAddress(address)) << address;
  }
}

}  // namespace
}  // namespace muster
