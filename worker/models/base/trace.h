// A network as TorchScript, so that Python's torch.jit.load, or any program with libtorch, can run
// it without Muster.
//
// Traced: what is recorded are the operators of one forward pass, so a network whose operators
// depend on its input's numbers, or on chance, has no faithful trace.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include "worker/models/base/model.h"

namespace muster::worker {

// The module's attributes are the model's parameters and buffers, by their state names
// ("layer1.0.conv1.weight" lies in submodules `layer1` and `0`), sharing the model's memory; its
// `forward` takes `inputs` as Model::Forward and gives `values`. In evaluation mode, which the
// model is left in. `example` is a batch of two samples at least: a batch of one is a shape of its
// own to some operators. Throws what torch throws.
torch::jit::Module TraceModel(Model& model, const at::Tensor& example);

}  // namespace muster::worker
