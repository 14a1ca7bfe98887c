// How much memory a rank will need, before the first step: what is known, counted, the
// activations, measured on a few samples, and what malloc makes of all that, rehearsed.
//
// Used by the loop at its start, and by the message of a run that ran out of memory. All ranks call
// it together (a model may hold collectives). One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "worker/dist/gang.h"
#include "worker/train/run/recipe.h"
#include "worker/train/run/run_state.h"
#include "worker/train/step/batch_feed.h"
#include "worker/train/step/trainer.h"

namespace muster::worker {

// In bytes. On a device the program counts nothing, for it is the host's, and of the data only the
// batches that are on it.
struct MemoryEstimate {
  // Code, libraries and what they keep: what the process held before, less what is counted below,
  // and what the kernels of a first pass loaded and took beside the tensors.
  int64_t program = 0;
  // The data set in memory; the batches of training, and of an evaluation in between; what threads
  // read and decode with (ahead_plan.h).
  int64_t data = 0;
  int64_t weights = 0;      // parameters and buffers, and those of a teacher
  int64_t gradients = 0;    // with the buffers of the strategy
  int64_t optimizer = 0;    // its state, and the masks of pruning
  int64_t average = 0;      // the moving average of the weights, if there is one
  int64_t checkpoint = 0;   // the copy that is saved from; of who saves, on the CPU
  int64_t activations = 0;  // what else a step needs at its peak, of one micro-batch
                            // or, if that is more, an evaluation, or pruning
  int64_t holes = 0;  // what malloc rounds up, and keeps of what was freed and fits nothing else

  int64_t total() const {
    return program + data + weights + gradients + optimizer + average + checkpoint + activations +
           holes;
  }
};

// Everything but the activations. Cheap; allocates nothing. `planned` is the gang that the estimate
// is for, where the trainer's gang and sampler are those of one rank alone.
MemoryEstimate CountMemory(const Trainer& trainer,
                           const std::optional<CollectivesOptions>& planned = std::nullopt);

// Adds the activations at the peak of a step: runs forward and backward, and an evaluation, on at
// most kDrySamples samples and scales each allocation. What kernels loaded and took for themselves
// thereby, at the peak of that pass, is added to the program. On the CPU then plays a few steps and
// a save to malloc (malloc_rehearsal.h), in a copy of the process: by what malloc would make of
// them the total is right, and what is not in another part are holes. Where there can be no copy
// there are none of them in the estimate. Where a step of the run will have a micro-batch of one
// sample, such a one goes through the model, too: what batch norm cannot do ends the run here.
// Leaves model, buffers and gradients as they were. Call before the strategy's first step. Throws
// what torch throws, and fails where the first batch cannot be read; CANCELLED where `goes_on` says
// not to wait for it (batch_feed.h).
inline constexpr int64_t kDrySamples = 8;
absl::Status MeasureActivations(const Trainer& trainer, MemoryEstimate& estimate,
                                const std::optional<CollectivesOptions>& planned = std::nullopt,
                                const GoesOn& goes_on = nullptr);

// The same, but where `known` says what such a rehearsal found: then that is taken; else noted
// there.
absl::Status Rehearse(const Trainer& trainer, RehearsedMemory& known, MemoryEstimate& estimate,
                      const GoesOn& goes_on = nullptr);

// "weights 44.7MiB, gradients 44.7MiB, ...": the parts that are not 0, largest first.
std::string MemoryText(const MemoryEstimate& estimate);

// "the run was estimated to need 1.2GiB (weights ...): try ...": for who ran out of it.
std::string MemoryNeed(const MemoryEstimate& estimate, const Recipe& recipe);

// What a user may change: "a smaller train.batch_size, train.accumulate 2, ...".
std::string MemoryAdvice(const Recipe& recipe);

}  // namespace muster::worker
