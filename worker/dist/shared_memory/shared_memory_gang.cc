#include "worker/dist/shared_memory/shared_memory_gang.h"

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/deadline.h"
#include "common/base/status_macros.h"
#include "worker/dist/base/host_layout.h"

namespace muster::worker {
namespace {

// A peer that died is noticed within one slice.
constexpr long kSliceNanoseconds = 5'000'000;
// A rank spins for so long before it sleeps: a sleeper wakes up late, on a virtual machine by a
// good part of a small model's step. With more ranks than cores the one that is waited for may need
// this very core.
constexpr std::chrono::microseconds kSpin{2000};
constexpr std::chrono::microseconds kSpinWhenCrowded{2};
// Between two looks at the clock.
constexpr int kPauses = 32;
constexpr size_t kPage = 4096;
constexpr char kFaultless[] = "ok";

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void FutexWait(std::atomic<uint32_t>& word, uint32_t seen) {
  const timespec slice = {0, kSliceNanoseconds};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &slice, nullptr, 0);
}

void FutexWakeAll(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, SharedMemoryGang::kMostRanks, nullptr, nullptr, 0);
}

int UsableCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

absl::StatusOr<int> OpenPidFd(pid_t pid) {
  const long fd = ::syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("pidfd_open of ", pid, ": ", std::strerror(errno)));
  }
  return static_cast<int>(fd);
}

// readable: the process has ended, even while nobody has waited for it yet.
bool HasEnded(int pidfd) {
  pollfd wanted = {pidfd, POLLIN, 0};
  return pidfd >= 0 && ::poll(&wanted, 1, 0) > 0;
}

}  // namespace

// At the start of the segment.
struct SharedMemoryGang::Header {
  uint64_t token;  // proof that a rank has mapped the right segment
};

// What a rank says of itself in the store.
struct SharedMemoryGang::Card {
  std::string host;
  pid_t pid = 0;
  int fd = -1;         // rank 0: of the segment
  uint64_t token = 0;  // rank 0: in the segment's header
  std::string fault = kFaultless;

  std::string Encode() const {
    return absl::StrCat(host, "|", pid, "|", fd, "|", token, "|", fault);
  }
  static absl::StatusOr<Card> Decode(absl::string_view text) {
    const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('|', 4));
    Card card;
    if (parts.size() != 5 || !absl::SimpleAtoi(parts[1], &card.pid) ||
        !absl::SimpleAtoi(parts[2], &card.fd) || !absl::SimpleAtoi(parts[3], &card.token)) {
      return absl::InternalError("a rank wrote an unreadable card of itself into the store");
    }
    card.host = parts[0];
    card.fault = parts[4];
    return card;
  }
};

absl::StatusOr<std::unique_ptr<SharedMemoryGang>> SharedMemoryGang::Join(
    KeyValue& store, const SharedMemoryGangOptions& options) {
  if (options.world_size > kMostRanks) {
    return absl::FailedPreconditionError(absl::StrCat("more than ", kMostRanks, " ranks"));
  }
  const auto key = [&](absl::string_view what, int rank) {
    return absl::StrCat(options.prefix, "shm/", what, "/", rank);
  };

  Card mine;
  mine.host = HostIdentity();
  mine.pid = ::getpid();
  std::unique_ptr<SharedSegment> created;
  if (options.rank == 0) {
    absl::StatusOr<SharedSegment> segment = SharedSegment::Create(SegmentBytes(options.world_size));
    if (segment.ok()) {
      created = std::make_unique<SharedSegment>(*std::move(segment));
      std::random_device random;
      mine.token = (uint64_t{random()} << 32) | random();
      mine.fd = created->fd();
      reinterpret_cast<Header*>(created->data())->token = mine.token;
    } else {
      mine.fault = std::string(segment.status().message());
    }
  }
  MUSTER_RETURN_IF_ERROR(store.Set(key("card", options.rank), mine.Encode()));
  std::vector<Card> cards;
  for (int rank = 0; rank < options.world_size; ++rank) {
    MUSTER_ASSIGN_OR_RETURN(const std::string text, store.Get(key("card", rank), options.timeout));
    MUSTER_ASSIGN_OR_RETURN(Card card, Card::Decode(text));
    cards.push_back(std::move(card));
  }
  // From here to the vote all ranks decide from the same cards.
  for (int rank = 0; rank < options.world_size; ++rank) {
    if (cards[rank].host != cards[0].host) {
      return absl::FailedPreconditionError(
          absl::StrCat("ranks 0 and ", rank, " do not share a host and PID namespace"));
    }
  }
  if (cards[0].fault != kFaultless) return absl::FailedPreconditionError(cards[0].fault);

  absl::StatusOr<std::unique_ptr<SharedMemoryGang>> gang =
      Attach(options, cards, std::move(created));
  const std::string vote = gang.ok() ? kFaultless : std::string(gang.status().message());
  MUSTER_RETURN_IF_ERROR(store.Set(key("vote", options.rank), vote));
  for (int rank = 0; rank < options.world_size; ++rank) {
    MUSTER_ASSIGN_OR_RETURN(const std::string text, store.Get(key("vote", rank), options.timeout));
    if (text != kFaultless) {
      return absl::FailedPreconditionError(absl::StrCat("rank ", rank, ": ", text));
    }
  }
  // Everybody has it open: now it ends with its last process.
  (*gang)->segment_.ForgetDescriptor();
  return gang;
}

