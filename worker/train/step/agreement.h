// What all ranks learn of a step: they agree without a collective of their own, for a few numbers
// of each rank (the control numbers) ride along with the gradients and come back as their mean; and
// the host reads them without waiting for the step that it has just queued.
//
// Used by the training step. One thread. Throws what torch throws.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <optional>

#include "worker/train/run/run_host.h"

namespace muster::worker {

// Equal on all ranks, for it was computed from what they exchanged.
struct StepResult {
  int64_t step = -1;  // the step that this is about; -1: none yet
  // Loss and gradient. With a loss scale: not too many steps in a row were skipped.
  bool finite = true;
  RequestedStop requested;  // some rank was asked to stop, some rank to save
  // Some rank had no batch for it: no rank has done it, all of them leave. On the CPU, and of one
  // rank alone, everything is as before the step; else `requested` says not to save.
  bool left_off = false;
  double loss = 0;       // mean over the global batch
  double accuracy = 0;   // of the global batch; only when it was asked for
  double grad_norm = 0;  // before clipping
  // With a loss scale only: the scale of the next step, whether this one was skipped for its
  // overflow, and how many were, in a row and in all.
  double loss_scale = 0;
  bool skipped = false;
  int64_t skips_in_row = 0;
  int64_t skipped_steps = 0;
};

// The numbers of a step before anybody has read them: on the device.
struct StepNumbers {
  at::Tensor control;     // [kControlNumbers], the mean over the ranks
  at::Tensor norm;        // 0-dim: of the gradient, before clipping
  at::Tensor loss_scale;  // LossScaler::numbers(); undefined without a loss scale
};

class Agreement {
 public:
  static constexpr int64_t kControlNumbers = 5;

  // `scaled`: there is a loss scale, and its overflows may follow each other `max_skips` times.
  Agreement(at::Device device, bool scaled, int64_t max_skips);

  // This rank's control numbers, on the device: `requested`, whether it leaves the step off, and
  // nothing of its samples yet.
  at::Tensor Begin(const RequestedStop& requested, bool leaves_off) const;
  // Adds what a micro-batch of `samples` gave: its mean loss and, unless undefined, how many of it
  // were right (both 0-dim). It counts `share` in the mean over the ranks.
  void Add(const at::Tensor& loss, const at::Tensor& correct, int64_t samples, double share,
           const at::Tensor& control) const;
  // The loss among control numbers: 0-dim, a view.
  static at::Tensor LossOf(const at::Tensor& control);

  // Whether the host knows already that some rank leaves the step off: on the CPU.
  bool IsLeftOff(const StepNumbers& numbers) const;
  // Whether the host knows already that the step must change nothing. On the CPU, where reading is
  // free; a device decides by itself (FoundInf in step.cc).
  bool MustSkip(const StepNumbers& numbers) const;

  // What the numbers of `step` say. From the CPU at once; from a device what the step before said,
  // so that the host need not wait, unless `now`: then this one's, with whatever was not said yet
  // of the step before.
  StepResult Read(int64_t step, const StepNumbers& numbers, bool now);

 private:
  // Of a step on a device: where its numbers come to.
  struct Readback {
    int64_t step = -1;
    bool told = true;  // its result was given out
    at::Tensor host;   // pinned
    std::optional<c10::Event> copied;
  };

  void Queue(int64_t step, const StepNumbers& numbers, Readback& readback) const;
  StepResult Await(Readback& readback) const;
  // What numbers on the CPU say.
  StepResult OnHost(int64_t step, const StepNumbers& numbers) const;
  StepResult ToResult(int64_t step, const float* control, const float* norm,
                      const float* loss_scale) const;

  const at::Device device_;
  const bool scaled_;
  const int64_t max_skips_;
  Readback readbacks_[2];
};

}  // namespace muster::worker
