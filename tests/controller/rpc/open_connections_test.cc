#include "controller/rpc/open_connections.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <atomic>
#include <thread>
#include <utility>

#include "common/base/unique_fd.h"

namespace muster::controller {
namespace {

std::pair<UniqueFd, UniqueFd> Sockets() {
  std::array<int, 2> fds = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// When sweeps are due.
absl::Duration Look(int number) { return absl::Hours(1) + number * OpenConnections::kSweepEvery; }

TEST(OpenConnectionsTest, WhatIsClosedIsForgottenAlsoWhenItsNumberIsAnothersNow) {
  OpenConnections open;
  auto [a, a_peer] = Sockets();
  auto [b, b_peer] = Sockets();
  open.Add(a.get(), {"10.0.0.1", "1"});
  open.Add(b.get(), {"10.0.0.2", "2"});
  open.Sweep(Look(1));
  EXPECT_EQ(open.size(), 2u);
  EXPECT_EQ(open.FromHost("10.0.0.1"), 1u);
  const int number = a.get();
  a.Reset();
  auto [c, c_peer] = Sockets();
  ASSERT_EQ(c.get(), number) << "the kernel gives the lowest number that is free";
  open.Sweep(Look(2));
  EXPECT_EQ(open.size(), 1u);
  EXPECT_EQ(open.FromHost("10.0.0.1"), 0u);
  open.Add(c.get(), {"10.0.0.2", "2"});
  EXPECT_EQ(open.FromHost("10.0.0.2"), 2u);
  b.Reset();
  c.Reset();
  open.Sweep(Look(3));
  EXPECT_EQ(open.size(), 0u);
}

TEST(OpenConnectionsTest, AFloodCostsNoSweepForEachThatIsRefused) {
  OpenConnections open;
  auto [a, a_peer] = Sockets();
  open.Add(a.get(), {"10.0.0.1", "1"});
  open.Sweep(Look(1));
  a.Reset();
  open.Sweep(Look(1) + absl::Milliseconds(1));
  open.Sweep(Look(2) - absl::Nanoseconds(1));
  EXPECT_EQ(open.size(), 1u) << "they were looked at a moment ago";
  open.Sweep(Look(2));
  EXPECT_EQ(open.size(), 0u);
}

TEST(OpenConnectionsTest, ANumberThatComesAgainBeforeASweepCountsOnce) {
  OpenConnections open;
  auto [a, a_peer] = Sockets();
  const int number = a.get();
  open.Add(number, {"10.0.0.1", "1"});
  a.Reset();
  auto [b, b_peer] = Sockets();
  ASSERT_EQ(b.get(), number);
  open.Add(number, {"10.0.0.2", "2"});
  EXPECT_EQ(open.size(), 1u);
  EXPECT_EQ(open.FromHost("10.0.0.1"), 0u);
  EXPECT_EQ(open.FromHost("10.0.0.2"), 1u);
}

TEST(OpenConnectionsTest, WhoMakesRoomHasMadeNoCallAndIsOfTheAddressThatHasMost) {
  OpenConnections open;
  auto [a, a_peer] = Sockets();
  auto [b, b_peer] = Sockets();
  auto [c, c_peer] = Sockets();
  auto [d, d_peer] = Sockets();
  open.Add(a.get(), {"10.0.0.1", "1"});
  open.Add(b.get(), {"10.0.0.2", "2"});
  open.Add(c.get(), {"10.0.0.2", "3"});
  open.Add(d.get(), {"fd00::1", "4"});
  open.Know("ipv4:10.0.0.2:2");
  open.Know("ipv6:%5Bfd00::1%5D:4");
  open.Know("ipv4:10.0.0.9:1");
  EXPECT_FALSE(open.MakeRoom("fd00::1")) << "its one is known";
  EXPECT_TRUE(open.MakeRoom("10.0.0.2"));
  EXPECT_EQ(open.leaving(), 1u);
  EXPECT_EQ(open.FromHost("10.0.0.2"), 1u);
  char byte = 0;
  EXPECT_EQ(::recv(c_peer.get(), &byte, 1, MSG_DONTWAIT), 0) << "it was told";
  EXPECT_TRUE(open.MakeRoom(""));
  EXPECT_EQ(::recv(a_peer.get(), &byte, 1, MSG_DONTWAIT), 0);
  EXPECT_FALSE(open.MakeRoom("")) << "all others are known";
  EXPECT_EQ(open.size(), 4u);
  a.Reset();
  c.Reset();
  open.Sweep(Look(1));
  EXPECT_EQ(open.size(), 2u);
  EXPECT_EQ(open.leaving(), 0u);
}

// Who got the number owes the table no lock: ThreadSanitizer is told so in tests/support/tsan.supp.
TEST(OpenConnectionsTest, ANumberMayBecomeAnothersWhileItIsAskedAbout) {
  OpenConnections open;
  std::atomic<bool> done{false};
  std::thread sweeps([&] {
    for (int i = 1; !done; ++i) open.Sweep(Look(i));
  });
  sockaddr_un nowhere = {};
  nowhere.sun_family = AF_UNIX;
  for (int i = 0; i < 300; ++i) {
    auto [a, a_peer] = Sockets();
    const int number = a.get();
    open.Add(number, {"10.0.0.1", "1"});
    a.Reset();
    const UniqueFd next(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(next.get(), number);
    EXPECT_NE(::connect(next.get(), reinterpret_cast<sockaddr*>(&nowhere), sizeof nowhere), 0);
  }
  done = true;
  sweeps.join();
  open.Sweep(absl::InfiniteDuration());
  EXPECT_EQ(open.size(), 0u);
}

TEST(OpenConnectionsTest, WithoutADescriptorToHoldItByNoneMakesRoom) {
  OpenConnections open;
  auto [a, a_peer] = Sockets();
  open.Add(a.get(), {"10.0.0.1", "1"});
  rlimit whole = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &whole), 0);
  rlimit none = whole;
  none.rlim_cur = 0;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_FALSE(open.MakeRoom(""));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &whole), 0);
  EXPECT_EQ(open.leaving(), 0u);
  EXPECT_TRUE(open.MakeRoom("")) << "its turn is not lost";
}

TEST(OpenConnectionsTest, IPv4OnASocketOfIPv6IsKnownAsGrpcWritesIt) {
  OpenConnections open;
  auto [a, a_peer] = Sockets();
  open.Add(a.get(), {"::ffff:10.0.0.1", "1"});
  open.Know("ipv4:10.0.0.1:1");
  EXPECT_FALSE(open.MakeRoom(""));
}

}  // namespace
}  // namespace muster::controller
