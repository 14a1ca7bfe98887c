#include "worker/agent/gang/port_holder.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <set>
#include <vector>

#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

// A server's socket on loopback. True when it listens.
bool Listens(uint16_t port, bool reuse, UniqueFd* kept = nullptr) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = reuse ? 1 : 0;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const bool listens =
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(socket.get(), 1) == 0;
  if (kept != nullptr) *kept = std::move(socket);
  return listens;
}

TEST(PortHolder, TheGangsOwnServerGetsTheHeldPort) {
  ASSERT_OK_AND_ASSIGN(const HeldPort held, HoldPort());
  EXPECT_GT(held.port, 0);
  EXPECT_TRUE(Listens(held.port, /*reuse=*/true));
}

TEST(PortHolder, NobodyWhoAsksForAnyPortGetsAHeldOne) {
  // Enough of them that a port handed out twice would be seen.
  std::vector<HeldPort> held;
  std::set<uint16_t> ports;
  for (int i = 0; i < 500; ++i) {
    ASSERT_OK_AND_ASSIGN(HeldPort one, HoldPort());
    EXPECT_TRUE(ports.insert(one.port).second) << one.port;
    held.push_back(std::move(one));
  }
  EXPECT_FALSE(Listens(held.front().port, /*reuse=*/false));
}

TEST(PortHolder, APortIsFreeAgainWhenItsHolderIsGone) {
  uint16_t port = 0;
  {
    ASSERT_OK_AND_ASSIGN(const HeldPort held, HoldPort());
    port = held.port;
  }
  EXPECT_TRUE(Listens(port, /*reuse=*/false));
}

}  // namespace
}  // namespace muster::worker
