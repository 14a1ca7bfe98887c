// What a training run is told: the spec's `train` section as plain values. Plain data.
//
// Filled by the trainer from the generated spec; knows neither it nor torch.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "worker/optim/schedule.h"

namespace muster::worker {

// tf32 is fp32 but for the products of GPUs: a setting of the process
// (worker/trainer/rank/rank_program.h).
enum class Precision { kFp32, kTf32, kBf16, kFp16 };

// For fp16 (loss_scale.h).
struct LossScaleConfig {
  double initial = 65536;
  int64_t growth_interval = 2000;  // steps without overflow
  int64_t max_skips = 25;          // so many overflows in a row end the run
};

struct Recipe {
  ScheduleConfig schedule;  // holds total_steps as well
  Precision precision = Precision::kFp32;
  double clip_norm = 0;   // 0: off
  double clip_value = 0;  // 0: off; of each number
  LossScaleConfig loss_scale;
  int64_t accumulate = 1;          // micro-batches of a step
  bool checkpoint_blocks = false;  // the model was built so; for what is said about memory
  uint64_t seed = 0;

  int64_t total_steps = 0;
  int64_t report_every_steps = 10;
  int64_t validate_every_epochs = 1;  // 0: not by epochs
  int64_t validate_every_steps = 0;   // 0: not by steps; the last step is always validated
  bool validate_before_save = false;  // those by steps and epochs
  int64_t save_every_epochs = 1;      // 0: not by epochs
  int64_t save_every_steps = 0;       // 0: not by steps; the last step is always saved
  absl::Duration save_every;          // since the last save began; zero: not by time

  // A checkpoint of before it is the best only for want of a later one: what the run is to give is
  // not done before (prune.h).
  int64_t best_from_step = 0;

  int64_t evaluation_batch_size = 0;  // per rank and pass
  bool count_confusion = false;       // in the final test; only where samples have classes
  // How long a step or an evaluation may wait for a batch.
  absl::Duration data_timeout = absl::InfiniteDuration();
  // How long the last checkpoint may take until the controller has made it durable.
  absl::Duration commit_timeout = absl::Hours(1);
};

}  // namespace muster::worker
