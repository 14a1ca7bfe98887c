#include "worker/agent/base/side_threads.h"

#include <pthread.h>
#include <string.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"

namespace muster::worker {
namespace {

// Looks at a job that waits for a thread, in one patience after the first.
constexpr int kSideThreadChecks = 8;

// A job that is watched, on the loop.
struct Watched {
  Timers& timers;
  SideThreads& threads;
  const absl::Duration patience;
  const OnStall on_stall;
  SideThreads::JobId id = 0;
  bool began = false;
};

void WatchWhileItWaits(const std::shared_ptr<Watched>& job, absl::Duration next_check) {
  job->timers.After(next_check, [job] {
    if (job->began) return;
    const absl::Status stuck = job->threads.TakeBackIfStuck(job->id, job->patience);
    if (stuck.ok()) return WatchWhileItWaits(job, job->patience / kSideThreadChecks);
    job->on_stall(stuck, /*began=*/false);
  });
}

}  // namespace

// Outlives the object where threads are left behind.
struct SideThreads::State {
  State(std::shared_ptr<Mailbox> mailbox, size_t most, size_t most_of_group)
      : mailbox(std::move(mailbox)), most(most), most_of_group(most_of_group) {}

  struct Task {
    JobId id = 0;
    Job job;
    std::shared_ptr<PathWatch> watch;
    std::function<void()> on_begin;
  };

  const std::shared_ptr<Mailbox> mailbox;
  const size_t most;
  const size_t most_of_group;
  const std::shared_ptr<std::atomic<bool>> stopping = std::make_shared<std::atomic<bool>>(false);
  Mutex mutex;
  CondVar changed;
  std::deque<Task> waiting MUSTER_GUARDED_BY(mutex);
  std::map<JobId, std::shared_ptr<const PathWatch>> running MUSTER_GUARDED_BY(mutex);
  std::map<std::string, size_t> running_of MUSTER_GUARDED_BY(mutex);  // by group
  JobId last_id MUSTER_GUARDED_BY(mutex) = 0;
  size_t threads MUSTER_GUARDED_BY(mutex) = 0;
  size_t idle MUSTER_GUARDED_BY(mutex) = 0;

  bool IsFull(const std::string& group) const MUSTER_REQUIRES(mutex) {
    if (group.empty()) return false;
    const auto of_group = running_of.find(group);
    return of_group != running_of.end() && of_group->second >= most_of_group;
  }
  // The first one that may run.
  std::deque<Task>::iterator Next() MUSTER_REQUIRES(mutex) {
    auto task = waiting.begin();
    while (task != waiting.end() && IsFull(task->watch->group())) ++task;
    return task;
  }
  // Who one of this group waits for: those of its group, or all.
  std::vector<std::shared_ptr<const PathWatch>> InTheWayOf(const std::string& group) const
      MUSTER_REQUIRES(mutex) {
    const bool full = IsFull(group);
    std::vector<std::shared_ptr<const PathWatch>> watches;
    for (const auto& [id, watch] : running) {
      if (!full || watch->group() == group) watches.push_back(watch);
    }
    return watches;
  }
};

SideThreads::SideThreads(std::shared_ptr<Mailbox> mailbox, size_t most, size_t most_of_group)
    : state_(std::make_shared<State>(std::move(mailbox), most, most_of_group)) {
  MutexLock lock(state_->mutex);
  state_->threads += AddThread(state_, state_->threads) ? 1 : 0;
}

SideThreads::~SideThreads() {
  *state_->stopping = true;
  // Outlives the lock: what a job holds may take long to go.
  std::deque<State::Task> dropped;
  MutexLock lock(state_->mutex);
  dropped.swap(state_->waiting);
  state_->changed.NotifyAll();
  RealClock clock;
  const absl::Duration deadline = clock.SinceBoot() + kEndPatience;
  while (state_->threads > 0) {
    const absl::Duration left = deadline - clock.SinceBoot();
    if (left <= absl::ZeroDuration()) break;
    state_->changed.WaitFor(state_->mutex, left);
  }
  if (state_->threads > 0) {
    Log(LogLevel::kWarning, "threads_left_hanging", {{"threads", state_->threads}});
  }
}

SideThreads::JobId SideThreads::Enqueue(Job job, std::shared_ptr<PathWatch> watch,
                                        std::function<void()> on_begin) {
  if (watch == nullptr) watch = std::make_shared<PathWatch>();
  MutexLock lock(state_->mutex);
  const JobId id = ++state_->last_id;
  state_->waiting.push_back({id, std::move(job), std::move(watch), std::move(on_begin)});
  if (state_->waiting.size() > state_->idle && state_->threads < state_->most) {
    state_->threads += AddThread(state_, state_->threads) ? 1 : 0;
  }
  state_->changed.NotifyAll();
  return id;
}

absl::Status SideThreads::TakeBackIfStuck(JobId id, absl::Duration patience) {
  State::Task dropped;  // outlives the lock
  MutexLock lock(state_->mutex);
  const auto task = std::find_if(state_->waiting.begin(), state_->waiting.end(),
                                 [id](const State::Task& one) { return one.id == id; });
  if (task == state_->waiting.end()) return absl::OkStatus();
  const std::string group = task->watch->group();
  // A thread that is between two jobs takes the next one.
  if (!state_->IsFull(group) && state_->running.size() < state_->threads) return absl::OkStatus();
  const auto in_the_way = state_->InTheWayOf(group);
  for (const auto& watch : in_the_way) {
    if (watch->Idle() <= patience) return absl::OkStatus();
  }
  dropped = std::move(*task);
  state_->waiting.erase(task);
  if (in_the_way.empty()) {
    return absl::ResourceExhaustedError("this worker has no room for a thread");
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "all ", in_the_way.size(), " threads that this worker has for it hang; one of them so: ",
      in_the_way.front()->Stall().message()));
}

