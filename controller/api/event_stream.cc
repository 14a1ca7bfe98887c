#include "controller/api/event_stream.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "controller/api/convert.h"

namespace muster::controller {
namespace {

void Collect(const Job& job, uint64_t after, std::vector<const JobEvent*>& out) {
  // Events of one job stand in their order; those that are wanted are the last ones.
  for (auto it = job.events.rbegin(); it != job.events.rend() && (*it)->sequence > after; ++it) {
    out.push_back(it->get());
  }
}

std::vector<const JobEvent*> EventsAfter(const Snapshot& snapshot, uint64_t job_id,
                                         uint64_t after) {
  std::vector<const JobEvent*> events;
  if (job_id == 0) {
    snapshot.jobs.ForEach([&](const Job& job) { Collect(job, after, events); });
  } else if (const Job* job = snapshot.FindJob(job_id)) {
    Collect(*job, after, events);
  }
  std::sort(events.begin(), events.end(),
            [](const JobEvent* a, const JobEvent* b) { return a->sequence < b->sequence; });
  return events;
}

}  // namespace

bool EventStream::Turn() {
  if (ended()) return false;
  if (!idle()) return true;
  const std::shared_ptr<const Snapshot> snapshot = engine_.snapshot();
  if (request_.follow && snapshot->last_event <= request_.after_sequence) return true;
  std::vector<const JobEvent*> events =
      EventsAfter(*snapshot, request_.job_id, request_.after_sequence);
  const uint32_t tail = std::exchange(request_.tail, 0);
  if (tail > 0 && events.size() > tail) events.erase(events.begin(), events.end() - tail);
  const bool all = events.size() <= kPage;
  if (!all) events.resize(kPage);
  // Nothing that this version holds is looked for again.
  request_.after_sequence = all ? snapshot->last_event : events.back()->sequence;
  v1::StreamEventsResponse response;
  for (const JobEvent* event : events) *response.add_events() = ToProto(*event);
  if (response.events_size() > 0) Send(std::move(response));
  if (all && !request_.follow) {
    End(absl::OkStatus());
    return false;
  }
  return true;
}

}  // namespace muster::controller
