// Over a device whose operations end when the test says so, or when they are aborted.
#include "worker/dist/watched_device.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include <future>

#include "absl/time/clock.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/dist/watched_ranks.h"
#include "worker/train/run/failure.h"
#include "worker/train/step/torch_guard.h"

namespace muster::worker {
namespace {

using Tensors = std::vector<at::Tensor>;
using ::testing::HasSubstr;

class DeviceWork final : public c10d::Work {
 public:
  bool isCompleted() override { return ended; }
  std::atomic<bool> ended = false;
};

// Outlives the backend.
struct Device {
  c10::intrusive_ptr<DeviceWork> last;
  std::atomic<c10d::ErrorType> error = c10d::ErrorType::SUCCESS;
  std::atomic<int> aborts = 0;
  bool refuses = false;  // to begin an operation
  std::promise<void> aborted;
};

class HeldDevice final : public c10d::Backend {
 public:
  HeldDevice(int rank, Device& device) : c10d::Backend(rank, 2), device_(device) {}
  const std::string getBackendName() const override { return "held"; }
  c10::intrusive_ptr<c10d::Work> allreduce(Tensors&, const c10d::AllreduceOptions&) override {
    TORCH_CHECK(!device_.refuses, "the device is gone");
    return device_.last = c10::make_intrusive<DeviceWork>();
  }
  c10d::ErrorType getError() override { return device_.error; }
  void abort() override {
    if (++device_.aborts == 1) device_.aborted.set_value();
  }

 private:
  Device& device_;
};

class WatchedDeviceTest : public WatchedRanksTest {
 protected:
  void MakeRank(int rank, std::unique_ptr<PeerWatch> watch) override {
    ranks_[rank] = c10::make_intrusive<WatchedDevice>(
        c10::make_intrusive<HeldDevice>(rank, devices_[rank]), std::move(watch));
  }
  void Sum(int rank) {
    Tensors numbers = {at::ones({1})};
    ranks_[rank]->allreduce(numbers, c10d::AllreduceOptions());
  }
  void AwaitAbort(int rank) { devices_[rank].aborted.get_future().wait(); }
  absl::Status Check(int rank) {
    return TorchGuard([&] {
      ranks_[rank]->Check();
      return absl::OkStatus();
    });
  }

  Device devices_[2];
  c10::intrusive_ptr<WatchedDevice> ranks_[2];
};

TEST_F(WatchedDeviceTest, RanksThatEndTogetherMissNobody) {
  for (const int rank : {0, 1}) Sum(rank);
  devices_[1].last->ended = true;
  ranks_[1].reset();
  // Longer than one look away from the peers.
  absl::SleepFor(absl::Milliseconds(350));
  EXPECT_OK(Check(0));
  devices_[0].last->ended = true;
  ranks_[0].reset();
  EXPECT_EQ(devices_[0].aborts, 0);
  EXPECT_EQ(devices_[1].aborts, 0);
}

TEST_F(WatchedDeviceTest, AnOperationThatWaitsForARankThatLeftIsAbortedAndNotBelieved) {
  ranks_[1].reset();
  Sum(0);
  AwaitAbort(0);
  const absl::Status lost = Check(0);
  EXPECT_EQ(FailureClassOf(lost), kPeerLost) << lost;
  EXPECT_THAT(lost.message(), HasSubstr("rank 1 has left the gang"));
  ranks_[0].reset();
  EXPECT_EQ(devices_[0].aborts, 1);
}

TEST_F(WatchedDeviceTest, ARankThatGoesInTheMiddleOfAnOperationAbortsItAndIsMissed) {
  for (const int rank : {0, 1}) Sum(rank);
  ranks_[1].reset();
  EXPECT_EQ(devices_[1].aborts, 1);
  AwaitAbort(0);
  EXPECT_EQ(FailureClassOf(Check(0)), kPeerLost);
}

TEST_F(WatchedDeviceTest, ARankWhoseOperationDoesNotBeginIsMissedInIt) {
  for (const int rank : {0, 1}) Sum(rank);
  for (Device& device : devices_) device.last->ended = true;
  Sum(0);
  devices_[1].refuses = true;
  EXPECT_ANY_THROW(Sum(1));
  ranks_[1].reset();
  AwaitAbort(0);
  EXPECT_EQ(FailureClassOf(Check(0)), kPeerLost);
}

TEST_F(WatchedDeviceTest, AnErrorOfTheBackendsIsToldAtOnceAndAborts) {
  Sum(0);
  devices_[0].error = c10d::ErrorType::TIMEOUT;
  const absl::Status late = Check(0);
  EXPECT_EQ(FailureClassOf(late), kPeerLost) << late;
  EXPECT_THAT(late.message(), HasSubstr("took too long"));
  AwaitAbort(0);
  devices_[0].error = c10d::ErrorType::COMM_ERROR;
  EXPECT_THAT(Check(0).message(), HasSubstr("took too long")) << "the first is what is told";
  EXPECT_OK(Check(1));
}

TEST_F(WatchedDeviceTest, ItsOwnEndAbortsWhatItsThreadDidNot) {
  Sum(0);
  devices_[0].error = c10d::ErrorType::COMM_ERROR;
  (void)Check(0);
  ranks_[0].reset();
  EXPECT_EQ(devices_[0].aborts, 1);
}

}  // namespace
}  // namespace muster::worker
