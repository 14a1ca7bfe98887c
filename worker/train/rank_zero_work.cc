#include "worker/train/rank_zero_work.h"

#include <atomic>
#include <thread>
#include <utility>

#include "common/base/deadline.h"
#include "common/base/mutex.h"
#include "worker/train/run/failure.h"
#include "worker/train/step/torch_guard.h"

namespace muster::worker {
namespace {

// How rank 0 tells the others: a letter, then a text.
constexpr char kStillAtIt = '.';
constexpr char kNothingMoved = '-';
constexpr char kAnswer = 'a';
constexpr char kFailure = 'e';

std::string Encode(const absl::StatusOr<std::string>& answer) {
  return answer.ok() ? kAnswer + *answer : kFailure + FailureToText(answer.status());
}

// Runs from its making; its end waits for that of the work.
class BackgroundWork {
 public:
  explicit BackgroundWork(const LongWork& work)
      : thread_([this, &work] {
          absl::StatusOr<std::string> answer =
              TorchGuardOr([&] { return work([this] { got_on_ = true; }); });
          MutexLock lock(mutex_);
          answer_ = std::move(answer);
          ended_.NotifyOne();
        }) {}
  ~BackgroundWork() { thread_.join(); }
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;

  std::optional<absl::StatusOr<std::string>> Await(absl::Duration turn) {
    const Deadline deadline(turn);
    MutexLock lock(mutex_);
    while (!answer_.has_value() && !deadline.over()) ended_.WaitFor(mutex_, deadline.left());
    return answer_;
  }

  // Whether it did since the last question.
  bool OnProgress() { return got_on_.exchange(false); }

 private:
  std::atomic<bool> got_on_ = false;
  Mutex mutex_;
  CondVar ended_;
  std::optional<absl::StatusOr<std::string>> answer_ MUSTER_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses the others
};

// Calls `what` on a thread of its own, several times a turn, until its end.
class Repeated {
 public:
  explicit Repeated(const std::function<void()>& what)
      : thread_([this, &what] {
          MutexLock lock(mutex_);
          while (!over_) {
            what();
            changed_.WaitFor(mutex_, kTurn / 4);
          }
        }) {}
  ~Repeated() {
    {
      MutexLock lock(mutex_);
      over_ = true;
      changed_.NotifyOne();
    }
    thread_.join();
  }
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;

 private:
  Mutex mutex_;
  CondVar changed_;
  bool over_ MUSTER_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace

absl::StatusOr<std::string> DoInTurns(Collectives& gang, const WorkInTurns& work,
                                      const std::function<void()>& keep_alive,
                                      const std::function<bool()>& has_moved) {
  while (true) {
    std::string said;
    if (gang.rank() == 0) {
      const auto answer = work(kTurn);
      const bool moved = has_moved == nullptr || has_moved();
      const char waits = moved ? kStillAtIt : kNothingMoved;
      said = answer.has_value() ? Encode(*answer) : std::string(1, waits);
    }
    gang.BroadcastText(said, 0);
    if (said[0] == kAnswer) return said.substr(1);
    if (said[0] == kFailure) return FailureFromText(absl::string_view(said).substr(1));
    if (said[0] == kStillAtIt) keep_alive();
  }
}

absl::StatusOr<std::string> OnRankZero(Collectives& gang, const LongWork& work,
                                       const std::function<void()>& keep_alive) {
  std::optional<BackgroundWork> background;
  if (gang.rank() == 0) background.emplace(work);
  return DoInTurns(
      gang, [&](absl::Duration turn) { return background->Await(turn); }, keep_alive,
      [&] { return background->OnProgress(); });
}

absl::Status WaitAlive(const OnProgress& on_progress, const std::function<absl::Status()>& wait) {
  const Repeated beats(on_progress);
  return wait();
}

}  // namespace muster::worker
