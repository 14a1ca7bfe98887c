// Over a backend whose operations end when the test says so.
#include "worker/dist/watched_gloo.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue_inl.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include <future>
#include <thread>

#include "absl/time/clock.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/dist/watched_ranks.h"
#include "worker/train/run/failure.h"
#include "worker/train/step/torch_guard.h"

namespace muster::worker {
namespace {

using Tensors = std::vector<at::Tensor>;
using ::testing::HasSubstr;

class HeldWork final : public c10d::Work {
 public:
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  void End() {
    future_->markCompleted(c10::IValue());
    finish();
  }

 private:
  const c10::intrusive_ptr<c10::ivalue::Future> future_ =
      c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get());
};

class HeldBackend final : public c10d::Backend {
 public:
  HeldBackend(int rank, bool& gone) : c10d::Backend(rank, 2), gone_(gone) {}
  ~HeldBackend() override { gone_ = true; }
  const std::string getBackendName() const override { return "held"; }
  c10::intrusive_ptr<c10d::Work> allreduce(Tensors&, const c10d::AllreduceOptions&) override {
    return last = c10::make_intrusive<HeldWork>();
  }
  c10::intrusive_ptr<HeldWork> last;

 private:
  bool& gone_;
};

struct Rank {
  bool gone = false;  // Gloo was destroyed
  HeldBackend* gloo = nullptr;
  c10::intrusive_ptr<c10d::Backend> watched;

  c10::intrusive_ptr<c10d::Work> Sum() {
    Tensors numbers = {at::ones({1})};
    return watched->allreduce(numbers, c10d::AllreduceOptions());
  }
};

class WatchedGlooTest : public WatchedRanksTest {
 protected:
  void MakeRank(int rank, std::unique_ptr<PeerWatch> watch) override {
    auto gloo = c10::make_intrusive<HeldBackend>(rank, ranks_[rank].gone);
    ranks_[rank].gloo = gloo.get();
    ranks_[rank].watched = MakeWatchedGloo(std::move(gloo), std::move(watch));
  }

  Rank ranks_[2];
};

TEST_F(WatchedGlooTest, ARankThatIsDoneEarlierIsNotMissed) {
  const auto early = ranks_[1].Sum();
  ranks_[1].gloo->last->End();
  EXPECT_TRUE(early->wait());
  ranks_[1].watched.reset();
  EXPECT_TRUE(ranks_[1].gone);

  const auto late = ranks_[0].Sum();
  // Longer than one looks away from the peers.
  std::thread end([held = ranks_[0].gloo->last] {
    absl::SleepFor(absl::Milliseconds(350));
    held->End();
  });
  const absl::Status ended = TorchGuard([&] {
    late->wait();
    return absl::OkStatus();
  });
  end.join();
  EXPECT_OK(ended);
}

TEST_F(WatchedGlooTest, AWaitForARankThatLeftEndsThoughGloosDoesNot) {
  ranks_[1].watched.reset();
  const auto never = ranks_[0].Sum();
  const absl::Status lost = TorchGuard([&] {
    never->wait();
    return absl::OkStatus();
  });
  EXPECT_EQ(FailureClassOf(lost), kPeerLost) << lost;
  EXPECT_THAT(lost.message(), HasSubstr("rank 1 has left the gang"));
  // Nobody waits for Gloo's threads, which wait for the other rank.
  ranks_[0].watched.reset();
  EXPECT_FALSE(ranks_[0].gone);
}

TEST_F(WatchedGlooTest, ARankThatGoesInTheMiddleOfAnOperationIsMissedInIt) {
  const auto begun = ranks_[1].Sum();
  ranks_[1].watched.reset();
  const auto never = ranks_[0].Sum();
  const absl::Status lost = TorchGuard([&] {
    never->wait();
    return absl::OkStatus();
  });
  EXPECT_EQ(FailureClassOf(lost), kPeerLost) << lost;
}

}  // namespace
}  // namespace muster::worker