bool SideThreads::AddThread(const std::shared_ptr<State>& state, size_t threads) {
  // Not std::thread, which throws where a bound on processes or memory is reached.
  auto argument = std::make_unique<std::shared_ptr<State>>(state);
  const auto run = [](void* taken) -> void* {
    const std::unique_ptr<std::shared_ptr<State>> own(static_cast<std::shared_ptr<State>*>(taken));
    Run(*own);
    return nullptr;
  };
  pthread_t thread;
  const int error = ::pthread_create(&thread, nullptr, run, argument.get());
  if (error != 0) {
    Log(LogLevel::kWarning, "no_side_thread",
        {{"threads", threads}, {"error", ::strerrordesc_np(error)}});
    return false;
  }
  argument.release();
  ::pthread_detach(thread);
  return true;
}

std::shared_ptr<const std::atomic<bool>> SideThreads::stopping() const { return state_->stopping; }

size_t SideThreads::busy() const {
  MutexLock lock(state_->mutex);
  return state_->threads - state_->idle;
}

void SideThreads::Run(const std::shared_ptr<State>& state) {
  while (true) {
    State::Task task;
    {
      MutexLock lock(state->mutex);
      ++state->idle;
      while (state->Next() == state->waiting.end() && !*state->stopping) {
        state->changed.Wait(state->mutex);
      }
      --state->idle;
      if (*state->stopping) {
        --state->threads;
        state->changed.NotifyAll();
        return;
      }
      const auto next = state->Next();
      task = std::move(*next);
      state->waiting.erase(next);
      task.watch->GetOn();
      state->running.emplace(task.id, task.watch);
      ++state->running_of[task.watch->group()];
    }
    if (!*state->stopping && task.on_begin) state->mailbox->Post(std::move(task.on_begin));
    Completion completion = task.job();
    {
      MutexLock lock(state->mutex);
      // Its group may have been full: then a job of it can run now, and this thread, which looks
      // at the queue next, takes it.
      state->running.erase(task.id);
      const auto of_group = state->running_of.find(task.watch->group());
      if (--of_group->second == 0) state->running_of.erase(of_group);
    }
    task = State::Task();  // nobody watches it any more
    if (!*state->stopping && completion) state->mailbox->Post(std::move(completion));
  }
}

void EnqueueWatched(Timers& timers, SideThreads& threads, SideThreads::Job job,
                    std::shared_ptr<PathWatch> watch, absl::Duration patience, OnStall on_stall) {
  const std::weak_ptr<const PathWatch> until_done = watch;
  const auto watched = std::make_shared<Watched>(Watched{
      .timers = timers, .threads = threads, .patience = patience, .on_stall = std::move(on_stall)});
  watched->id = threads.Enqueue(std::move(job), std::move(watch), [watched, until_done] {
    watched->began = true;
    WatchForStall(watched->timers, until_done, watched->patience,
                  [watched](const absl::Status& stall) { watched->on_stall(stall, true); });
  });
  WatchWhileItWaits(watched, patience);
}

}  // namespace muster::worker
