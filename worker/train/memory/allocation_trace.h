// Which memory tensors took and gave back, in order: measured around a piece of work, and scaled to
// a larger one.
//
// Used by the memory estimate and by tests. Sees what torch's allocators hand out on this thread
// and in the backward passes that it starts, kernels' scratch memory included; not what kernels
// take from elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace muster::worker {

// One event: bytes taken (above 0) or given back (below 0); only what was taken inside.
struct AllocationTrace {
  struct Event {
    int64_t bytes = 0;
    bool kept = false;  // taken and not given back
    size_t taken = 0;   // of what is given back: the event that took it
  };
  std::vector<Event> events;

  // The most that was held at one time; what is kept in the end counts from its taking on.
  int64_t PeakBytes() const;
  // The same, as though what is kept had been there before.
  int64_t PeakBytesBesideKept() const;
  int64_t KeptBytes() const;
};

// Runs `work`; passes on what it throws.
AllocationTrace TraceAllocations(const std::function<void()>& work);

// Of rounds that follow each other and are the same, in each of which all that is taken is given
// back, only the first: kernels that go through a batch sample by sample take their scratch memory
// once a sample. Peaks stay what they are. Pure.
AllocationTrace WithoutRepeats(const AllocationTrace& trace);

// Each event as an affine function of the number of samples, from the traces of `few` and `more`
// samples: the trace of `samples`, without repeats. Absent when the two did not go the same way,
// but for scratch memory that is soon given back. Pure. Requires few < more.
std::optional<AllocationTrace> Extrapolate(const AllocationTrace& few_trace, int64_t few,
                                           const AllocationTrace& more_trace, int64_t more,
                                           int64_t samples);

}  // namespace muster::worker
