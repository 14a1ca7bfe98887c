#include "worker/train/step/batch_feed.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/deadline.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "worker/train/run/failure.h"

namespace muster::worker {
namespace {

// Then a wait is told of for the first time, and when it has lasted twice as long each time.
constexpr absl::Duration kFirstTold = absl::Seconds(5);

absl::Status TooLate(absl::Duration waited, const std::string& sample, const std::string& trouble) {
  return absl::UnavailableError(absl::StrCat(
      "a batch has not come in ", HumanDuration(waited), " (restart.progress_timeout bounds that)",
      sample.empty() ? "" : ": ", sample, trouble.empty() ? "" : "; ", trouble));
}

}  // namespace

absl::StatusOr<std::optional<Batch>> AwaitBatch(const Trainer& trainer, BatchQueue& queue,
                                                const GoesOn& goes_on) {
  const Dataset& dataset = trainer.loader.dataset();
  RealClock clock;
  const absl::Duration begin = clock.SinceBoot();
  absl::Duration waited, tell_at = kFirstTold;
  bool leaves = false;
  absl::StatusOr<Batch> batch = queue.Next([&] {
    waited = clock.SinceBoot() - begin;
    leaves = goes_on && !goes_on(waited);
    if (waited >= tell_at) {
      Log(LogLevel::kWarning, "data_wait",
          {{"seconds", absl::ToInt64Seconds(waited)},
           {"for", queue.InTheMaking()},
           {"error", dataset.Trouble()}});
      tell_at = 2 * waited;
    }
    return !leaves && waited < trainer.recipe.data_timeout;
  });
  if (leaves) {
    dataset.CancelReads();
    return std::nullopt;
  }
  if (absl::IsCancelled(batch.status()) && waited >= trainer.recipe.data_timeout)
    return TooLate(waited, queue.InTheMaking(), dataset.Trouble());
  if (!batch.ok()) return batch.status();
  return std::optional<Batch>(*std::move(batch));
}

BatchFeed::BatchFeed(const Trainer& trainer, int64_t step)
    : BatchFeed(
          trainer,
          [&loader = trainer.loader, rank = static_cast<uint32_t>(trainer.gang.rank()),
           world = static_cast<uint32_t>(trainer.gang.world_size())](uint64_t index) {
            return loader.BeginTrainBatch(index, rank, world);
          },
          static_cast<uint64_t>(step), static_cast<uint64_t>(trainer.recipe.total_steps)) {}

BatchFeed::BatchFeed(const Trainer& trainer, BatchQueue::BeginBatch begin, uint64_t first,
                     uint64_t end)
    : trainer_(trainer),
      left_(end - first),
      queue_(std::move(begin), first, end, trainer.loader.ahead()),
      feed_(trainer.device) {}

BatchFeed::~BatchFeed() {
  if (left_ > 0) trainer_.loader.dataset().CancelReads();
}

absl::StatusOr<std::optional<Batch>> BatchFeed::Next(const GoesOn& goes_on) {
  if (gave_up_) return std::nullopt;
  absl::StatusOr<std::optional<Batch>> batch = AwaitBatch(trainer_, queue_, goes_on);
  if (!batch.ok()) return ClassifyData(batch.status());
  gave_up_ = !batch->has_value();
  if (gave_up_) return std::nullopt;
  --left_;
  MUSTER_ASSIGN_OR_RETURN(Batch brought, feed_.Bring(**std::move(batch)));
  return std::optional<Batch>(std::move(brought));
}

}  // namespace muster::worker
