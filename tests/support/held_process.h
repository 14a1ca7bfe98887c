// Keeps a process from dying of SIGKILL, as a hung driver does: its tracer stops it on its way out,
// and never lets it go on. Needs the right to trace it.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "common/base/unique_fd.h"

namespace muster::testing {

class HeldProcess {
 public:
  // Forks the tracer: early, so that an agent in this process, whose child it is too, does not take
  // it for what a rank left.
  HeldProcess() {
    int orders[2];
    int answers[2];
    if (::pipe2(orders, O_CLOEXEC) != 0 || ::pipe2(answers, O_CLOEXEC) != 0) return;
    tracer_ = ::fork();
    if (tracer_ == 0) Trace(orders[0], answers[1]);
    ::close(orders[0]);
    ::close(answers[1]);
    orders_ = UniqueFd(orders[1]);
    answers_ = UniqueFd(answers[0]);
  }
  ~HeldProcess() { Release(); }
  HeldProcess(const HeldProcess&) = delete;
  HeldProcess& operator=(const HeldProcess&) = delete;

  // Once. False: it may not be traced here.
  bool Hold(pid_t pid) {
    char answer = 'n';
    const bool told = ::write(orders_.get(), &pid, sizeof pid) == sizeof pid &&
                      ::read(answers_.get(), &answer, 1) == 1;
    return told && answer == 'y';
  }
  // It dies now, if it was killed.
  void Release() {
    if (tracer_ <= 0) return;
    ::kill(tracer_, SIGKILL);
    ::waitpid(std::exchange(tracer_, 0), nullptr, 0);
  }

 private:
  [[noreturn]] static void Trace(int orders, int answers) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    pid_t pid = 0;
    if (::read(orders, &pid, sizeof pid) != sizeof pid) ::_exit(1);
    const bool held = ::ptrace(PTRACE_SEIZE, pid, nullptr, PTRACE_O_TRACEEXIT) == 0;
    const char answer = held ? 'y' : 'n';
    if (::write(answers, &answer, 1) != 1) ::_exit(1);
    while (true) ::pause();
  }

  pid_t tracer_ = 0;
  UniqueFd orders_;
  UniqueFd answers_;
};

}  // namespace muster::testing
