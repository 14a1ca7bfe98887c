// Ranks that are processes: killed, stopped and refused memory.
#include "worker/dist/shared_memory/shared_memory_gang.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>

#include "absl/strings/match.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/dist/forked_ranks.h"

namespace muster::worker {
namespace {

using muster::testing::FolderKeyValue;
using muster::testing::ForkedRanks;
using GangOr = absl::StatusOr<std::unique_ptr<SharedMemoryGang>>;
using GangBody = std::function<absl::Status(KeyValue&, const SharedMemoryGangOptions&)>;

// Forks `world` ranks, each of which runs `body` and tells the code of its status.
class Ranks : public ForkedRanks {
 public:
  Ranks(int world, absl::Duration timeout, const GangBody& body)
      : ForkedRanks(world, [&](const std::shared_ptr<FolderKeyValue>& store, int rank) {
          return body(*store,
                      {.rank = rank, .world_size = world, .timeout = timeout, .prefix = "g/"});
        }) {}
};

// Turns for ever; says in the store when a few are done, so that the test may strike.
absl::Status TurnForEver(KeyValue& store, const SharedMemoryGangOptions& options) {
  GangOr gang = SharedMemoryGang::Join(store, options);
  if (!gang.ok()) return gang.status();
  for (uint64_t turn = 0;; ++turn) {
    std::memset((*gang)->mine(), static_cast<int>(turn), SharedMemoryGang::kSlotBytes);
    const absl::Status status = (*gang)->Exchange(turn);
    if (!status.ok()) return status;
    for (int rank = 0; rank < options.world_size; ++rank) {
      if ((*gang)->of(rank)[turn % SharedMemoryGang::kSlotBytes] != static_cast<char>(turn))
        return absl::DataLossError("a slot was overwritten before it was read");
    }
    if (turn == 20) (void)store.Set(absl::StrCat("running", options.rank), "");
  }
}

TEST(SharedMemoryGang, ARankKilledInTheMiddleFailsTheOthersAtOnce) {
  for (const int world : {2, 4}) {
    Ranks ranks(world, absl::Minutes(5), TurnForEver);
    for (int rank = 0; rank < world; ++rank)
      ASSERT_OK(ranks.store().Get(absl::StrCat("running", rank), absl::Minutes(1)));
    const absl::Time killed = absl::Now();
    ranks.Signal(1, SIGKILL);
    // Long before the timeout of five minutes, and while nobody has waited for the dead one.
    for (int rank = 0; rank < world; ++rank) {
      if (rank == 1) continue;
      EXPECT_EQ(ranks.Wait(rank), absl::StatusCode::kUnavailable);
    }
    std::printf("%d ranks: all had failed %s after the kill\n", world,
                absl::FormatDuration(absl::Now() - killed).c_str());
  }
}

TEST(SharedMemoryGang, ARankThatStandsStillRunsIntoTheDeadline) {
  Ranks ranks(2, absl::Milliseconds(300), TurnForEver);
  for (int rank = 0; rank < 2; ++rank)
    ASSERT_OK(ranks.store().Get(absl::StrCat("running", rank), absl::Minutes(1)));
  ranks.Signal(1, SIGSTOP);
  EXPECT_EQ(ranks.Wait(0), absl::StatusCode::kDeadlineExceeded);
}

TEST(SharedMemoryGang, MemoryThatIsRefusedIsAnErrorOnAllRanksAndNoSignal) {
  Ranks ranks(3, absl::Minutes(1), [](KeyValue& store, const SharedMemoryGangOptions& options) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit small = {1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &small);
    return SharedMemoryGang::Join(store, options).status();
  });
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(ranks.Wait(rank), absl::StatusCode::kFailedPrecondition);
}

// The card of one rank comes from elsewhere.
class OtherHost final : public KeyValue {
 public:
  explicit OtherHost(KeyValue& store) : store_(store) {}
  absl::Status Set(const std::string& key, const std::string& value) override {
    return store_.Set(key, absl::StrContains(key, "card") ? "other-" + value : value);
  }
  absl::StatusOr<std::string> Get(const std::string& key, absl::Duration timeout) override {
    return store_.Get(key, timeout);
  }
  absl::StatusOr<int64_t> Add(const std::string& k, int64_t n) override { return store_.Add(k, n); }
  absl::StatusOr<bool> Check(const std::vector<std::string>& k) override { return store_.Check(k); }
  absl::StatusOr<bool> Delete(const std::string& key) override { return store_.Delete(key); }
  absl::Status Wait(const std::vector<std::string>& keys, absl::Duration timeout) override {
    return store_.Wait(keys, timeout);
  }
  absl::StatusOr<int64_t> Count() override { return store_.Count(); }

 private:
  KeyValue& store_;
};

TEST(SharedMemoryGang, RanksOfTwoHostsAreRefusedOnAllOfThem) {
  Ranks ranks(3, absl::Minutes(1), [](KeyValue& store, const SharedMemoryGangOptions& options) {
    OtherHost elsewhere(store);
    KeyValue& mine = options.rank == 2 ? elsewhere : store;
    return SharedMemoryGang::Join(mine, options).status();
  });
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(ranks.Wait(rank), absl::StatusCode::kFailedPrecondition);
}

TEST(SharedMemoryGang, LeavesNothingByWhichTheMemoryCouldOutliveIt) {
  Ranks ranks(2, absl::Minutes(1), [](KeyValue& store, const SharedMemoryGangOptions& options) {
    const GangOr gang = SharedMemoryGang::Join(store, options);
    if (!gang.ok()) return gang.status();
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      const std::string target = std::filesystem::read_symlink(entry, error).string();
      if (absl::StrContains(target, "muster-gang")) return absl::InternalError(target);
    }
    return absl::OkStatus();
  });
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(ranks.Wait(rank), absl::StatusCode::kOk);
}

}  // namespace
}  // namespace muster::worker
