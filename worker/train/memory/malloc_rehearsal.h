// How many pages malloc would need for a run's tensors: plays what they take and give back to the
// process's own malloc, touches none of it, and counts where it lay.
//
// Used by the memory estimate. malloc rounds sizes up, and what was given back does not always fit
// what comes next; how much that is depends on the sizes and their order, so the malloc at hand is
// asked. Pages that nobody touches take no memory, but malloc writes its own notes into some: run
// it in a copy of the process (run_in_fork.h) where that must not be seen. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_set>
#include <vector>

#include "worker/train/memory/allocation_trace.h"

namespace muster::worker {

class MallocRehearsal {
 public:
  MallocRehearsal();
  ~MallocRehearsal();  // gives back what is still held
  MallocRehearsal(const MallocRehearsal&) = delete;
  MallocRehearsal& operator=(const MallocRehearsal&) = delete;

  // Names what was taken. A malloc that has no more ends the rehearsal: all later calls do nothing.
  size_t Take(int64_t bytes);
  void GiveBack(size_t block);

  // All events in their order; returns what is kept. When not `keep`, that goes at once, too: as a
  // gradient that is added to one from before.
  std::vector<size_t> Play(const AllocationTrace& trace, bool keep);

  // By how much the process would have grown to its peak, from what it held when this was made, had
  // all been touched. Absent when malloc had no more.
  std::optional<int64_t> GrowthBytes() const;

 private:
  struct Block {
    char* place = nullptr;
    size_t bytes = 0;
  };
  void Mark(const Block& block);
  void Unmark(const Block& block);

  // What the kernel maps at once: with huge pages, one byte takes all of one.
  const uintptr_t unit_;
  const int64_t held_before_;
  bool ended_ = false;
  std::vector<Block> blocks_;
  std::unordered_set<uintptr_t> units_;  // mapped, and handed out at some time
  size_t most_units_ = 0;
};

}  // namespace muster::worker
