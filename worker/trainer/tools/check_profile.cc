#include "worker/trainer/tools/check_profile.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "worker/data/batch_queue.h"
#include "worker/dist/base/key_value.h"
#include "worker/train/run/failure.h"
#include "worker/train/step/torch_guard.h"
#include "worker/trainer/rank/rank_program.h"
#include "worker/trainer/tools/bench.h"

namespace muster::worker {
namespace {

constexpr int64_t kWarmSteps = 3;
constexpr int64_t kProfiledSteps = 10;
constexpr double kTelling = 0.25;  // a part of a step above which it is what counts
constexpr double kMostly = 0.5;
// A rank that failed leaves the others waiting no longer than this.
constexpr absl::Duration kTimeout = absl::Minutes(2);

// How many samples of a rank's batches the loader makes in a second, with no training beside it.
absl::StatusOr<double> LoaderRate(const Bench& bench, int64_t steps) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  int64_t samples = 0;
  BatchQueue batches = BatchesOf(bench, steps);
  for (int64_t step = 0; step < steps; ++step) {
    MUSTER_ASSIGN_OR_RETURN(const Batch batch, batches.Next());
    samples += batch.count;
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return seconds > 0 ? static_cast<double>(samples) / seconds : 0;
}

// All ranks do as many steps, or those that do more would wait for ever.
absl::StatusOr<StepProfile> ProfileRank(const trainer_spec::JobSpec& spec, Bench& bench) {
  MakeStep(bench);
  StepTimer timer(DeviceFor(spec));
  int64_t samples = 0;
  const int64_t steps =
      std::min(kWarmSteps + kProfiledSteps, std::max<int64_t>(1, bench.recipe.total_steps));
  const int64_t warm = std::min(kWarmSteps, steps - 1);
  StepProfile profile;
  MUSTER_ASSIGN_OR_RETURN(profile.loader_samples_per_second, LoaderRate(bench, steps));
  BatchQueue batches = BatchesOf(bench, steps);
  for (int64_t step = 0; step < steps; ++step) {
    if (step == warm) {
      timer.Mark(StepPart::kOther);
      timer.Reset();
      samples = 0;
    }
    MUSTER_ASSIGN_OR_RETURN(const Batch batch, bench.feed->Bring(batches.Next()));
    timer.Mark(StepPart::kData);
    MUSTER_RETURN_IF_ERROR(bench.step->Run(step, batch, {}, /*settle=*/true, timer).status());
    samples += batch.count;
  }
  const double counted = static_cast<double>(steps - warm);
  profile.ranks = bench.gang->world_size();
  profile.transport = bench.gang->transport();
  profile.data_seconds = timer.seconds(StepPart::kData) / counted;
  profile.compute_seconds = timer.seconds(StepPart::kForwardBackward) / counted;
  profile.communication_seconds = timer.seconds(StepPart::kCommunication) / counted;
  profile.optimizer_seconds = timer.seconds(StepPart::kOptimizer) / counted;
  profile.samples_per_second = static_cast<double>(samples) / timer.total_seconds();
  return profile;
}

absl::StatusOr<StepProfile> JoinAndProfile(const trainer_spec::JobSpec& spec, FileSystem& fs,
                                           const std::shared_ptr<KeyValue>& store, int rank,
                                           int ranks) {
  CollectivesOptions options = GangOptions(spec);
  options.rank = rank;
  options.world_size = ranks;
  options.timeout = kTimeout;
  auto gang = Gang::Form(store, options);
  if (!gang.ok()) return Classify(gang.status(), kStartFailed);
  MUSTER_ASSIGN_OR_RETURN(Bench bench, SetUpBench(spec, fs, *std::move(gang)));
  bench.gang->Barrier();
  return ProfileRank(spec, bench);
}

// Each rank a thread; the failure of one makes the others lose it, so its own words come first.
absl::StatusOr<StepProfile> ProfileGang(const trainer_spec::JobSpec& spec, FileSystem& fs,
                                        int ranks) {
  const auto store = std::make_shared<MemoryKeyValue>();
  std::vector<absl::StatusOr<StepProfile>> profiles(ranks, absl::InternalError("did not run"));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(static_cast<int>(std::max<uint32_t>(1, spec.train.threads_per_rank)));
      profiles[rank] = TorchGuardOr([&] { return JoinAndProfile(spec, fs, store, rank, ranks); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& profile : profiles) {
    if (!profile.ok() && FailureClassOf(profile.status()) != kPeerLost) return profile.status();
  }
  return profiles[0];
}

}  // namespace

int RanksToProfile(int planned, int cores, int threads_per_rank, bool on_gpus) {
  if (planned == 1 || on_gpus) return 1;
  return std::min(planned, std::max(2, cores / std::max(1, threads_per_rank)));
}

absl::StatusOr<StepProfile> ProfileRecipe(const trainer_spec::JobSpec& spec, FileSystem& fs) {
  const int planned = PlannedRanks(spec);
  const int ranks =
      RanksToProfile(planned, static_cast<int>(std::thread::hardware_concurrency()),
                     static_cast<int>(spec.train.threads_per_rank), !DeviceFor(spec).is_cpu());
  StepProfile profile;
  if (ranks > 1) {
    MUSTER_ASSIGN_OR_RETURN(profile, ProfileGang(spec, fs, ranks));
  } else {
    MUSTER_ASSIGN_OR_RETURN(Bench bench, SetUpBench(spec, fs));
    MUSTER_ASSIGN_OR_RETURN(profile, ProfileRank(spec, bench));
  }
  profile.planned_ranks = planned;
  return profile;
}

std::string StepProfile::LimitText() const {
  const double step = step_seconds();
  const auto percent = [&](double seconds) { return 100 * seconds / step; };
  const double slowest = std::max(data_seconds, communication_seconds);
  if (slowest > kTelling * step && slowest == data_seconds) {
    return absl::StrFormat(
        "The loader takes %.0f %% of a step: less augmentation, or more ranks, would help.",
        percent(data_seconds));
  }
  if (slowest > kTelling * step) {
    return absl::StrFormat(
        "Communication takes %.0f %% of a step, waiting for the other ranks included: a larger "
        "batch, a higher train.accumulate, or fewer ranks, would help.",
        percent(communication_seconds));
  }
  if (optimizer_seconds > kMostly * step) {
    return absl::StrFormat("The optimizer takes %.0f %% of a step: a larger batch would help.",
                           percent(optimizer_seconds));
  }
  return absl::StrFormat("Computing takes %.0f %% of a step: it is as fast as the device.",
                         percent(compute_seconds + optimizer_seconds));
}

std::string StepProfile::RanksText() const {
  if (planned_ranks == 1) return "1";
  if (ranks == 1) {
    return absl::StrCat(planned_ranks, "; one of them ran here, so communication was not measured");
  }
  return absl::StrCat(planned_ranks, "; ", ranks, " of them ran here, over ", transport);
}

}  // namespace muster::worker
