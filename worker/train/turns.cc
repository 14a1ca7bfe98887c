#include "worker/train/turns.h"

#include <thread>
#include <utility>

#include "common/base/deadline.h"
#include "common/base/mutex.h"
#include "worker/train/failure.h"
#include "worker/train/torch_guard.h"

namespace muster::worker {
namespace {

// How rank 0 tells the others: a letter, then a text.
constexpr char kStillAtIt = '.';
constexpr char kAnswer = 'a';
constexpr char kFailure = 'e';

std::string Encode(const absl::StatusOr<std::string>& answer) {
  return answer.ok() ? kAnswer + *answer : kFailure + FailureToText(answer.status());
}

// Runs from its making; its end waits for that of the work.
class BackgroundWork {
 public:
  explicit BackgroundWork(const std::function<absl::StatusOr<std::string>()>& work)
      : thread_([this, &work] {
          absl::StatusOr<std::string> answer = TorchGuardOr(work);
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

 private:
  Mutex mutex_;
  CondVar ended_;
  std::optional<absl::StatusOr<std::string>> answer_ MUSTER_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses the others
};

}  // namespace

absl::StatusOr<std::string> TakeTurns(Collectives& gang, const WorkInTurns& work,
                                      const std::function<void()>& still_at_it) {
  while (true) {
    std::string said(1, kStillAtIt);
    if (gang.rank() == 0) {
      if (const auto answer = work(kTurn)) said = Encode(*answer);
    }
    gang.BroadcastText(said, 0);
    if (said[0] == kAnswer) return said.substr(1);
    if (said[0] == kFailure) return FailureFromText(absl::string_view(said).substr(1));
    still_at_it();
  }
}

absl::StatusOr<std::string> OnRankZero(Collectives& gang,
                                       const std::function<absl::StatusOr<std::string>()>& work,
                                       const std::function<void()>& still_at_it) {
  std::optional<BackgroundWork> background;
  if (gang.rank() == 0) background.emplace(work);
  return TakeTurns(
      gang, [&](absl::Duration turn) { return background->Await(turn); }, still_at_it);
}

}  // namespace muster::worker
