// Activation checkpointing (Chen et al. 2016): a block of a model keeps only its inputs and runs
// again in the backward pass, so that its activations need no memory in between.
//
// Used by models of blocks when ModelContext::checkpoint_blocks is set. Gradients are equal to the
// bit with and without: the second pass starts from the generators' state, under the autocast and
// on the inputs of the first. Any thread. Throws what the block throws.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace muster::worker {

// Which pass a block makes. What must happen once a step (batch norm's running statistics and its
// counter) happens in the first alone.
enum class Pass { kFirst, kAgain };

// A function of its inputs and of parameters that it holds. Called once more in the backward pass,
// perhaps on another thread: what it holds must live until then. Must not change its inputs.
using BlockFunction = std::function<at::Tensor(const std::vector<at::Tensor>& inputs, Pass pass)>;

// block(inputs, kFirst) without its activations. `parameters`: all leaves that the block reads;
// one that is left out gets no gradient. Where nothing is differentiated this is the block itself.
at::Tensor Recompute(const BlockFunction& block, const std::vector<at::Tensor>& parameters,
                     const std::vector<at::Tensor>& inputs);

// x through `blocks` in their order: run(block, x, pass) gives the next x. With `recompute` each
// goes through Recompute with its Parameters(): the blocks, and what `run` holds, must live until
// the backward pass.
template <typename Block, typename Run>
at::Tensor RunOrRecompute(const std::vector<Block>& blocks, at::Tensor x, bool recompute,
                          const Run& run) {
  for (const Block& block : blocks) {
    if (!recompute) {
      x = run(block, x, Pass::kFirst);
      continue;
    }
    const auto run_block = [run, &block](const std::vector<at::Tensor>& inputs, Pass pass) {
      return run(block, inputs.front(), pass);
    };
    x = Recompute(run_block, block.Parameters(), {x});
  }
  return x;
}

}  // namespace muster::worker
