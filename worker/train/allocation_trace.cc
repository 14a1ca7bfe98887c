#include "worker/train/allocation_trace.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace muster::worker {
namespace {

// Stands where torch's own memory profiler would. A device's backward pass reports from a thread of
// the engine's, hence the mutex.
class Recorder final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* place, int64_t bytes, size_t, size_t, c10::Device) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (bytes > 0) {
      taken_[place] = events_.size();
      events_.push_back({bytes});
      return;
    }
    const auto found = taken_.find(place);
    if (found == taken_.end()) return;  // older than the recording
    events_.push_back({-events_[found->second].bytes, false, found->second});
    taken_.erase(found);
  }
  bool memoryProfilingEnabled() const override { return true; }

  AllocationTrace Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [place, event] : taken_) events_[event].kept = true;
    return {std::move(events_)};
  }

 private:
  std::mutex mutex_;
  std::vector<AllocationTrace::Event> events_;
  std::unordered_map<void*, size_t> taken_;  // where an event took what is still held
};

int64_t Peak(const std::vector<AllocationTrace::Event>& events, bool with_kept) {
  int64_t held = 0, peak = 0;
  for (const AllocationTrace::Event& event : events) {
    if (with_kept || !event.kept) held += event.bytes;
    peak = std::max(peak, held);
  }
  return peak;
}

// Whether the last `length` events give back all that they take, and nothing else.
bool IsClosed(const std::vector<AllocationTrace::Event>& events, size_t length) {
  const size_t begin = events.size() - length;
  int64_t held = 0;
  for (size_t i = begin; i < events.size(); ++i) {
    held += events[i].bytes;
    if (events[i].kept || (events[i].bytes < 0 && events[i].taken < begin)) return false;
  }
  return held == 0;
}

// Takes the last round away if the one before was the same.
void DropRepeat(std::vector<AllocationTrace::Event>& events) {
  constexpr size_t kLongestRound = 32;
  const size_t longest = std::min(kLongestRound, events.size() / 2);
  for (size_t length = 2; length <= longest; ++length) {
    const auto same = [](const auto& a, const auto& b) { return a.bytes == b.bytes; };
    const auto last = events.end() - static_cast<std::ptrdiff_t>(length);
    if (!std::equal(last, events.end(), last - static_cast<std::ptrdiff_t>(length), same)) continue;
    if (!IsClosed(events, length)) continue;
    events.erase(last, events.end());
    return;
  }
}

// `steps` times the way from each event of `few` to its like in `more`.
std::optional<AllocationTrace> ScaleEach(const AllocationTrace& few, const AllocationTrace& more,
                                         double steps) {
  if (few.events.size() != more.events.size()) return std::nullopt;
  AllocationTrace scaled;
  for (size_t i = 0; i < few.events.size(); ++i) {
    AllocationTrace::Event event = few.events[i];
    const AllocationTrace::Event& like = more.events[i];
    if ((event.bytes > 0) != (like.bytes > 0) || event.kept != like.kept ||
        event.taken != like.taken)
      return std::nullopt;
    if (event.bytes < 0) {
      event.bytes = -scaled.events[event.taken].bytes;
    } else {
      const double more_bytes = static_cast<double>(like.bytes - event.bytes) * steps;
      event.bytes = std::max<int64_t>(1, event.bytes + static_cast<int64_t>(more_bytes));
    }
    scaled.events.push_back(event);
  }
  return scaled;
}

}  // namespace

int64_t AllocationTrace::PeakBytes() const { return Peak(events, true); }
int64_t AllocationTrace::PeakBytesBesideKept() const { return Peak(events, false); }

int64_t AllocationTrace::KeptBytes() const {
  int64_t bytes = 0;
  for (const Event& event : events) bytes += event.kept ? event.bytes : 0;
  return bytes;
}

AllocationTrace TraceAllocations(const std::function<void()>& work) {
  const auto recorder = std::make_shared<Recorder>();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, recorder);
    work();
  }
  return recorder->Take();
}

AllocationTrace WithoutRepeats(const AllocationTrace& trace) {
  AllocationTrace shorter;
  std::vector<size_t> places(trace.events.size());  // in `shorter`, of events that took
  for (size_t i = 0; i < trace.events.size(); ++i) {
    AllocationTrace::Event event = trace.events[i];
    if (event.bytes < 0) event.taken = places[event.taken];
    places[i] = shorter.events.size();
    shorter.events.push_back(event);
    DropRepeat(shorter.events);
  }
  return shorter;
}

std::optional<AllocationTrace> Extrapolate(const AllocationTrace& few_trace, int64_t few,
                                           const AllocationTrace& more_trace, int64_t more,
                                           int64_t samples) {
  const double steps = static_cast<double>(samples - few) / static_cast<double>(more - few);
  if (auto scaled = ScaleEach(few_trace, more_trace, steps)) return scaled;
  return ScaleEach(WithoutRepeats(few_trace), WithoutRepeats(more_trace), steps);
}

}  // namespace muster::worker
