#include "worker/dist/peer_watch.h"

#include <gmock/gmock.h>
#include <netdb.h>
#include <sys/socket.h>

#include <future>
#include <thread>

#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

using WatchOr = absl::StatusOr<std::unique_ptr<PeerWatch>>;
using ::testing::HasSubstr;

PeerWatchOptions As(int rank, int world, absl::Duration timeout = absl::Minutes(1)) {
  PeerWatchOptions options;
  options.connections = {.rank = rank, .world_size = world, .timeout = timeout, .prefix = "g/"};
  for (int peer = 0; peer < world; ++peer) options.names.push_back(10 * peer);
  return options;
}

// The watches of all ranks, whose threads are gone.
std::vector<WatchOr> JoinAll(int world) {
  MemoryKeyValue store;
  std::vector<std::future<WatchOr>> joining;
  for (int rank = 0; rank < world; ++rank) {
    joining.push_back(std::async(std::launch::async, [&store, rank, world] {
      return PeerWatch::Join(store, As(rank, world));
    }));
  }
  std::vector<WatchOr> watches;
  for (auto& one : joining) watches.push_back(one.get());
  return watches;
}

// What the peer did arrives a moment later.
absl::Status CheckUntilLoss(PeerWatch& watch, uint64_t operation) {
  absl::Status status;
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (status.ok() && absl::Now() < deadline) status = watch.Check(operation);
  return status;
}

TEST(PeerWatch, NobodyIsMissedWhileAllAreThere) {
  std::vector<WatchOr> watches = JoinAll(4);
  for (WatchOr& watch : watches) {
    ASSERT_OK(watch.status());
    EXPECT_OK((*watch)->Check(1));
  }
}

TEST(PeerWatch, ARankThatGoesWithoutAWordIsNamedByAllOthers) {
  std::vector<WatchOr> watches = JoinAll(3);
  for (WatchOr& watch : watches) ASSERT_OK(watch.status());
  watches[1]->reset();
  for (const int rank : {0, 2}) {
    const absl::Status lost = CheckUntilLoss(**watches[rank], 1);
    EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
    EXPECT_THAT(lost.message(), HasSubstr("rank 10 died"));
  }
}

TEST(PeerWatch, ARankThatLeftIsMissedOnlyInOperationsThatItDidNotEnd) {
  std::vector<WatchOr> watches = JoinAll(2);
  for (WatchOr& watch : watches) ASSERT_OK(watch.status());
  (*watches[1])->Leave(7);
  const absl::Status left = CheckUntilLoss(**watches[0], 8);
  EXPECT_TRUE(absl::IsUnavailable(left)) << left;
  EXPECT_THAT(left.message(), HasSubstr("rank 10 has left"));
  EXPECT_OK((*watches[0])->Check(7));
}

TEST(PeerWatch, TheOneThatDiedIsNamedAndNotThoseThatLeftBecauseOfIt) {
  std::vector<WatchOr> watches = JoinAll(3);
  for (WatchOr& watch : watches) ASSERT_OK(watch.status());
  watches[2]->reset();
  EXPECT_FALSE(CheckUntilLoss(**watches[0], 1).ok());
  (*watches[0])->Leave(0);
  EXPECT_THAT(CheckUntilLoss(**watches[1], 1).message(), HasSubstr("rank 20 died"));
}

TEST(PeerWatch, ARankThatDoesNotComeIsADeadlineAndOneThatCameAndWentIsUnavailable) {
  MemoryKeyValue store;
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(PeerWatch::Join(store, As(1, 2, absl::Milliseconds(20))).status()));
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(PeerWatch::Join(store, As(0, 2, absl::Milliseconds(20))).status()));
  EXPECT_TRUE(absl::IsUnavailable(PeerWatch::Join(store, As(1, 2)).status()));
}

// Connects to where rank 0 listens, and says `words`.
UniqueFd Stranger(KeyValue& store, const std::string& words) {
  const std::vector<std::string> card =
      absl::StrSplit(store.Get("g/watch/0", absl::Minutes(1)).value(), ' ');
  addrinfo wanted = {}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  EXPECT_EQ(::getaddrinfo(card[1].c_str(), card[2].c_str(), &wanted, &found), 0);
  UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(fd.get(), found->ai_addr, found->ai_addrlen), 0);
  ::freeaddrinfo(found);
  EXPECT_EQ(::send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(words.size()));
  return fd;
}

TEST(PeerWatch, StrangersAreNoRanksAndHoldNobodyUp) {
  MemoryKeyValue store;
  std::future<WatchOr> first =
      std::async(std::launch::async, [&] { return PeerWatch::Join(store, As(0, 2)); });
  const UniqueFd silent = Stranger(store, "");
  const UniqueFd brief = Stranger(store, "GET");
  const UniqueFd wrong = Stranger(store, "GET / HTTP/1.1\r\nHost: somebody\r\n");
  const WatchOr second = PeerWatch::Join(store, As(1, 2));
  ASSERT_OK(second.status());
  const WatchOr watch = first.get();
  ASSERT_OK(watch.status());
  EXPECT_OK((*watch)->Check(1));
  (*second)->Leave(0);
  EXPECT_THAT(CheckUntilLoss(**watch, 1).message(), HasSubstr("rank 10 has left"));
}

}  // namespace
}  // namespace muster::worker
