#include "worker/data/batch_queue.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/deadline.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

// Samples are taken in pieces: small ones so that threads end together, large ones so that they
// seldom meet.
constexpr int64_t kPiecesPerThread = 8;

// Between two questions whether Next waits on.
constexpr absl::Duration kTurn = absl::Milliseconds(100);

template <typename Body>
std::exception_ptr ThrownBy(Body body) {
  try {
    body();
    return nullptr;
  } catch (...) {  // Next throws it to whom it concerns
    return std::current_exception();
  }
}

}  // namespace

// The queue's mutex guards all but what the batch does itself.
struct BatchQueue::Slot {
  explicit Slot(uint64_t step) : step(step) {}

  const uint64_t step;
  std::shared_ptr<PendingBatch> batch;  // null: is being begun, or done
  int64_t samples = 0;
  int64_t next = 0;     // the first sample that no thread has taken
  int64_t working = 0;  // threads that have samples of it in the making
  bool done = false;
  std::optional<Batch> finished;
  // Why there is no batch: of the samples that failed, the first one's reason.
  absl::Status failed;
  int64_t failed_at = 0;
  std::exception_ptr thrown;

  bool HasSamples() const { return batch != nullptr && next < samples; }
  bool WantsFinish() const { return batch != nullptr && next >= samples && working == 0; }
};

BatchQueue::BatchQueue(BeginBatch begin, uint64_t first, uint64_t end, const AheadPlan& ahead)
    : begin_(std::move(begin)),
      end_(end),
      batches_ahead_(static_cast<size_t>(ahead.batches)),
      thread_count_(ahead.batches == 0 ? ahead.threads : std::max(1, ahead.threads)),
      next_begun_(first),
      next_taken_(first) {
  for (int i = 0; i < thread_count_; ++i) {
    const std::exception_ptr thrown =
        ThrownBy([this] { threads_.emplace_back([this] { Work(); }); });
    if (thrown == nullptr) continue;
    // The machine has no more: those that there are do the work.
    if (threads_.empty()) std::rethrow_exception(thrown);
    Log(LogLevel::kWarning, "data_threads_limited", {{"wanted", thread_count_}, {"started", i}});
    break;
  }
}

BatchQueue::~BatchQueue() {
  {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

absl::StatusOr<Batch> BatchQueue::Next(const std::function<bool()>& goes_on) {
  MUSTER_CHECK(next_taken_ < end_, "each step takes one batch");
  if (thread_count_ == 0) return MakeNow(next_taken_++);
  std::unique_ptr<Slot> slot = TakeIn(kTurn);
  while (slot == nullptr) {
    if (goes_on && !goes_on()) return absl::CancelledError("its batch is not waited for");
    slot = TakeIn(kTurn);
  }
  ++next_taken_;
  if (slot->thrown != nullptr) std::rethrow_exception(slot->thrown);
  MUSTER_RETURN_IF_ERROR(slot->failed);
  return *std::move(slot->finished);
}

std::unique_ptr<BatchQueue::Slot> BatchQueue::TakeIn(absl::Duration time) {
  const Deadline deadline(time);
  MutexLock lock(mutex_);
  is_asked_ = true;
  changed_.NotifyAll();
  while (slots_.empty() || !slots_.front()->done) {
    if (deadline.over()) return nullptr;
    changed_.WaitFor(mutex_, deadline.left());
  }
  std::unique_ptr<Slot> slot = std::move(slots_.front());
  slots_.pop_front();
  is_asked_ = false;
  changed_.NotifyAll();
  return slot;
}

std::string BatchQueue::InTheMaking() const {
  std::shared_ptr<const PendingBatch> batch;
  {
    MutexLock lock(mutex_);
    if (!slots_.empty()) batch = slots_.front()->batch;
  }
  return batch == nullptr ? "" : batch->InTheMaking();
}

absl::StatusOr<Batch> BatchQueue::MakeNow(uint64_t step) {
  const std::unique_ptr<PendingBatch> batch = begin_(step);
  MUSTER_RETURN_IF_ERROR(batch->Make(0, batch->samples(), scratch_));
  return batch->Finish();
}

void BatchQueue::Work() {
  SampleScratch scratch;
  for (;;) {
    Slot* slot = nullptr;
    {
      MutexLock lock(mutex_);
      while (!closed_ && (slot = SlotWithWork()) == nullptr) changed_.Wait(mutex_);
      if (closed_) return;
    }
    if (slot->batch == nullptr) {
      Begin(*slot);
    } else {
      MakeSome(*slot, scratch);
    }
  }
}

// Samples of the oldest batch that has some, before a batch is begun. What this returns stays: Next
// takes only slots that are done.
BatchQueue::Slot* BatchQueue::SlotWithWork() {
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (!slot->done && slot->HasSamples()) {
      ++slot->working;
      return slot.get();
    }
  }
  const bool beginning = !slots_.empty() && slots_.back()->batch == nullptr && !slots_.back()->done;
  const bool room = slots_.size() < std::max<size_t>(batches_ahead_, is_asked_ ? 1 : 0);
  if (beginning || !room || next_begun_ >= end_) return nullptr;
  slots_.push_back(std::make_unique<Slot>(next_begun_++));
  return slots_.back().get();
}

void BatchQueue::Begin(Slot& slot) {
  std::unique_ptr<PendingBatch> batch;
  const std::exception_ptr thrown = ThrownBy([&] { batch = begin_(slot.step); });
  bool empty = false;
  {
    MutexLock lock(mutex_);
    slot.thrown = thrown;
    slot.done = thrown != nullptr;
    slot.samples = thrown == nullptr ? batch->samples() : 0;
    slot.batch = std::move(batch);
    empty = slot.WantsFinish();
    changed_.NotifyAll();
  }
  if (empty) Finish(slot);
}

// Some samples that nobody has taken; its caller counts in `working`.
void BatchQueue::MakeSome(Slot& slot, SampleScratch& scratch) {
  int64_t begin = 0, end = 0;
  {
    MutexLock lock(mutex_);
    const int64_t piece =
        thread_count_ == 1
            ? slot.samples
            : std::max<int64_t>(1, slot.samples / (kPiecesPerThread * thread_count_));
    begin = slot.next;
    end = slot.next = std::min(slot.samples, begin + piece);
  }
  absl::Status made;
  const std::exception_ptr thrown = ThrownBy([&] { made = slot.batch->Make(begin, end, scratch); });
  bool finish = false;
  {
    MutexLock lock(mutex_);
    if (thrown != nullptr) slot.thrown = thrown;
    if (!made.ok() && (slot.failed.ok() || begin < slot.failed_at)) {
      slot.failed = made;
      slot.failed_at = begin;
    }
    if (thrown != nullptr || !made.ok()) slot.next = slot.samples;
    --slot.working;
    finish = slot.WantsFinish();
  }
  if (finish) Finish(slot);
}

// Whatever became of the samples: the slot is done.
void BatchQueue::Finish(Slot& slot) {
  std::optional<Batch> batch;
  std::exception_ptr thrown = slot.thrown;
  if (thrown == nullptr && slot.failed.ok())
    thrown = ThrownBy([&] { batch = slot.batch->Finish(); });
  MutexLock lock(mutex_);
  slot.thrown = thrown;
  slot.finished = std::move(batch);
  slot.batch.reset();
  slot.done = true;
  changed_.NotifyAll();
}

}  // namespace muster::worker
