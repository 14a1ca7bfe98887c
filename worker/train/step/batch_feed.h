// The batches of a rank's steps, or of an evaluation, on its device: made ahead (batch_queue.h) and
// brought there (device_feed.h). Who waits for one is asked whether to go on, and a person can read
// what is waited for.
//
// Used by the loop, by evaluation, and where the memory of a run is estimated. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/data/batch_queue.h"
#include "worker/data/loader.h"
#include "worker/train/step/device_feed.h"
#include "worker/train/step/trainer.h"

namespace muster::worker {

// Asked about ten times a second while a batch is not there, with how long that has been: whether
// to wait on. None: always.
using GoesOn = std::function<bool(absl::Duration waited)>;

// The queue's next batch. None as soon as `goes_on` says no: the rank is leaving, and reads from
// far away are cancelled for good. The log says what a long wait is for (`data_wait`). UNAVAILABLE
// when the batch has not come within the recipe's data_timeout; else as BatchQueue::Next.
absl::StatusOr<std::optional<Batch>> AwaitBatch(const Trainer& trainer, BatchQueue& queue,
                                                const GoesOn& goes_on);

class BatchFeed {
 public:
  // Of the run's steps from `step` on. The trainer's parts must outlive it.
  BatchFeed(const Trainer& trainer, int64_t step);
  // As BatchQueue's, with the loader's plan.
  BatchFeed(const Trainer& trainer, BatchQueue::BeginBatch begin, uint64_t first, uint64_t end);
  // With batches that nobody took the rank is leaving: reads from far away are cancelled for good.
  ~BatchFeed();
  BatchFeed(const BatchFeed&) = delete;
  BatchFeed& operator=(const BatchFeed&) = delete;

  // As AwaitBatch gives it, on the device; errors have their class, as DeviceFeed::Bring says. Once
  // there was none, there is none any more.
  absl::StatusOr<std::optional<Batch>> Next(const GoesOn& goes_on);

 private:
  const Trainer trainer_;
  uint64_t left_;  // batches that were not taken
  bool gave_up_ = false;
  BatchQueue queue_;
  DeviceFeed feed_;
};

}  // namespace muster::worker
