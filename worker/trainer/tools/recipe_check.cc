#include "worker/trainer/tools/recipe_check.h"

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "worker/train/memory/memory_estimate.h"
#include "worker/train/memory/memory_probe.h"
#include "worker/train/run/failure.h"
#include "worker/train/step/torch_guard.h"
#include "worker/trainer/rank/rank_program.h"
#include "worker/trainer/tools/bench.h"
#include "worker/trainer/tools/check_profile.h"

namespace muster::worker {
namespace {

constexpr int64_t kOverfitSteps = 150;
constexpr double kOverfitGoal = 0.1;  // of the loss with drawn weights
constexpr int64_t kRateSteps = 100;
constexpr double kFirstRate = 1e-7, kLastRate = 10;

// The loss of the first batch with weights that are drawn.
absl::StatusOr<double> DrawnLoss(trainer_spec::JobSpec spec, FileSystem& fs) {
  spec.train.weights = {};
  MUSTER_ASSIGN_OR_RETURN(Bench bench, SetUpBench(spec, fs));
  MakeStep(bench);
  StepTimer timer(DeviceFor(spec));
  MUSTER_ASSIGN_OR_RETURN(const Batch batch, BatchAt(bench, 0));
  MUSTER_ASSIGN_OR_RETURN(const StepResult result,
                          bench.step->Run(0, batch, {}, /*settle=*/true, timer));
  return result.loss;
}

// A model that cannot learn one batch by heart learns nothing: Karpathy's first check.
absl::Status Overfit(trainer_spec::JobSpec spec, FileSystem& fs, CheckReport& report) {
  spec.train.augment = {};
  spec.train.distill = {};
  spec.train.label_smoothing = 0;
  spec.train.schedule = {};
  spec.train.schedule.name = trainer_spec::ScheduleName::kConstant;
  MUSTER_ASSIGN_OR_RETURN(Bench bench, SetUpBench(spec, fs));
  // A rate that grows with the batch is that of this one, which is one rank's.
  bench.recipe.schedule = BuildSchedule(ShareOf(spec).train, bench.recipe.total_steps);
  MakeStep(bench);
  double goal = 0;
  if (!spec.train.weights.path.empty()) {  // which may know the batch by heart already
    MUSTER_ASSIGN_OR_RETURN(const double drawn, DrawnLoss(spec, fs));
    goal = kOverfitGoal * drawn;
  }
  MUSTER_ASSIGN_OR_RETURN(const Batch batch, BatchAt(bench, 0));
  StepTimer timer(DeviceFor(spec));
  for (int64_t step = 0; step < kOverfitSteps; ++step) {
    // The same step number again and again: dropout and masks are the same, too.
    MUSTER_ASSIGN_OR_RETURN(const StepResult result,
                            bench.step->Run(0, batch, {}, /*settle=*/true, timer));
    report.overfit_steps = step + 1;
    if (step == 0) report.overfit_first_loss = result.loss;
    if (goal == 0) goal = kOverfitGoal * result.loss;
    report.overfit_last_loss = result.loss;
    if (!result.finite || result.loss < goal) break;
  }
  if (!std::isfinite(report.overfit_last_loss)) {
    report.warnings.push_back("The loss of one batch is not finite: lower train.optimizer.lr.");
  } else if (report.overfit_last_loss > goal) {
    report.warnings.push_back(absl::StrFormat(
        "One batch could not be learnt by heart: its loss went from %.4g to %.4g in %d steps. Try "
        "another train.optimizer.lr (`lr-range` suggests one), and look at the data.",
        report.overfit_first_loss, report.overfit_last_loss, report.overfit_steps));
  }
  return absl::OkStatus();
}

// Of one rank of the planned gang.
absl::StatusOr<MemoryEstimate> EstimateOf(const trainer_spec::JobSpec& spec, const Bench& bench) {
  const Trainer trainer = bench.trainer();
  CollectivesOptions planned = GangOptions(spec);
  planned.world_size = PlannedRanks(spec);
  planned.gpu = bench.device.is_cpu() ? -1 : 0;
  MemoryEstimate memory = CountMemory(trainer, planned);
  MUSTER_RETURN_IF_ERROR(MeasureActivations(trainer, memory, planned));
  return memory;
}

absl::StatusOr<CheckReport> Check(const trainer_spec::JobSpec& spec, FileSystem& fs) {
  CheckReport report;
  MUSTER_ASSIGN_OR_RETURN(Bench bench, SetUpBench(spec, fs));
  report.sample_shape = bench.dataset->shape();
  report.classes = bench.dataset->classes();
  report.train_samples = bench.dataset->size(Split::kTrain);
  report.validation_samples = bench.dataset->size(Split::kValidation);
  report.test_samples = bench.dataset->size(Split::kTest);
  report.parameters = bench.model->ParameterCount();
  report.total_steps = bench.recipe.total_steps;
  report.device = DeviceFor(spec).str();
  MUSTER_ASSIGN_OR_RETURN(const MemoryEstimate memory, EstimateOf(spec, bench));
  report.memory_bytes = memory.total();
  report.memory_parts = MemoryText(memory);
  MUSTER_ASSIGN_OR_RETURN(report.profile, ProfileRecipe(spec, fs));
  MUSTER_RETURN_IF_ERROR(Overfit(spec, fs, report));
  return report;
}

absl::StatusOr<RateRange> Rates(trainer_spec::JobSpec spec, FileSystem& fs) {
  spec.train.epochs = 0;
  spec.train.steps = kRateSteps;
  spec.train.prune = {};  // which may want more steps
  spec.train.schedule = {};
  spec.train.schedule.name = trainer_spec::ScheduleName::kConstant;
  MUSTER_ASSIGN_OR_RETURN(Bench bench, SetUpBench(spec, fs));
  constexpr double kSmoothing = 0.9, kExploded = 4;
  RateRange range;
  StepTimer timer(DeviceFor(spec));
  double smooth = 0, least = 0;
  for (int64_t step = 0; step < kRateSteps; ++step) {
    const double progress = static_cast<double>(step) / (kRateSteps - 1);
    bench.recipe.schedule.peak = kFirstRate * std::pow(kLastRate / kFirstRate, progress);
    MakeStep(bench);
    MUSTER_ASSIGN_OR_RETURN(const Batch batch, BatchAt(bench, step));
    MUSTER_ASSIGN_OR_RETURN(const StepResult result,
                            bench.step->Run(step, batch, {}, /*settle=*/true, timer));
    if (!result.finite) break;
    smooth = kSmoothing * smooth + (1 - kSmoothing) * result.loss;
    const double unbiased = smooth / (1 - std::pow(kSmoothing, static_cast<double>(step + 1)));
    if (step == 0 || unbiased < least) least = unbiased;
    if (unbiased > kExploded * least) break;
    range.points.push_back({bench.recipe.schedule.peak, unbiased});
  }
  range.suggested = SteepestRate(range.points);
  return range;
}

}  // namespace

absl::StatusOr<CheckReport> CheckRecipe(const trainer_spec::JobSpec& spec, FileSystem& fs) {
  return TorchGuardOr([&] { return Check(spec, fs); });
}

absl::StatusOr<RateRange> SweepLearningRates(const trainer_spec::JobSpec& spec, FileSystem& fs) {
  return TorchGuardOr([&] { return Rates(spec, fs); });
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
  const StepProfile& p = r.profile;
  std::string text = absl::StrFormat(
      "data        %d training, %d validation and %d test samples of shape [%s], %d classes\n"
      "model       %d parameters, %d steps to train, on %s\n"
      "memory      %s a rank: %s\n",
      r.train_samples, r.validation_samples, r.test_samples, absl::StrJoin(r.sample_shape, ", "),
      r.classes, r.parameters, r.total_steps, r.device,
      HumanBytes(static_cast<double>(r.memory_bytes)), r.memory_parts);
  absl::StrAppendFormat(
      &text,
      "step        %.2f ms: data %.2f, forward and backward %.2f, communication %.2f, optimizer "
      "%.2f\n"
      "ranks       %s\n"
      "throughput  %.1f samples/s a rank; the loader alone %.1f\n"
      "limit       %s\n"
      "overfit     the loss of one batch went from %.4g to %.4g in %d steps\n",
      1e3 * p.step_seconds(), 1e3 * p.data_seconds, 1e3 * p.compute_seconds,
      1e3 * p.communication_seconds, 1e3 * p.optimizer_seconds, p.RanksText(), p.samples_per_second,
      p.loader_samples_per_second, p.LimitText(), r.overfit_first_loss, r.overfit_last_loss,
      r.overfit_steps);
  for (const std::string& warning : r.warnings)
    absl::StrAppend(&text, "warning     ", warning, "\n");
  return text;
}

std::string CheckJson(const CheckReport& r) {
  const StepProfile& p = r.profile;
  const nlohmann::ordered_json json = {{"sample_shape", r.sample_shape},
                                       {"classes", r.classes},
                                       {"train_samples", r.train_samples},
                                       {"validation_samples", r.validation_samples},
                                       {"test_samples", r.test_samples},
                                       {"parameters", r.parameters},
                                       {"total_steps", r.total_steps},
                                       {"device", r.device},
                                       {"memory_bytes", r.memory_bytes},
                                       {"memory_parts", r.memory_parts},
                                       {"planned_ranks", p.planned_ranks},
                                       {"ranks", p.ranks},
                                       {"transport", p.transport},
                                       {"data_seconds", p.data_seconds},
                                       {"compute_seconds", p.compute_seconds},
                                       {"communication_seconds", p.communication_seconds},
                                       {"optimizer_seconds", p.optimizer_seconds},
                                       {"samples_per_second", p.samples_per_second},
                                       {"loader_samples_per_second", p.loader_samples_per_second},
                                       {"limit", p.LimitText()},
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

}  // namespace muster::worker
