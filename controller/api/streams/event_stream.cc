#include "controller/api/streams/event_stream.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/api/convert/convert.h"

namespace muster::controller {
namespace {

// Where the newest `tail` of the events after `after` begin; 0: all of them.
uint64_t TailStart(uint64_t count, uint32_t tail) {
  return tail > 0 && count > tail ? count - tail : 0;
}

// The sequence behind which the newest `tail` of all events come. Cost follows the tail.
uint64_t BeforeNewest(const CowTable<JobEvent>& events, uint32_t tail) {
  uint64_t first = events.last_id() + 1;
  for (; tail > 0 && first > 0; --tail) first = events.PreviousId(first);
  return first > 0 ? first - 1 : 0;
}

}  // namespace

// Sequences that went with forgotten jobs are passed over.
void EventStream::FillFromAll(const Snapshot& snapshot, v1::StreamEventsResponse& page) {
  const uint32_t tail = std::exchange(request_.tail, 0);
  if (tail > 0) after_ = std::max(after_, BeforeNewest(snapshot.events, tail));
  while (page.events_size() < static_cast<int>(kPage)) {
    const uint64_t next = snapshot.events.NextId(after_);
    if (next == 0) {
      after_ = std::max(after_, snapshot.last_event);
      return;
    }
    *page.add_events() = ToProto(*snapshot.events.Find(next));
    after_ = next;
  }
}

void EventStream::FillFromJob(const Snapshot& snapshot, const Job& job,
                              v1::StreamEventsResponse& page) {
  // Events of one job stand in their order.
  auto next = std::upper_bound(job.events.begin(), job.events.end(), after_,
                               [](uint64_t after, const std::shared_ptr<const JobEvent>& event) {
                                 return after < event->sequence;
                               });
  next += static_cast<ptrdiff_t>(
      TailStart(static_cast<uint64_t>(job.events.end() - next), std::exchange(request_.tail, 0)));
  for (; next != job.events.end() && page.events_size() < static_cast<int>(kPage); ++next) {
    *page.add_events() = ToProto(**next);
    after_ = (*next)->sequence;
  }
  // Nothing that this version holds is looked for again.
  if (next == job.events.end()) after_ = snapshot.last_event;
}

bool EventStream::Turn() {
  SendNext();
  return !ended();
}

void EventStream::SendNext() {
  MutexLock lock(mutex_);
  if (ended() || !idle()) return;
  const std::shared_ptr<const Snapshot> snapshot = engine_.snapshot();
  v1::StreamEventsResponse page;
  if (request_.job_id == 0) {
    FillFromAll(*snapshot, page);
  } else if (const Job* job = snapshot->FindJob(request_.job_id)) {
    FillFromJob(*snapshot, *job, page);
  } else {
    return End(absl::NotFoundError(absl::StrCat("job ", request_.job_id, ": it is forgotten")));
  }
  const bool all = page.events_size() == 0 || after_ >= snapshot->last_event;
  if (page.events_size() > 0) Send(std::move(page));
  if (all && !request_.follow) End(absl::OkStatus());
}

}  // namespace muster::controller
