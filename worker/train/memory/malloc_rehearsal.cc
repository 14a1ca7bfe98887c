#include "worker/train/memory/malloc_rehearsal.h"

#include <c10/core/Device.h>
#include <c10/core/alignment.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "worker/train/memory/memory_probe.h"

namespace muster::worker {
namespace {

// malloc places large blocks at multiples of this or more; a finer count would only cost time.
constexpr uintptr_t kSmallUnit = 64 << 10;
constexpr uintptr_t kHugePage = 2 << 20;
// What malloc may give back to the kernel at once when it is freed.
constexpr size_t kMayBeUnmapped = 8 << 20;

uintptr_t PageBytes() { return static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)); }

bool IsMapped(const char* place) {
  const uintptr_t page = reinterpret_cast<uintptr_t>(place) / PageBytes() * PageBytes();
  unsigned char resident = 0;
  return ::mincore(reinterpret_cast<void*>(page), PageBytes(), &resident) == 0 || errno != ENOMEM;
}

// Of the `bytes` from `begin` on, those in memory.
int64_t ResidentBytes(uintptr_t begin, uintptr_t bytes) {
  std::vector<unsigned char> pages(bytes / PageBytes());
  if (::mincore(reinterpret_cast<void*>(begin), bytes, pages.data()) != 0) return 0;
  return static_cast<int64_t>(PageBytes()) *
         std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; });
}

}  // namespace

MallocRehearsal::MallocRehearsal()
    : unit_(MostlyHugePages() ? kHugePage : kSmallUnit),
      held_before_(MeasureMemory(c10::Device(c10::kCPU)).now_bytes) {}

MallocRehearsal::~MallocRehearsal() {
  for (const Block& block : blocks_) std::free(block.place);
}

size_t MallocRehearsal::Take(int64_t bytes) {
  Block block;
  void* place = nullptr;
  // As torch takes it.
  if (!ended_ && bytes > 0)
    ended_ = ::posix_memalign(&place, c10::gAlignment, static_cast<size_t>(bytes)) != 0;
  if (!ended_ && place != nullptr) {
    block = {static_cast<char*>(place), static_cast<size_t>(bytes)};
    Mark(block);
  }
  blocks_.push_back(block);
  return blocks_.size() - 1;
}

void MallocRehearsal::GiveBack(size_t block) {
  const Block gone = blocks_[block];
  blocks_[block] = {};
  std::free(gone.place);
  if (gone.bytes >= kMayBeUnmapped && !IsMapped(gone.place + gone.bytes / 2)) Unmark(gone);
}

std::vector<size_t> MallocRehearsal::Play(const AllocationTrace& trace, bool keep) {
  std::vector<size_t> taken(trace.events.size());
  std::vector<size_t> kept;
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const AllocationTrace::Event& event = trace.events[i];
    if (event.bytes < 0) {
      GiveBack(taken[event.taken]);
      continue;
    }
    taken[i] = Take(event.bytes);
    if (!event.kept) continue;
    if (keep) {
      kept.push_back(taken[i]);
    } else {
      GiveBack(taken[i]);
    }
  }
  return kept;
}

void MallocRehearsal::Mark(const Block& block) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(block.place);
  for (uintptr_t unit = begin / unit_; unit <= (begin + block.bytes - 1) / unit_; ++unit)
    units_.insert(unit);
  most_units_ = std::max(most_units_, units_.size());
}

void MallocRehearsal::Unmark(const Block& block) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(block.place);
  for (uintptr_t unit = begin / unit_; unit <= (begin + block.bytes - 1) / unit_; ++unit)
    units_.erase(unit);
}

std::optional<int64_t> MallocRehearsal::GrowthBytes() const {
  if (ended_) return std::nullopt;
  int64_t resident = 0;
  for (const uintptr_t unit : units_) resident += ResidentBytes(unit * unit_, unit_);
  // Some of that is there only since malloc made its notes.
  const int64_t notes = MeasureMemory(c10::Device(c10::kCPU)).now_bytes - held_before_;
  const int64_t growth = static_cast<int64_t>(most_units_ * unit_) - resident + notes;
  return std::max<int64_t>(0, growth);
}

}  // namespace muster::worker
