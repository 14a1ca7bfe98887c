// A network: named weights (parameters), named state that is not trained (buffers), and a forward
// pass.
//
// Models are plain structs over at:: operators rather than torch::nn modules: those take 20 s to
// compile, and their Linear casts its weight on every call under autocast. Names are those of the
// reference implementation's state dict, so that weights travel both ways. Not thread-safe. Throws
// c10::Error as its operators do.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::worker {

class Collectives;

struct ModelTensor {
  std::string name;
  at::Tensor tensor;
};

// What a forward pass gives; an objective (worker/train/objective/objective.h) makes a loss of it.
struct ModelOutput {
  // Classifiers: logits [B, classes]. Language models: logits [B, T, vocabulary]. Masked
  // autoencoders: predicted patches [B, patches, values].
  at::Tensor values;
  // Masked autoencoders only: float [B, patches], 1 where the patch was hidden.
  at::Tensor mask;
  // Instead of `values`, where Samples::head_apart allows it: what the last layer takes, [B, T, W],
  // and its table, [vocabulary, W]. The logits would be hidden table^T.
  at::Tensor hidden = {}, table = {};
};

// What a pass is told of its samples beside their inputs.
struct Samples {
  // In their data set, one for each; empty: they are counted from 0.
  std::vector<int64_t> ids = {};
  // Of what a model draws for a sample in training by the sample's id, so that it is the same in
  // whatever batch and on whatever rank the sample comes. (Dropout is not drawn so.)
  uint64_t seed = 0;
  // False: they stand in for a rank that has none. Their loss has no weight, and batch norm leaves
  // them out of its statistics.
  bool count = true;
  // True: who asks can do without logits, and a language model of many tokens leaves its last layer
  // to the loss (ModelOutput::hidden), which never needs all of them at once.
  bool head_apart = false;
};

class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // inputs: [B, ...sample shape]; float, int64 for tokens. Takes the batch's extent as -1, not as a
  // number, where it has the choice: so a trace (trace.h) holds for any batch.
  virtual ModelOutput Forward(const at::Tensor& inputs) = 0;

  // Forward of samples that are told. Whether they count holds for their backward pass, too, and
  // until it is told anew; the rest for this pass alone.
  ModelOutput ForwardOf(Samples samples, const at::Tensor& inputs);

  // Training: batch norm uses the batch's statistics and updates its running ones. Evaluation: it
  // uses the running ones.
  void SetTraining(bool training) { training_ = training; }
  bool training() const { return training_; }

  // From now on batch norm takes the statistics of training over the batches of all ranks. `gang`
  // must outlive every forward and backward pass.
  void SynchronizeBatchNorm(Collectives& gang) { batch_norm_gang_ = &gang; }

  // Leaves in the order of the state dict. They require a gradient, but for those that the
  // optimizer's groups have frozen.
  const std::vector<ModelTensor>& parameters() const { return parameters_; }
  // Those that are not frozen.
  std::vector<at::Tensor> TrainedParameters() const;
  // Running statistics and counters, in the order of the state dict.
  const std::vector<ModelTensor>& buffers() const { return buffers_; }
  // Both, as the reference's state dict orders them.
  const std::vector<ModelTensor>& state() const { return state_; }
  int64_t ParameterCount() const;

  // All floating-point buffers as one tensor over the same memory, for a broadcast in one piece;
  // undefined without buffers. Integer buffers count steps and are equal on all ranks by
  // themselves.
  const at::Tensor& flat_buffers() const { return flat_buffers_; }

 protected:
  Model() = default;

  at::Tensor AddParameter(std::string name, at::Tensor values, at::Device device);
  at::Tensor AddBuffer(std::string name, at::Tensor values, at::Device device);
  // Call when all buffers are there: moves them into flat_buffers().
  void JoinBuffers();
  // For BatchNorm (batch_norm.h); null: each rank by itself.
  Collectives* batch_norm_gang() const { return batch_norm_gang_; }
  // Of the pass that runs.
  const Samples& samples() const { return samples_; }

 private:
  std::vector<ModelTensor> parameters_;
  std::vector<ModelTensor> buffers_;
  std::vector<ModelTensor> state_;
  at::Tensor flat_buffers_;
  bool training_ = true;
  Samples samples_;
  Collectives* batch_norm_gang_ = nullptr;
};

// What every model is told besides its own settings.
struct ModelContext {
  std::vector<int64_t> input_shape;  // of one sample
  int64_t classes = 0;
  uint64_t seed = 0;  // of the initial weights: drawn on the CPU, so equal on every device and rank
  at::Device device = at::kCPU;
  bool checkpoint_blocks = false;  // blocks run again in the backward pass (recompute.h)
  // How convolutional networks keep pictures and their weights in memory. Tensor cores want the
  // channels of a pixel side by side (channels_last); oneDNN on a CPU is as fast either way.
  // Shapes, names and checkpoints are the same.
  at::MemoryFormat picture_format = at::MemoryFormat::Contiguous;
};

}  // namespace muster::worker
