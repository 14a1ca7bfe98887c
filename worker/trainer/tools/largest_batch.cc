#include "worker/trainer/tools/largest_batch.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "worker/train/memory/memory_probe.h"
#include "worker/train/run/failure.h"
#include "worker/train/step/torch_guard.h"
#include "worker/trainer/tools/bench.h"

namespace muster::worker {
namespace {

constexpr int64_t kPeakSteps = 4;
constexpr int64_t kMostSamples = int64_t{1} << 20;

// A few steps of one rank with a batch of `samples`; their peak, which still grows at the first
// ones.
absl::StatusOr<int64_t> PeakOf(trainer_spec::JobSpec spec, FileSystem& fs, int64_t samples) {
  spec.ranks = {.min = 1, .max = 1};
  spec.train.batch_size = static_cast<uint32_t>(samples);
  spec.train.epochs = 0;
  spec.train.steps = std::max<uint64_t>(kPeakSteps, spec.train.prune.end_step);
  MUSTER_ASSIGN_OR_RETURN(Bench bench, SetUpBench(spec, fs));
  MakeStep(bench);
  StepTimer timer(DeviceFor(spec));
  // One more than are taken: also the last step has a batch beside its own, as in a run.
  BatchQueue batches = BatchesOf(bench, kPeakSteps + 1);
  for (int64_t step = 0; step < kPeakSteps; ++step) {
    MUSTER_ASSIGN_OR_RETURN(const Batch batch, bench.feed->Bring(batches.Next()));
    MUSTER_RETURN_IF_ERROR(bench.step->Run(step, batch, {}, /*settle=*/true, timer).status());
  }
  return MeasureMemory(DeviceFor(spec)).peak_bytes;
}

// How many the training set has for each rank of the job.
absl::StatusOr<int64_t> SamplesOfARank(const trainer_spec::JobSpec& spec, FileSystem& fs) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> dataset, BuildDataset(spec, fs));
  return std::max<int64_t>(1, dataset->size(Split::kTrain) / PlannedRanks(spec));
}

}  // namespace

absl::StatusOr<LargestBatch> FindLargestBatch(const trainer_spec::JobSpec& spec, FileSystem& fs,
                                              int64_t limit_bytes) {
  LargestBatch found;
  MUSTER_ASSIGN_OR_RETURN(found.most_samples,
                          TorchGuardOr([&] { return SamplesOfARank(spec, fs); }));
  const int64_t most = std::min(found.most_samples, kMostSamples);
  for (int64_t samples = 1; samples <= most; samples *= 2) {
    const absl::StatusOr<int64_t> peak = TorchGuardOr([&] { return PeakOf(spec, fs, samples); });
    if (!peak.ok() && FailureClassOf(peak.status()) != kOutOfMemory) return peak.status();
    if (!peak.ok()) break;
    if (*peak > limit_bytes) {
      found.next_peak_bytes = *peak;
      break;
    }
    found.samples = samples;
    found.peak_bytes = *peak;
  }
  if (found.samples == 0) {
    return Classify(absl::ResourceExhaustedError(absl::StrCat(
                        "not even a batch of one sample fits into ", limit_bytes, " bytes")),
                    kOutOfMemory);
  }
  return found;
}

std::string BatchText(const LargestBatch& largest) {
  const auto peak = [](int64_t bytes) { return HumanBytes(static_cast<double>(bytes)); };
  std::string why = "twice as many do not fit into memory";
  if (largest.next_peak_bytes > 0) {
    why = absl::StrCat("twice as many come to ", peak(largest.next_peak_bytes));
  } else if (2 * largest.samples > largest.most_samples) {
    why = absl::StrCat("the training set has no more than ", largest.most_samples, " for a rank");
  } else if (2 * largest.samples > kMostSamples) {
    why = "more were not tried";
  }
  return absl::StrFormat("%d samples a rank, at a peak of %s; %s\n", largest.samples,
                         peak(largest.peak_bytes), why);
}

std::string BatchJson(const LargestBatch& largest) {
  return nlohmann::ordered_json({{"samples", largest.samples},
                                 {"peak_bytes", largest.peak_bytes},
                                 {"most_samples", largest.most_samples},
                                 {"next_peak_bytes", largest.next_peak_bytes}})
             .dump(2) +
         "\n";
}

}  // namespace muster::worker
