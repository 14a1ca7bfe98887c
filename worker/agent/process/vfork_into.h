// vfork into a cgroup: as vfork, but the child begins in the cgroup whose folder is open at
// `cgroup_fd` (-1: in ours), and `pidfd` becomes its descriptor. -1 and errno: ENOSYS where the
// kernel or a sandbox does not have it.
//
// To move a process there later takes the kernel up to a tenth of a second, in which our loop would
// stand still. The C library has no call for it, and no function can make it: the child shares our
// stack, and would return over the parent's frame. So it is inlined into its caller, which must not
// return in the child either.
#pragma once

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>

#include <cstdint>

namespace muster::worker {

[[gnu::always_inline]] inline pid_t VforkInto(int cgroup_fd, int& pidfd) {
  clone_args args = {};
  args.flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD;
  args.pidfd = reinterpret_cast<uint64_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  if (cgroup_fd >= 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<uint64_t>(cgroup_fd);
  }
#if defined(__x86_64__)
  long result = SYS_clone3;
  asm volatile("syscall" : "+a"(result) : "D"(&args), "S"(sizeof args) : "rcx", "r11", "memory");
#elif defined(__aarch64__)
  register long number asm("x8") = SYS_clone3;
  register long result asm("x0") = reinterpret_cast<long>(&args);
  register long size asm("x1") = sizeof args;
  asm volatile("svc #0" : "+r"(result) : "r"(number), "r"(size) : "memory");
#else
  long result = -ENOSYS;
#endif
  if (result >= 0) return static_cast<pid_t>(result);
  errno = static_cast<int>(-result);
  return -1;
}

}  // namespace muster::worker
