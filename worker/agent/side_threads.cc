#include "worker/agent/side_threads.h"

#include <pthread.h>
#include <string.h>

#include <deque>
#include <utility>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"

namespace muster::worker {

// Outlives the object where threads are left behind.
struct SideThreads::State {
  State(std::shared_ptr<Mailbox> mailbox, size_t most) : mailbox(std::move(mailbox)), most(most) {}

  const std::shared_ptr<Mailbox> mailbox;
  const size_t most;
  const std::shared_ptr<std::atomic<bool>> stopping = std::make_shared<std::atomic<bool>>(false);
  Mutex mutex;
  CondVar changed;
  std::deque<Job> jobs MUSTER_GUARDED_BY(mutex);
  size_t threads MUSTER_GUARDED_BY(mutex) = 0;
  size_t idle MUSTER_GUARDED_BY(mutex) = 0;
};

SideThreads::SideThreads(std::shared_ptr<Mailbox> mailbox, size_t most)
    : state_(std::make_shared<State>(std::move(mailbox), most)) {
  MutexLock lock(state_->mutex);
  state_->threads += AddThread(state_, state_->threads) ? 1 : 0;
}

SideThreads::~SideThreads() {
  *state_->stopping = true;
  std::deque<Job> dropped;  // outlives the lock: what a job holds may take long to go
  MutexLock lock(state_->mutex);
  dropped.swap(state_->jobs);
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

void SideThreads::Enqueue(Job job) {
  MutexLock lock(state_->mutex);
  state_->jobs.push_back(std::move(job));
  if (state_->jobs.size() > state_->idle && state_->threads < state_->most) {
    state_->threads += AddThread(state_, state_->threads) ? 1 : 0;
  }
  state_->changed.NotifyAll();
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
    Job job;
    {
      MutexLock lock(state->mutex);
      ++state->idle;
      while (state->jobs.empty() && !*state->stopping) state->changed.Wait(state->mutex);
      --state->idle;
      if (*state->stopping) {
        --state->threads;
        state->changed.NotifyAll();
        return;
      }
      job = std::move(state->jobs.front());
      state->jobs.pop_front();
    }
    Completion completion = job();
    job = nullptr;
    if (!*state->stopping && completion) state->mailbox->Post(std::move(completion));
  }
}

}  // namespace muster::worker
