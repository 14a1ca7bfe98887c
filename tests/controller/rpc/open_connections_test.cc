#include "controller/rpc/open_connections.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
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
  open.Add(a.get(), "one");
  open.Add(b.get(), "two");
  open.Sweep(Look(1));
  EXPECT_EQ(open.size(), 2u);
  EXPECT_EQ(open.FromHost("one"), 1u);
  const int number = a.get();
  a.Reset();
  auto [c, c_peer] = Sockets();
  ASSERT_EQ(c.get(), number) << "the kernel gives the lowest number that is free";
  open.Sweep(Look(2));
  EXPECT_EQ(open.size(), 1u);
  EXPECT_EQ(open.FromHost("one"), 0u);
  open.Add(c.get(), "two");
  EXPECT_EQ(open.FromHost("two"), 2u);
  b.Reset();
  c.Reset();
  open.Sweep(Look(3));
  EXPECT_EQ(open.size(), 0u);
}

TEST(OpenConnectionsTest, AFloodCostsNoSweepForEachThatIsRefused) {
  OpenConnections open;
  auto [a, a_peer] = Sockets();
  open.Add(a.get(), "one");
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
  open.Add(number, "one");
  a.Reset();
  auto [b, b_peer] = Sockets();
  ASSERT_EQ(b.get(), number);
  open.Add(number, "two");
  EXPECT_EQ(open.size(), 1u);
  EXPECT_EQ(open.FromHost("one"), 0u);
  EXPECT_EQ(open.FromHost("two"), 1u);
}

}  // namespace
}  // namespace muster::controller
