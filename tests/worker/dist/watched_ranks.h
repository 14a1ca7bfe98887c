// Two ranks that watch each other, for tests of the backends that are given such a watch.
#pragma once

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <utility>

#include "tests/support/status_matchers.h"
#include "worker/dist/peer_watch.h"

namespace muster::worker {

class WatchedRanksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::future<void> second = std::async(std::launch::async, [&] { Join(1); });
    Join(0);
    second.get();
  }

  // Makes the rank's backend of its watch. Of both ranks at once.
  virtual void MakeRank(int rank, std::unique_ptr<PeerWatch> watch) = 0;

 private:
  void Join(int rank) {
    PeerWatchOptions options;
    options.connections.rank = rank;
    options.connections.world_size = 2;
    auto watch = PeerWatch::Join(store_, options);
    ASSERT_OK(watch.status());
    MakeRank(rank, *std::move(watch));
  }

  MemoryKeyValue store_;
};

}  // namespace muster::worker
