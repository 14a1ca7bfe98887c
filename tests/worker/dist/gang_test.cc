#include "worker/dist/gang.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include "tests/support/status_matchers.h"
#include "tests/worker/dist/gang.h"
#include "worker/train/run/failure.h"
#include "worker/train/step/torch_guard.h"

namespace muster::worker {
namespace {

using muster::testing::RunGang;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::StartsWith;

absl::StatusOr<double> SumOver(Collectives& gang, double mine) {
  return TorchGuardOr([&]() -> absl::StatusOr<double> {
    at::Tensor value = at::full({4}, mine, at::kDouble);
    gang.AllReduceSum(value);
    return value[3].item<double>();
  });
}

// Of three ranks the second leaves; whoever keeps a reference to the gang talks to the others.
TEST(Gang, IsFormedAnewByThoseWhoStay) {
  for (const Transport transport : {Transport::kGloo, Transport::kSharedMemory}) {
    const auto store = std::make_shared<MemoryKeyValue>();
    std::vector<double> sums(3);
    const auto body = [&](std::unique_ptr<Gang> gang) {
      const int rank = gang->rank();
      Collectives& kept = *gang;
      EXPECT_EQ(*SumOver(kept, rank), 3.0);
      if (rank == 1) return;
      EXPECT_EQ(FailureClassOf(SumOver(kept, rank).status()), kPeerLost);
      CollectivesOptions options;
      options.rank = rank / 2;
      options.world_size = 2;
      options.timeout = absl::Minutes(1);
      options.prefix = "second/";
      options.transport = transport;
      ASSERT_OK(gang->Reform(store, options));
      EXPECT_EQ(kept.rank(), rank / 2);
      EXPECT_EQ(kept.world_size(), 2);
      sums[rank] = *SumOver(kept, rank + 10.0);
      std::string text = rank == 2 ? "from the last" : "";
      kept.BroadcastText(text, 1);
      EXPECT_EQ(text, "from the last");
      kept.Barrier();
    };
    EXPECT_THAT(RunGang(3, body, {.transport = transport}), Each(""));
    EXPECT_THAT(sums, ElementsAre(22.0, 0.0, 22.0));
  }
}

// Whatever they would reach each other by.
TEST(Gang, RefusesARankOfAnotherVersionByItsName) {
  for (const Transport transport : {Transport::kAuto, Transport::kGloo, Transport::kSharedMemory}) {
    const auto store = std::make_shared<MemoryKeyValue>();
    ASSERT_OK(store->Set("a/host/1", "3f9c/pid:[4026531836]/127.0.0.1"));
    CollectivesOptions options;
    options.world_size = 2;
    options.timeout = absl::Seconds(10);
    options.prefix = "a/";
    options.transport = transport;
    const absl::Status status = TorchGuard([&] { return Gang::Form(store, options).status(); });
    EXPECT_EQ(FailureClassOf(status), kPeerLost);
    EXPECT_THAT(std::string(status.message()),
                StartsWith("lost another rank: rank 1 runs another version of muster-trainer"));
  }
}

TEST(Gang, TalksToNobodyBetweenItsGenerations) {
  const auto gang = Gang::OfOne();
  EXPECT_EQ(*SumOver(*gang, 7), 7.0);
  gang->End();
  EXPECT_EQ(FailureClassOf(SumOver(*gang, 7).status()), kPeerLost);
  EXPECT_ANY_THROW(gang->Barrier());

  // The other rank does not come.
  CollectivesOptions options;
  options.world_size = 2;
  options.timeout = absl::Milliseconds(10);
  EXPECT_ANY_THROW(gang->Reform(std::make_shared<MemoryKeyValue>(), options).IgnoreError());
  EXPECT_EQ(FailureClassOf(SumOver(*gang, 7).status()), kPeerLost);

  ASSERT_OK(gang->Reform(/*store=*/nullptr, {}));
  EXPECT_EQ(*SumOver(*gang, 7), 7.0);
}

}  // namespace
}  // namespace muster::worker
