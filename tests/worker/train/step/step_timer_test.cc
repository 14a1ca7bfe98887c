// On a device that is none: its time goes on, and its marks are passed, when the test says so.
#include "worker/train/step/step_timer.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gtest/gtest.h>

#include <vector>

namespace muster::worker {
namespace {

constexpr c10::DeviceType kFake = c10::DeviceType::PrivateUse1;

// Of each event when the device passed it, in milliseconds; those to come are behind `passed`.
struct FakeTimes {
  double now = 0;
  bool passes_at_once = true;
  std::vector<double> recorded;
  size_t passed = 0;
};

FakeTimes& Times() {
  static FakeTimes times;
  return times;
}

class FakeGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kFake; }
  c10::Device exchangeDevice(c10::Device device) const override { return device; }
  c10::Device getDevice() const override { return c10::Device(kFake, 0); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  // An event is the number of its record, from 1.
  void record(void** event, const c10::Stream&, c10::DeviceIndex,
              c10::EventFlag flag) const override {
    EXPECT_EQ(flag, c10::EventFlag::BACKEND_DEFAULT) << "others have no time";
    Times().recorded.push_back(Times().now);
    if (Times().passes_at_once) Times().passed = Times().recorded.size();
    *event = reinterpret_cast<void*>(Times().recorded.size());
  }
  bool queryEvent(void* event) const override { return Number(event) <= Times().passed; }
  double elapsedTime(void* from, void* to, c10::DeviceIndex) const override {
    return Times().recorded[Number(to) - 1] - Times().recorded[Number(from) - 1];
  }

 private:
  static size_t Number(void* event) { return reinterpret_cast<size_t>(event); }
};

// The device is there for these tests alone: autograd would use it.
class StepTimerTest : public ::testing::Test {
 protected:
  StepTimerTest() {
    c10::impl::registerDeviceGuard(kFake, &guard_);
    Times() = {};
  }
  ~StepTimerTest() override { c10::impl::registerDeviceGuard(kFake, nullptr); }

  const FakeGuard guard_;
};

void MarkAt(StepTimer& timer, double milliseconds, StepPart part) {
  Times().now = milliseconds;
  timer.Mark(part);
}

TEST_F(StepTimerTest, OnADevicePartsTakeTheDevicesTime) {
  StepTimer timer(c10::Device(kFake, 0));
  MarkAt(timer, 1000, StepPart::kOther);
  for (int step = 0; step < 3; ++step) {
    MarkAt(timer, 1100 + 500 * step, StepPart::kData);
    MarkAt(timer, 1300 + 500 * step, StepPart::kForwardBackward);
    MarkAt(timer, 1500 + 500 * step, StepPart::kOptimizer);
  }
  EXPECT_NEAR(timer.seconds(StepPart::kData), 0.3, 1e-9);
  EXPECT_NEAR(timer.seconds(StepPart::kForwardBackward), 0.6, 1e-9);
  EXPECT_NEAR(timer.seconds(StepPart::kOptimizer), 0.6, 1e-9);
  EXPECT_EQ(timer.seconds(StepPart::kOther), 0) << "nothing was before it";
  EXPECT_LT(timer.total_seconds(), 1.5) << "the host's";
}

TEST_F(StepTimerTest, NothingWaitsForADeviceWhoseTimeCountsWhenItHasPassed) {
  StepTimer timer(c10::Device(kFake, 0));
  MarkAt(timer, 0, StepPart::kOther);
  MarkAt(timer, 200, StepPart::kForwardBackward);
  Times().passes_at_once = false;
  MarkAt(timer, 900, StepPart::kOptimizer);
  EXPECT_NEAR(timer.seconds(StepPart::kForwardBackward), 0.2, 1e-9);
  EXPECT_EQ(timer.seconds(StepPart::kOptimizer), 0);
  timer.Reset();
  Times().passes_at_once = true;
  MarkAt(timer, 1000, StepPart::kData);
  EXPECT_NEAR(timer.seconds(StepPart::kOptimizer), 0.7, 1e-9) << "of the interval before";
  EXPECT_NEAR(timer.seconds(StepPart::kData), 0.1, 1e-9);
  EXPECT_EQ(timer.seconds(StepPart::kForwardBackward), 0);
}

}  // namespace
}  // namespace muster::worker
