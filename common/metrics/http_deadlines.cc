#include "common/metrics/http_deadlines.h"

#include <sys/socket.h>

#include <algorithm>

namespace muster {

HttpDeadlines::HttpDeadlines(absl::Duration timeout, const Crowd& crowd)
    : timeout_(timeout), crowd_(crowd), thread_([this] { Run(); }) {}

HttpDeadlines::~HttpDeadlines() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void HttpDeadlines::OnOpened(int socket, const std::string& host) {
  MutexLock lock(mutex_);
  ends_[socket] = {.at = clock_.SinceBoot() + timeout_};
  order_.Add(socket, host);
  const bool crowded = order_.size() > crowd_.size;
  if (crowded) {
    const int next = *order_.Next();
    order_.Remove(next);
    End& end = ends_[next];
    end = {.at = end.at - timeout_ + crowd_.timeout, .is_shortened = true};
  }
  // With others open, one of them is due before this one.
  if (crowded || ends_.size() == 1) changed_.NotifyAll();
}

void HttpDeadlines::OnClosing(int socket) {
  MutexLock lock(mutex_);
  ends_.erase(socket);
  order_.Remove(socket);
}

void HttpDeadlines::Run() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    const absl::Duration now = clock_.SinceBoot();
    absl::Duration next = absl::InfiniteDuration();
    for (auto it = ends_.begin(); it != ends_.end();) {
      if (it->second.at > now) {
        next = std::min(next, (it++)->second.at);
        continue;
      }
      if (it->second.is_shortened && crowd_.displaced != nullptr) ++*crowd_.displaced;
      // The server finds it shut down, calls OnClosing, and closes the socket itself.
      (void)::shutdown(it->first, SHUT_RDWR);
      order_.Remove(it->first);
      it = ends_.erase(it);
    }
    if (next == absl::InfiniteDuration()) {
      changed_.Wait(mutex_);
    } else {
      changed_.WaitFor(mutex_, next - now);
    }
  }
}

}  // namespace muster
