#include "worker/trainer/check.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "worker/dist/collectives.h"
#include "worker/train/failure.h"
#include "worker/train/memory_probe.h"
#include "worker/train/step.h"
#include "worker/train/torch_guard.h"
#include "worker/trainer/compose.h"

namespace muster::worker {
namespace {

constexpr int64_t kWarmSteps = 3;
constexpr int64_t kProfiledSteps = 10;
constexpr int64_t kOverfitSteps = 150;
constexpr double kOverfitGoal = 0.1;   // of the first loss
constexpr double kLoaderShare = 0.25;  // of a step: above it the loader counts
constexpr int64_t kRateSteps = 100;
constexpr double kFirstRate = 1e-7, kLastRate = 10;

// One rank of the recipe's gang, alone: all that a step needs. Members are torn down in the
// reverse order of their making.
struct Bench {
  std::unique_ptr<Dataset> dataset;
  std::unique_ptr<Augmenter> augmenter;
  std::unique_ptr<Loader> loader;
  Recipe recipe;
  std::unique_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Objective> objective;
  std::unique_ptr<Collectives> gang = MakeLocalCollectives();
  std::unique_ptr<TrainStep> step;
};

at::Device DeviceFor(const trainer_spec::JobSpec& spec) {
  return spec.per_rank.gpus > 0 ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
}

// `spec` with one rank's share of the batch.
trainer_spec::JobSpec ShareOf(trainer_spec::JobSpec spec) {
  const uint32_t ranks = std::max<uint32_t>(1, spec.ranks.min);
  spec.train.batch_size = std::max<uint32_t>(1, spec.train.batch_size / ranks);
  spec.train.parallel.sync_batch_norm = false;
  return spec;
}

absl::StatusOr<Bench> SetUp(const trainer_spec::JobSpec& spec, FileSystem& fs) {
  Bench bench;
  const at::Device device = DeviceFor(spec);
  MUSTER_ASSIGN_OR_RETURN(bench.dataset, BuildDataset(spec, fs));
  MUSTER_ASSIGN_OR_RETURN(bench.augmenter, BuildAugmenter(spec.train, *bench.dataset));
  bench.loader = std::make_unique<Loader>(*bench.dataset, BuildSampler(spec.train, *bench.dataset),
                                          bench.augmenter.get());
  bench.recipe = BuildRecipe(spec, bench.loader->sampler(), /*world_size=*/1);
  MUSTER_ASSIGN_OR_RETURN(bench.model, BuildModel(spec, *bench.dataset, device));
  MUSTER_ASSIGN_OR_RETURN(bench.optimizer, BuildOptimizer(spec.train.optimizer, *bench.model));
  MUSTER_ASSIGN_OR_RETURN(bench.objective, BuildObjective(spec.train, *bench.dataset));
  return bench;
}

// After changes of the recipe.
void MakeStep(const trainer_spec::JobSpec& spec, Bench& bench) {
  bench.step = std::make_unique<TrainStep>(
      bench.recipe,
      StepParts{*bench.model, *bench.objective, *bench.optimizer, *bench.gang, DeviceFor(spec)});
}

Batch BatchAt(const Bench& bench, int64_t step, at::Device device) {
  Batch batch = bench.loader->TrainBatch(static_cast<uint64_t>(step), 0, 1);
  batch.inputs = batch.inputs.to(device);
  batch.targets = batch.targets.to(device);
  return batch;
}

// Steps that the data allow, at most `wanted`.
int64_t StepsWithin(const Bench& bench, int64_t wanted) {
  return std::min(wanted, std::max<int64_t>(1, bench.recipe.total_steps));
}

void Profile(const trainer_spec::JobSpec& spec, Bench& bench, CheckReport& report) {
  MakeStep(spec, bench);
  const at::Device device = DeviceFor(spec);
  StepTimer timer;
  int64_t samples = 0;
  const int64_t steps = StepsWithin(bench, kWarmSteps + kProfiledSteps);
  const int64_t warm = std::min(kWarmSteps, steps - 1);
  for (int64_t step = 0; step < steps; ++step) {
    if (step == warm) {
      timer.Mark(StepPart::kOther);
      timer.Reset();
      samples = 0;
    }
    const Batch batch = BatchAt(bench, step, device);
    timer.Mark(StepPart::kData);
    bench.step->Run(step, batch, {}, /*report=*/true, timer);
    samples += batch.count;
  }
  const double counted = static_cast<double>(steps - warm);
  report.data_seconds = timer.seconds(StepPart::kData) / counted;
  report.compute_seconds = timer.seconds(StepPart::kForwardBackward) / counted;
  report.optimizer_seconds = timer.seconds(StepPart::kOptimizer) / counted;
  report.samples_per_second = static_cast<double>(samples) / timer.total_seconds();
  const double data = timer.seconds(StepPart::kData);
  report.loader_samples_per_second = data > 0 ? static_cast<double>(samples) / data : 0;
  const double share = data / timer.total_seconds();
  const double optimizer = timer.seconds(StepPart::kOptimizer) / timer.total_seconds();
  if (share > kLoaderShare) {
    report.limit = absl::StrFormat(
        "The loader takes %.0f %% of a step: less augmentation, or more ranks, would help.",
        100 * share);
  } else if (optimizer > 0.5) {
    report.limit = absl::StrFormat(
        "The optimizer takes %.0f %% of a step: a larger batch would help.", 100 * optimizer);
  } else {
    report.limit = absl::StrFormat(
        "Computing takes %.0f %% of a step: it is as fast as the device.", 100 * (1 - share));
  }
}

// A model that cannot learn one batch by heart learns nothing: Karpathy's first check.
absl::Status Overfit(trainer_spec::JobSpec spec, FileSystem& fs, CheckReport& report) {
  spec.train.augment = {};
  spec.train.label_smoothing = 0;
  spec.train.schedule = {};
  spec.train.schedule.name = trainer_spec::ScheduleName::kConstant;
  MUSTER_ASSIGN_OR_RETURN(Bench bench, SetUp(spec, fs));
  MakeStep(spec, bench);
  const Batch batch = BatchAt(bench, 0, DeviceFor(spec));
  StepTimer timer;
  for (int64_t step = 0; step < kOverfitSteps; ++step) {
    // The same step number again and again: dropout and masks are the same, too.
    const Verdict verdict = bench.step->Run(0, batch, {}, /*report=*/true, timer);
    report.overfit_steps = step + 1;
    if (step == 0) report.overfit_first_loss = verdict.loss;
    report.overfit_last_loss = verdict.loss;
    if (!verdict.finite || verdict.loss < kOverfitGoal * report.overfit_first_loss) break;
  }
  if (!std::isfinite(report.overfit_last_loss)) {
    report.warnings.push_back("The loss of one batch is not finite: lower train.optimizer.lr.");
  } else if (report.overfit_last_loss > kOverfitGoal * report.overfit_first_loss) {
    report.warnings.push_back(absl::StrFormat(
        "One batch could not be learnt by heart: its loss went from %.4g to %.4g in %d steps. Try "
        "another train.optimizer.lr (`lr-range` suggests one), and look at the data.",
        report.overfit_first_loss, report.overfit_last_loss, report.overfit_steps));
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckReport> Check(const trainer_spec::JobSpec& whole, FileSystem& fs) {
  const trainer_spec::JobSpec spec = ShareOf(whole);
  CheckReport report;
  MUSTER_ASSIGN_OR_RETURN(Bench bench, SetUp(spec, fs));
  report.sample_shape = bench.dataset->shape();
  report.classes = bench.dataset->classes();
  report.train_samples = bench.dataset->size(Split::kTrain);
  report.validation_samples = bench.dataset->size(Split::kValidation);
  report.test_samples = bench.dataset->size(Split::kTest);
  report.parameters = bench.model->ParameterCount();
  report.total_steps = BuildRecipe(whole, BuildSampler(whole.train, *bench.dataset),
                                   std::max<uint32_t>(1, whole.ranks.min))
                           .total_steps;
  report.device = DeviceFor(spec).str();
  Profile(spec, bench, report);
  MUSTER_RETURN_IF_ERROR(Overfit(spec, fs, report));
  return report;
}

absl::StatusOr<RateRange> Rates(trainer_spec::JobSpec spec, FileSystem& fs) {
  spec = ShareOf(std::move(spec));
  spec.train.epochs = 0;
  spec.train.steps = kRateSteps;
  spec.train.schedule = {};
  spec.train.schedule.name = trainer_spec::ScheduleName::kConstant;
  MUSTER_ASSIGN_OR_RETURN(Bench bench, SetUp(spec, fs));
  constexpr double kSmoothing = 0.9, kExploded = 4;
  RateRange range;
  StepTimer timer;
  double smooth = 0, least = 0;
  for (int64_t step = 0; step < kRateSteps; ++step) {
    const double progress = static_cast<double>(step) / (kRateSteps - 1);
    bench.recipe.schedule.peak = kFirstRate * std::pow(kLastRate / kFirstRate, progress);
    MakeStep(spec, bench);
    const Verdict verdict =
        bench.step->Run(step, BatchAt(bench, step, DeviceFor(spec)), {}, /*report=*/true, timer);
    if (!verdict.finite) break;
    smooth = kSmoothing * smooth + (1 - kSmoothing) * verdict.loss;
    const double unbiased = smooth / (1 - std::pow(kSmoothing, static_cast<double>(step + 1)));
    if (step == 0 || unbiased < least) least = unbiased;
    if (unbiased > kExploded * least) break;
    range.points.push_back({bench.recipe.schedule.peak, unbiased});
  }
  range.suggested = SteepestRate(range.points);
  return range;
}

// One step with a batch of `samples`; its peak.
absl::StatusOr<int64_t> PeakOf(trainer_spec::JobSpec spec, FileSystem& fs, int64_t samples) {
  spec.train.batch_size = static_cast<uint32_t>(samples);
  spec.train.epochs = 0;
  spec.train.steps = 2;
  MUSTER_ASSIGN_OR_RETURN(Bench bench, SetUp(spec, fs));
  MakeStep(spec, bench);
  StepTimer timer;
  for (int64_t step = 0; step < 2; ++step)
    bench.step->Run(step, BatchAt(bench, step, DeviceFor(spec)), {}, /*report=*/true, timer);
  return MeasureMemory(DeviceFor(spec)).peak_bytes;
}

absl::StatusOr<LargestBatch> Largest(const trainer_spec::JobSpec& spec, FileSystem& fs,
                                     int64_t limit_bytes) {
  constexpr int64_t kMost = 1 << 20;
  LargestBatch found;
  for (int64_t samples = 1; samples <= kMost; samples *= 2) {
    absl::StatusOr<int64_t> peak = absl::InternalError("not measured");
    const absl::Status thrown = TorchGuard([&] {
      peak = PeakOf(spec, fs, samples);
      return absl::OkStatus();
    });
    const absl::Status status = thrown.ok() ? peak.status() : thrown;
    if (!status.ok() && FailureClassOf(status) != kOutOfMemory) return status;
    if (!status.ok() || *peak > limit_bytes) break;
    found = {samples, *peak};
  }
  if (found.samples == 0) {
    return Classify(absl::ResourceExhaustedError(absl::StrCat(
                        "not even a batch of one sample fits into ", limit_bytes, " bytes")),
                    kOutOfMemory);
  }
  return found;
}

// What `work` returns, or what it throws as a status.
template <typename T, typename Work>
absl::StatusOr<T> Guarded(Work work) {
  absl::StatusOr<T> result = absl::InternalError("the check did not run");
  const absl::Status thrown = TorchGuard([&] {
    result = work();
    return absl::OkStatus();
  });
  if (!thrown.ok()) return thrown;
  return result;
}

}  // namespace

absl::StatusOr<CheckReport> CheckRecipe(const trainer_spec::JobSpec& spec, FileSystem& fs) {
  return Guarded<CheckReport>([&] { return Check(spec, fs); });
}

absl::StatusOr<RateRange> TestRates(const trainer_spec::JobSpec& spec, FileSystem& fs) {
  return Guarded<RateRange>([&] { return Rates(spec, fs); });
}

absl::StatusOr<LargestBatch> FindLargestBatch(const trainer_spec::JobSpec& spec, FileSystem& fs,
                                              int64_t limit_bytes) {
  return Largest(ShareOf(spec), fs, limit_bytes);
}

double SteepestRate(const std::vector<RatePoint>& points) {
  // The first tenth of the points is still smoothing itself in.
  double best_rate = points.empty() ? 0 : points.front().lr, steepest = 0;
  for (size_t i = points.size() / 10 + 1; i + 1 < points.size(); ++i) {
    const double slope =
        (points[i + 1].loss - points[i - 1].loss) / std::log(points[i + 1].lr / points[i - 1].lr);
    if (slope >= steepest) continue;
    steepest = slope;
    best_rate = points[i].lr;
  }
  return best_rate;
}

std::string CheckText(const CheckReport& r) {
  std::string text = absl::StrFormat(
      "data        %d training, %d validation and %d test samples of shape [%s], %d classes\n"
      "model       %d parameters, %d steps to train, on %s\n"
      "step        %.2f ms: data %.2f, forward and backward %.2f, optimizer %.2f\n"
      "throughput  %.1f samples/s a rank; the loader alone %.1f\n"
      "limit       %s\n"
      "overfit     the loss of one batch went from %.4g to %.4g in %d steps\n",
      r.train_samples, r.validation_samples, r.test_samples, absl::StrJoin(r.sample_shape, ", "),
      r.classes, r.parameters, r.total_steps, r.device,
      1e3 * (r.data_seconds + r.compute_seconds + r.optimizer_seconds), 1e3 * r.data_seconds,
      1e3 * r.compute_seconds, 1e3 * r.optimizer_seconds, r.samples_per_second,
      r.loader_samples_per_second, r.limit, r.overfit_first_loss, r.overfit_last_loss,
      r.overfit_steps);
  for (const std::string& warning : r.warnings)
    absl::StrAppend(&text, "warning     ", warning, "\n");
  return text;
}

std::string CheckJson(const CheckReport& r) {
  const nlohmann::ordered_json json = {{"sample_shape", r.sample_shape},
                                       {"classes", r.classes},
                                       {"train_samples", r.train_samples},
                                       {"validation_samples", r.validation_samples},
                                       {"test_samples", r.test_samples},
                                       {"parameters", r.parameters},
                                       {"total_steps", r.total_steps},
                                       {"device", r.device},
                                       {"data_seconds", r.data_seconds},
                                       {"compute_seconds", r.compute_seconds},
                                       {"optimizer_seconds", r.optimizer_seconds},
                                       {"samples_per_second", r.samples_per_second},
                                       {"loader_samples_per_second", r.loader_samples_per_second},
                                       {"limit", r.limit},
                                       {"overfit_steps", r.overfit_steps},
                                       {"overfit_first_loss", r.overfit_first_loss},
                                       {"overfit_last_loss", r.overfit_last_loss},
                                       {"warnings", r.warnings}};
  return json.dump(2) + "\n";
}

std::string RatesText(const RateRange& range) {
  std::string text = "LR          LOSS\n";
  for (const RatePoint& point : range.points)
    absl::StrAppendFormat(&text, "%-10.3g  %.4g\n", point.lr, point.loss);
  absl::StrAppendFormat(&text, "suggested: train.optimizer.lr %.2g, where the loss falls fastest\n",
                        range.suggested);
  return text;
}

std::string RatesJson(const RateRange& range) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  for (const RatePoint& point : range.points)
    points.push_back({{"lr", point.lr}, {"loss", point.loss}});
  return nlohmann::ordered_json({{"suggested", range.suggested}, {"points", points}}).dump(2) +
         "\n";
}

std::string BatchText(const LargestBatch& largest) {
  return absl::StrFormat("%d samples a rank, at a peak of %.1f MiB\n", largest.samples,
                         static_cast<double>(largest.peak_bytes) / (1 << 20));
}

std::string BatchJson(const LargestBatch& largest) {
  return nlohmann::ordered_json({{"samples", largest.samples}, {"peak_bytes", largest.peak_bytes}})
             .dump(2) +
         "\n";
}

}  // namespace muster::worker
