#include "worker/train/step/device_feed.h"

#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/remainder.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/status_matchers.h"
#include "worker/data/model_inputs.h"

namespace muster::worker {
namespace {

const PixelScale kScale = {{0.4f, 0.5f, 0.6f}, {0.2f, 0.3f, 0.4f}};

// So many pictures of 5x7 as a decoder writes them, with all levels of pixels among them.
Batch Pixels(int64_t samples, int64_t first, c10::Device device) {
  const auto options = at::TensorOptions().pinned_memory(!device.is_cpu());
  const at::Tensor levels = at::remainder(at::arange(first, first + samples * 5 * 7 * 3), 256);
  Batch batch;
  const at::Tensor stored = at::empty({samples, 5, 7, 3}, options.dtype(at::kByte));
  stored.copy_(levels.view({samples, 5, 7, 3}));
  batch.inputs = stored.permute({0, 3, 1, 2});
  batch.targets = at::empty({samples}, options.dtype(at::kLong));
  batch.targets.copy_(at::arange(first, first + samples));
  batch.count = samples;
  batch.pixels = &kScale;
  return batch;
}

// By hand, as images/pixels.cc does.
at::Tensor Scaled(const Batch& pixels) {
  at::Tensor inputs = pixels.inputs.cpu().to(at::kFloat).contiguous();
  float* value = inputs.mutable_data_ptr<float>();
  for (int64_t sample = 0; sample < inputs.size(0); ++sample) {
    for (size_t channel = 0; channel < 3; ++channel) {
      for (int64_t i = 0; i < 35; ++i, ++value)
        *value = (*value / 255.0f - kScale.mean[channel]) / kScale.std[channel];
    }
  }
  return inputs;
}

class DeviceFeedTest : public ::testing::TestWithParam<c10::DeviceType> {
 protected:
  void SetUp() override {
    if (GetParam() == c10::kCUDA && !at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU";
  }
  const c10::Device device_{GetParam(),
                            static_cast<c10::DeviceIndex>(GetParam() == c10::kCPU ? -1 : 0)};
};

// The last batch of an epoch is a short one, and evaluation may follow with floats.
TEST_P(DeviceFeedTest, PixelsAndFloatsOfAnySizeArriveWithTheirBits) {
  DeviceFeed feed(device_);
  for (const int64_t samples : {4, 9, 2, 9}) {
    for (const bool as_pixels : {true, false, true}) {
      const Batch made = Pixels(samples, 1000 * samples, device_);
      const at::Tensor want = Scaled(made);
      Batch given = made;
      if (!as_pixels) {
        given.inputs = want;
        given.pixels = nullptr;
      }
      ASSERT_OK_AND_ASSIGN(const Batch brought, feed.Bring(given));
      EXPECT_EQ(brought.pixels, nullptr);
      EXPECT_EQ(brought.inputs.device().type(), device_.type());
      EXPECT_TRUE(brought.inputs.is_contiguous());
      EXPECT_TRUE(at::equal(brought.inputs.cpu(), want)) << samples << as_pixels;
      EXPECT_TRUE(at::equal(brought.targets.cpu(), made.targets)) << samples << as_pixels;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OnEachDevice, DeviceFeedTest, ::testing::Values(c10::kCPU, c10::kCUDA),
                         [](const auto& info) { return info.param == c10::kCPU ? "CPU" : "CUDA"; });

}  // namespace
}  // namespace muster::worker
