// Ranks of one host that pass each other bytes through shared memory, in turns.
//
// Used by SharedMemoryBackend, which makes sums and broadcasts of it. In a turn each rank fills its
// slot and calls Exchange, which returns when all have; then everybody reads what it wants. Slots
// are double: a rank may fill the next turn's while others still read this one's, so a turn costs
// one barrier. Waiting is spinning at first, then sleeping in slices in which the peers are looked
// at: one that died, left or stands still ends the wait. One thread. Knows no torch.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/dist/base/key_value.h"
#include "worker/dist/shared_memory/shared_segment.h"

namespace muster::worker {

struct SharedMemoryGangOptions {
  int rank = 0;
  int world_size = 1;                          // at most kMostRanks
  absl::Duration timeout = absl::Minutes(10);  // of Join and of each Exchange
  std::string prefix;                          // of the keys in the store, fresh for each gang
  std::vector<int> names;  // what each rank is called in messages; empty: its number
};

class SharedMemoryGang {
 public:
  static constexpr int kMostRanks = 64;
  // Of one rank for one turn. It and its neighbours fit a core's second-level cache.
  static constexpr size_t kSlotBytes = size_t{512} << 10;

  // All ranks call it; either all get a gang, or all get FAILED_PRECONDITION that says why they
  // cannot share memory: another host or PID namespace, or memory that one of them did not get.
  // Other codes are the store's.
  static absl::StatusOr<std::unique_ptr<SharedMemoryGang>> Join(
      KeyValue& store, const SharedMemoryGangOptions& options);

  // Tells the others that this rank comes to no further turn.
  ~SharedMemoryGang();

  int rank() const { return options_.rank; }
  int world_size() const { return options_.world_size; }

  // kSlotBytes to fill before the next Exchange.
  char* mine() { return Slot(options_.rank, turn_ + 1); }
  // What `rank` had filled in before the last Exchange. Valid until the next Exchange.
  const char* of(int rank) const { return Slot(rank, turn_); }

  // `what` says what this turn is for: a rank that is about another thing would take our bytes for
  // something else. UNAVAILABLE: a peer died or left. DEADLINE_EXCEEDED: one is there, but did not
  // come in time. INTERNAL: one came for another thing. After an error every later call fails.
  absl::Status Exchange(uint64_t what);

 private:
  // What one rank tells the others, on cache lines that it alone writes but for `sleepers`.
  struct alignas(128) Line {
    std::atomic<uint32_t> arrived;   // the last turn that this rank came to; a futex
    std::atomic<uint32_t> sleepers;  // ranks that sleep on `arrived`
    std::atomic<uint32_t> left;
    std::atomic<uint64_t> what[2];  // of even and odd turns
  };
  struct Header;
  struct Card;

  SharedMemoryGang(const SharedMemoryGangOptions& options, SharedSegment segment,
                   std::vector<int> peers);
  static size_t SegmentBytes(int world_size);
  static absl::StatusOr<std::unique_ptr<SharedMemoryGang>> Attach(
      const SharedMemoryGangOptions& options, const std::vector<Card>& cards,
      std::unique_ptr<SharedSegment> created);

  Line& LineOf(int rank) const;
  char* Slot(int rank, uint32_t turn) const;
  bool HasArrived(int rank, uint32_t turn) const;
  bool SpinFor(int rank, uint32_t turn) const;
  absl::Status AwaitArrival(int rank, uint32_t turn);
  absl::Status CheckPeers(uint32_t turn) const;
  int NameOf(int rank) const { return options_.names.empty() ? rank : options_.names[rank]; }

  const SharedMemoryGangOptions options_;
  SharedSegment segment_;
  const std::vector<int> peers_;  // a pidfd for each rank; -1: this process
  const std::chrono::microseconds spin_;
  uint32_t turn_ = 0;
  absl::Status failed_;
};

}  // namespace muster::worker
