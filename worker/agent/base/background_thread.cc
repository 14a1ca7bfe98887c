#include "worker/agent/base/background_thread.h"

#include <utility>

namespace muster::worker {

BackgroundThread::BackgroundThread(std::shared_ptr<Mailbox> mailbox)
    : mailbox_(std::move(mailbox)), thread_([this] { Run(); }) {}

BackgroundThread::~BackgroundThread() {
  stopping_ = true;
  {
    MutexLock lock(mutex_);
    jobs_.clear();
    wake_.NotifyAll();
  }
  thread_.join();
}

void BackgroundThread::Enqueue(Job job) {
  MutexLock lock(mutex_);
  jobs_.push_back(std::move(job));
  wake_.NotifyOne();
}

void BackgroundThread::Run() {
  while (true) {
    Job job;
    {
      MutexLock lock(mutex_);
      while (jobs_.empty() && !stopping_) wake_.Wait(mutex_);
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    Completion completion = job();
    if (!stopping_ && completion) mailbox_->Post(std::move(completion));
  }
}

}  // namespace muster::worker
