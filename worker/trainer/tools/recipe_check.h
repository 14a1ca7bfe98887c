// Looks at a recipe before its real run: does everything fit together, can the model learn at all,
// what will limit it. Nothing is saved.
//
// Used by `muster-trainer check` and `lr-range`, which `muster check` runs for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/fs/file_system.h"
#include "trainer_spec/job_spec.h"
#include "worker/trainer/tools/check_profile.h"

namespace muster::worker {

struct CheckReport {
  // What there is.
  std::vector<int64_t> sample_shape;
  int64_t classes = 0;
  int64_t train_samples = 0, validation_samples = 0, test_samples = 0;
  int64_t parameters = 0;
  int64_t total_steps = 0;
  std::string device;
  // Of one rank of the job, before its start (worker/train/memory/memory_estimate.h).
  int64_t memory_bytes = 0;
  std::string memory_parts;
  StepProfile profile;
  // The same batch again and again, without augmentation and smoothing, at the peak rate, from the
  // weights that the run begins with, until the loss is a tenth of what it is with drawn ones.
  int64_t overfit_steps = 0;
  double overfit_first_loss = 0, overfit_last_loss = 0;
  std::vector<std::string> warnings;  // sentences; empty: all is well
};

// Fails as the run would fail: DATA_ERROR, START_FAILED, OUT_OF_MEMORY (failure.h).
absl::StatusOr<CheckReport> CheckRecipe(const trainer_spec::JobSpec& spec, FileSystem& fs);

// For people: a few lines, warnings last. For machines: one JSON object.
std::string CheckText(const CheckReport& report);
std::string CheckJson(const CheckReport& report);

// One learning rate that was tried.
struct RatePoint {
  double lr = 0;
  double loss = 0;  // smoothed over the steps before
};
struct RateRange {
  std::vector<RatePoint> points;
  double suggested = 0;  // where the loss falls steepest
};
// The learning-rate range test of Smith 2017: the rate grows from 1e-7 to 10 within 100 steps,
// until the loss explodes.
absl::StatusOr<RateRange> SweepLearningRates(const trainer_spec::JobSpec& spec, FileSystem& fs);
std::string RatesText(const RateRange& range);
std::string RatesJson(const RateRange& range);
// Where the loss falls steepest over the logarithm of the rate. Pure.
double SteepestRate(const std::vector<RatePoint>& points);

}  // namespace muster::worker
