// The batches of a rank's steps, in order, made ahead by threads of its own while the step before
// is computed, or one by one when they are asked for.
//
// Used by the loop, by evaluation, and by the profile of a recipe. A batch depends on its step
// alone, so who makes which sample when changes nothing. Bounded: beside the batch that was taken
// there are so many at most, made or in the making.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "worker/data/loader.h"

namespace muster::worker {

class BatchQueue {
 public:
  // `begin` is called once for each step from `first` to below `end`, in order, and not while
  // another call runs; what its batches use must outlive the queue. `ahead` without threads: Next
  // makes the batches itself, and hears nobody meanwhile; else the queue's threads do.
  using BeginBatch = std::function<std::unique_ptr<PendingBatch>(uint64_t step)>;
  BatchQueue(BeginBatch begin, uint64_t first, uint64_t end, const AheadPlan& ahead);
  // At any time; waits for samples that are in the making.
  ~BatchQueue();
  BatchQueue(const BatchQueue&) = delete;
  BatchQueue& operator=(const BatchQueue&) = delete;

  // The next step's batch; waits until it is made. Returns the error of a sample, and throws what
  // making the batch threw. Requires that there is one: no more calls than steps. On one thread.
  // Asks `goes_on` (may be none) about ten times a second whether to wait on; CANCELLED when it
  // says no: the batch is still the next one.
  absl::StatusOr<Batch> Next(const std::function<bool()>& goes_on = nullptr);

  // For whoever waits: a sample of the next batch that some thread is at, by its name. Empty: none.
  std::string InTheMaking() const;

 private:
  // A batch that is begun, until it is taken.
  struct Slot;

  void Work();
  // A slot whose next piece of work the caller may have; null: none now.
  Slot* SlotWithWork() MUSTER_REQUIRES(mutex_);
  void Begin(Slot& slot);
  void MakeSome(Slot& slot, SampleScratch& scratch);
  void Finish(Slot& slot);
  absl::StatusOr<Batch> MakeNow(uint64_t step);
  // The next batch, if it is done within that time; else null.
  std::unique_ptr<Slot> TakeIn(absl::Duration time);

  const BeginBatch begin_;
  const uint64_t end_;
  const size_t batches_ahead_;
  const int thread_count_;  // threads_ is still filled while the first of them looks
  mutable Mutex mutex_;
  CondVar changed_;
  bool closed_ MUSTER_GUARDED_BY(mutex_) = false;
  bool is_asked_ MUSTER_GUARDED_BY(mutex_) = false;  // Next waits, or did and gave up
  std::deque<std::unique_ptr<Slot>> slots_ MUSTER_GUARDED_BY(mutex_);  // by their steps
  uint64_t next_begun_ MUSTER_GUARDED_BY(mutex_);
  uint64_t next_taken_;
  SampleScratch scratch_;             // of Next, where there are no threads
  std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace muster::worker
