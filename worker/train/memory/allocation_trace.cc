#include "worker/train/memory/allocation_trace.h"

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

using Events = std::vector<AllocationTrace::Event>;

// Of each event whether it takes scratch memory, which is given back soon, or gives it back.
std::vector<bool> FindScratch(const Events& events) {
  constexpr size_t kSoon = 16;
  std::vector<bool> scratch(events.size());
  for (size_t i = 0; i < events.size(); ++i) {
    if (events[i].bytes < 0 && i - events[i].taken <= kSoon)
      scratch[i] = scratch[events[i].taken] = true;
  }
  return scratch;
}

// From an event of `few` samples and its like of `more` to the same of others: `steps` times the
// way from one to the other, but at most `times` the latter. What grew faster than the samples did
// so once, since the kernel went another way.
struct Scale {
  double steps = 0, times = 0;
  int64_t operator()(int64_t few, int64_t more) const {
    const double along = static_cast<double>(few) + static_cast<double>(more - few) * steps;
    return std::max<int64_t>(
        1, static_cast<int64_t>(std::min(along, static_cast<double>(more) * times)));
  }
};

// A kernel may go another way for another number of samples, with other scratch memory. So only the
// rest must go alike; between two events of that, scratch that does not stays as it is in `more`.
class Scaling {
 public:
  Scaling(const Events& few, const Events& more, const Scale& scale)
      : few_(few),
        more_(more),
        scale_(scale),
        few_scratch_(FindScratch(few)),
        more_scratch_(FindScratch(more)),
        few_places_(few.size()),
        more_places_(more.size()) {}

  std::optional<AllocationTrace> Run() {
    size_t i = 0, j = 0;
    for (;;) {
      const size_t few_end = EndOfScratch(few_scratch_, i);
      const size_t more_end = EndOfScratch(more_scratch_, j);
      const bool alike = GoAlike(i, few_end, j, more_end);
      for (size_t k = 0; j + k < more_end; ++k)
        Add(j + k, alike ? few_[i + k].bytes : more_[j + k].bytes, alike);
      i = few_end, j = more_end;
      if (i == few_.size() && j == more_.size()) return std::move(scaled_);
      if (!GoAlike(i, i + 1, j, j + 1)) return std::nullopt;
      if (few_[i].bytes > 0) {
        few_places_[i] = scaled_.events.size();
      } else if (few_places_[few_[i].taken] != more_places_[more_[j].taken]) {
        return std::nullopt;
      }
      Add(j++, few_[i++].bytes, /*scale=*/true);
    }
  }

 private:
  static size_t EndOfScratch(const std::vector<bool>& scratch, size_t begin) {
    while (begin < scratch.size() && scratch[begin]) ++begin;
    return begin;
  }

  // Whether both take and give back in the same order, as far as it is there.
  bool GoAlike(size_t i, size_t few_end, size_t j, size_t more_end) const {
    if (few_end > few_.size() || more_end > more_.size()) return false;
    return std::equal(few_.begin() + static_cast<std::ptrdiff_t>(i),
                      few_.begin() + static_cast<std::ptrdiff_t>(few_end),
                      more_.begin() + static_cast<std::ptrdiff_t>(j),
                      more_.begin() + static_cast<std::ptrdiff_t>(more_end),
                      [](const AllocationTrace::Event& a, const AllocationTrace::Event& b) {
                        return (a.bytes > 0) == (b.bytes > 0) && a.kept == b.kept;
                      });
  }

  // Event `j` of `more`.
  void Add(size_t j, int64_t few_bytes, bool scale) {
    const AllocationTrace::Event& event = more_[j];
    if (event.bytes < 0) {
      const size_t taken = more_places_[event.taken];
      scaled_.events.push_back({-scaled_.events[taken].bytes, false, taken});
      return;
    }
    more_places_[j] = scaled_.events.size();
    scaled_.events.push_back({scale ? scale_(few_bytes, event.bytes) : event.bytes, event.kept});
  }

  const Events& few_;
  const Events& more_;
  const Scale scale_;
  const std::vector<bool> few_scratch_, more_scratch_;
  std::vector<size_t> few_places_, more_places_;  // in `scaled_`, of what takes
  AllocationTrace scaled_;
};

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
  const Scale scale = {
      .steps = static_cast<double>(samples - few) / static_cast<double>(more - few),
      .times = static_cast<double>(samples) / static_cast<double>(more)};
  const AllocationTrace few_rounds = WithoutRepeats(few_trace);
  const AllocationTrace more_rounds = WithoutRepeats(more_trace);
  return Scaling(few_rounds.events, more_rounds.events, scale).Run();
}

}  // namespace muster::worker