absl::StatusOr<std::unique_ptr<SharedMemoryGang>> SharedMemoryGang::Attach(
    const SharedMemoryGangOptions& options, const std::vector<Card>& cards,
    std::unique_ptr<SharedSegment> created) {
  if (created == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(
        SharedSegment opened,
        SharedSegment::OpenOf(cards[0].pid, cards[0].fd, SegmentBytes(options.world_size)));
    created = std::make_unique<SharedSegment>(std::move(opened));
  }
  if (reinterpret_cast<const Header*>(created->data())->token != cards[0].token) {
    return absl::FailedPreconditionError("found another gang's shared memory");
  }
  // A peer that died before this has its PID reused by nobody who votes: the gang does not start.
  std::vector<int> peers(cards.size(), -1);
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    if (cards[rank].pid == ::getpid()) continue;
    absl::StatusOr<int> pidfd = OpenPidFd(cards[rank].pid);
    if (!pidfd.ok()) {
      for (const int fd : peers) {
        if (fd >= 0) ::close(fd);
      }
      return pidfd.status();
    }
    peers[rank] = *pidfd;
  }
  return std::unique_ptr<SharedMemoryGang>(
      new SharedMemoryGang(options, std::move(*created), std::move(peers)));
}

SharedMemoryGang::SharedMemoryGang(const SharedMemoryGangOptions& options, SharedSegment segment,
                                   std::vector<int> peers)
    : options_(options),
      segment_(std::move(segment)),
      peers_(std::move(peers)),
      spin_(options.world_size <= UsableCores() ? kSpin : kSpinWhenCrowded) {}

SharedMemoryGang::~SharedMemoryGang() {
  Line& line = LineOf(options_.rank);
  line.left.store(1);
  FutexWakeAll(line.arrived);
  for (const int fd : peers_) {
    if (fd >= 0) ::close(fd);
  }
}

size_t SharedMemoryGang::SegmentBytes(int world_size) {
  static_assert(sizeof(Header) <= sizeof(Line));
  static_assert((kMostRanks + 1) * sizeof(Line) <= 3 * kPage);
  return 3 * kPage + static_cast<size_t>(world_size) * 2 * kSlotBytes;
}

SharedMemoryGang::Line& SharedMemoryGang::LineOf(int rank) const {
  return reinterpret_cast<Line*>(segment_.data())[1 + rank];
}

char* SharedMemoryGang::Slot(int rank, uint32_t turn) const {
  return segment_.data() + 3 * kPage + (static_cast<size_t>(rank) * 2 + turn % 2) * kSlotBytes;
}

bool SharedMemoryGang::HasArrived(int rank, uint32_t turn) const {
  // By difference: the counter may wrap.
  return static_cast<int32_t>(LineOf(rank).arrived.load() - turn) >= 0;
}

absl::Status SharedMemoryGang::Exchange(uint64_t what) {
  if (!failed_.ok()) return failed_;
  turn_ += 1;
  Line& line = LineOf(options_.rank);
  line.what[turn_ % 2].store(what, std::memory_order_relaxed);
  line.arrived.store(turn_);
  // Either we see the sleeper, or it sees our turn before it sleeps.
  if (line.sleepers.load() > 0) FutexWakeAll(line.arrived);

  for (int rank = 0; rank < options_.world_size && failed_.ok(); ++rank) {
    if (rank == options_.rank) continue;
    failed_ = AwaitArrival(rank, turn_);
    if (failed_.ok() && LineOf(rank).what[turn_ % 2].load(std::memory_order_relaxed) != what) {
      failed_ = absl::InternalError(
          absl::StrCat("ranks ", NameOf(options_.rank), " and ", NameOf(rank),
                       " came to the same turn of shared memory for different things"));
    }
  }
  return failed_;
}

// Returns whether it came while we spun. Other threads that want this core get it in between.
bool SharedMemoryGang::SpinFor(int rank, uint32_t turn) const {
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int pause = 0; pause < kPauses; ++pause) {
      if (HasArrived(rank, turn)) return true;
      Pause();
    }
    ::sched_yield();
  } while (std::chrono::steady_clock::now() - start < spin_);
  return false;
}

absl::Status SharedMemoryGang::AwaitArrival(int rank, uint32_t turn) {
  if (SpinFor(rank, turn)) return absl::OkStatus();
  Line& line = LineOf(rank);
  const Deadline deadline(options_.timeout);
  while (!HasArrived(rank, turn)) {
    line.sleepers.fetch_add(1);
    const uint32_t seen = line.arrived.load();
    if (!HasArrived(rank, turn) && line.left.load() == 0) FutexWait(line.arrived, seen);
    line.sleepers.fetch_sub(1);
    if (HasArrived(rank, turn)) break;
    MUSTER_RETURN_IF_ERROR(CheckPeers(turn));
    if (deadline.over()) {
      return absl::DeadlineExceededError(absl::StrCat("rank ", NameOf(rank),
                                                      " is alive but did not come within ",
                                                      absl::FormatDuration(options_.timeout)));
    }
  }
  return absl::OkStatus();
}

// A peer that is gone is a loss only when it had not come to this turn before.
absl::Status SharedMemoryGang::CheckPeers(uint32_t turn) const {
  for (int rank = 0; rank < options_.world_size; ++rank) {
    if (rank == options_.rank) continue;
    const bool gone = LineOf(rank).left.load() != 0 || HasEnded(peers_[rank]);
    if (gone && !HasArrived(rank, turn)) {
      return absl::UnavailableError(absl::StrCat("rank ", NameOf(rank), " has left the gang"));
    }
  }
  return absl::OkStatus();
}

}  // namespace muster::worker
