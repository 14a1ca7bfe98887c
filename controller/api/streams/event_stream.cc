#include "controller/api/streams/event_stream.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "controller/api/convert/convert.h"

namespace muster::controller {
namespace {

// Where the newest `tail` of the events after `after` begin; 0: all of them.
uint64_t TailStart(uint64_t count, uint32_t tail) {
  return tail > 0 && count > tail ? count - tail : 0;
}

// Whether the event of that sequence counts for the tail.
using Counts = std::function<bool(uint64_t sequence)>;

// The sequence behind which the newest `tail` of all events come, archived ones among them. Cost
// follows the tail.
absl::StatusOr<uint64_t> BeforeNewest(const CowTable<JobEvent>& events, History& history,
                                      uint32_t tail, const Counts& counts) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<uint64_t> archived, history.NewestEvents(tail));
  auto next = archived.begin();
  uint64_t first = std::max(events.last_id(), history.last_event()) + 1;
  while (tail > 0 && first > 0) {
    const uint64_t below = first;
    first = events.PreviousId(below);
    while (next != archived.end() && *next >= below) ++next;
    if (next != archived.end()) first = std::max(first, *next);
    if (first == 0 || counts(first)) --tail;
  }
  return first > 0 ? first - 1 : 0;
}

}  // namespace

bool EventStream::IsReadable(const Snapshot& snapshot, uint64_t job_id) {
  if (request_.may_read == nullptr) return true;
  if (const Job* job = snapshot.FindJob(job_id)) return request_.may_read(job->settings->project);
  constexpr size_t kMostKnown = 10'000;
  auto known = archived_.find(job_id);
  if (known == archived_.end()) {
    if (archived_.size() >= kMostKnown) archived_.clear();
    const absl::StatusOr<ArchivedJob> archived = engine_.history().Find(job_id);
    known = archived_.emplace(job_id, archived.ok() ? archived->job->settings->project : "").first;
  }
  return !known->second.empty() && request_.may_read(known->second);
}

// Sequences that went with forgotten jobs are passed over.
absl::Status EventStream::FillFromAll(const Snapshot& snapshot, v1::StreamEventsResponse& page) {
  History& history = engine_.history();
  const uint32_t tail = std::exchange(request_.tail, 0);
  if (tail > 0) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t before,
                            BeforeNewest(snapshot.events, history, tail,
                                         [&](uint64_t sequence) MUSTER_REQUIRES(mutex_) {
                                           const JobEvent* event = snapshot.events.Find(sequence);
                                           return event == nullptr ||
                                                  IsReadable(snapshot, event->job_id);
                                         }));
    after_ = std::max(after_, before);
  }
  std::vector<std::shared_ptr<const JobEvent>> archived;
  if (after_ < history.last_event()) {
    MUSTER_ASSIGN_OR_RETURN(archived, history.EventsAfter(after_, kPage));
  }
  // Beyond a full page there may be more that were archived.
  const uint64_t known_to =
      archived.size() == kPage ? archived.back()->sequence : snapshot.last_event;
  auto next = archived.begin();
  size_t seen = 0;
  while (page.events_size() < static_cast<int>(kPage) && seen++ < kMostSeen) {
    while (next != archived.end() && (*next)->sequence <= after_) ++next;
    const uint64_t here = snapshot.events.NextId(after_);
    const bool from_history = next != archived.end() && (here == 0 || (*next)->sequence < here);
    if (!from_history && (here == 0 || here > known_to)) {
      after_ = std::max(after_, known_to);
      looked_at_all_ = true;
      return absl::OkStatus();
    }
    const JobEvent& event = from_history ? **next : *snapshot.events.Find(here);
    if (IsReadable(snapshot, event.job_id)) *page.add_events() = ToProto(event);
    after_ = event.sequence;
  }
  return absl::OkStatus();
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
  bool is_archived = false;
  looked_at_all_ = request_.job_id != 0;
  if (request_.job_id == 0) {
    if (absl::Status status = FillFromAll(*snapshot, page); !status.ok()) return End(status);
  } else if (const Job* job = snapshot->FindJob(request_.job_id)) {
    FillFromJob(*snapshot, *job, page);
  } else {
    const absl::StatusOr<ArchivedJob> archived = engine_.history().Find(request_.job_id);
    if (!archived.ok()) return End(archived.status());
    FillFromJob(*snapshot, *archived->job, page);
    is_archived = true;
  }
  const bool all = (page.events_size() == 0 && looked_at_all_) || after_ >= snapshot->last_event;
  if (page.events_size() > 0) Send(std::move(page));
  // Nothing more comes of an archived job.
  if (all && (!request_.follow || is_archived)) End(absl::OkStatus());
}

}  // namespace muster::controller
