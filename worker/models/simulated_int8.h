// Post-training quantisation to int8, simulated: linear and convolution layers compute in fp32 with
// weights and inputs that were rounded to 256 values and back. What it costs in accuracy is what an
// int8 kernel of the same scheme would cost, up to its own rounding; how fast such a kernel is,
// this does not tell.
//
// Weights: symmetric, a scale for each output channel, from -127 to 127. Inputs of the layers:
// affine, a scale and a zero point for each layer, from 0 to 255, over the range seen while
// calibrating (Jacob et al. 2018). Everything else, norms, attention's own products, biases and
// sums, stays as it is.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/models/base/model.h"

namespace muster::worker {

struct QuantizedWeight {
  at::Tensor values;  // int8, the weight's shape
  // float, of the weight's number of axes with extent 1 in all but the channel's, so that
  // values x scales is the weight again, within half a scale.
  at::Tensor scales;
};
// `channel_axis` is that of the output channels. A channel of zeros has scale 1.
QuantizedWeight QuantizeWeight(const at::Tensor& weight, int64_t channel_axis);
at::Tensor Dequantize(const QuantizedWeight& weight);

// The affine map of [low, high], which is widened to hold 0: 0 is exact, as padding wants it.
struct InputScale {
  double scale = 1;
  int64_t zero_point = 0;
};
InputScale ScaleOfRange(double low, double high);

struct Int8Layer {
  std::string weight;  // name of the parameter
  QuantizedWeight quantized;
  InputScale input;
};

// A network that is calibrated, then rounded. Its own tensors are those of the model it was made
// of.
class SimulatedInt8 : public Model {
 public:
  // Traces `model` (trace.h, which says what has no trace), which must outlive it. Throws what
  // torch throws, and c10::Error when the network has no layer that could be rounded.
  static std::unique_ptr<SimulatedInt8> Make(Model& model, const at::Tensor& example);

  // Before Round: widens each layer's range by what the batch brings to it.
  virtual void Calibrate(const at::Tensor& inputs) = 0;

  // Rounds the model's weights in place. From then on Forward rounds the layers' inputs as well;
  // before, it gives what the model gives. Call once, after at least one Calibrate.
  virtual void Round() = 0;

  // In the order of the forward pass; filled by Round. A weight that two layers share stands once,
  // with the wider range of their inputs.
  virtual const std::vector<Int8Layer>& layers() const = 0;
};

}  // namespace muster::worker
