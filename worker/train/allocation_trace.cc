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
    events_.push_back({-events_[found->second].bytes});
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

std::optional<AllocationTrace> Extrapolate(const AllocationTrace& few_trace, int64_t few,
                                           const AllocationTrace& more_trace, int64_t more,
                                           int64_t samples) {
  if (few_trace.events.size() != more_trace.events.size()) return std::nullopt;
  const double steps = static_cast<double>(samples - few) / static_cast<double>(more - few);
  AllocationTrace trace;
  for (size_t i = 0; i < few_trace.events.size(); ++i) {
    const auto& [at_few, kept] = few_trace.events[i];
    const int64_t at_more = more_trace.events[i].bytes;
    if ((at_few > 0) != (at_more > 0) || kept != more_trace.events[i].kept) return std::nullopt;
    const double more_bytes = static_cast<double>(at_more - at_few) * steps;
    trace.events.push_back({at_few + static_cast<int64_t>(more_bytes), kept});
  }
  return trace;
}

}  // namespace muster::worker
