// Tells ThreadSanitizer what gRPC's and abseil's shared libraries synchronise. They are not
// instrumented, so that it would take each hand-over between their threads for a race, or, told to
// look away, overlook the races of ours. Linked into every program with gRPC that is built for
// ThreadSanitizer, and nowhere else.
//
// The functions below bear the names of the libraries' own. A program's symbols go before a
// library's, so that the libraries call these, which call theirs. What they add is no more than
// what the call means:
//   - who holds an absl::Mutex, or destroys it, sees what was done under it before, as with any
//     mutex;
//   - what was done before operations were started on a call is seen by who takes their tag out of
//     the completion queue. On Linux that is a thread of libgrpc++'s, which runs the callback API's
//     reactions;
//   - who runs a call's OnDone or OnCancel sees what was done by whom it waited for, which the call
//     counts: the library takes part in the count, and may be the last;
//   - who shuts a server down sees what was done for its calls, which it waits for.
// tests/common/rpc/tsan_hand_overs_test.cc shows that races are still found.
#include <dlfcn.h>
#include <grpc/grpc.h>
#include <grpcpp/server.h>
#include <grpcpp/support/server_callback.h>
#include <sanitizer/tsan_interface.h>
#include <stdio.h>
#include <stdlib.h>

#include <string>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#define MUSTER_TEXT_OF(x) #x
#define MUSTER_TEXT(x) MUSTER_TEXT_OF(x)

namespace {

// The library's own function of that name.
template <typename Function>
Function* Next(const std::string& symbol) {
  void* found = ::dlsym(RTLD_NEXT, symbol.c_str());
  if (found == nullptr) {
    ::fprintf(stderr, "tsan_hand_overs: no library has %s; another version of gRPC or abseil?\n",
              symbol.c_str());
    ::abort();
  }
  return reinterpret_cast<Function*>(found);
}

// The symbol of a method of abseil's: `rest` is what follows its namespaces in the mangled name.
std::string AbslSymbol(const std::string& rest) {
  const std::string space = MUSTER_TEXT(ABSL_OPTION_INLINE_NAMESPACE_NAME);
  return "_ZN4absl" + std::to_string(space.size()) + space + rest;
}

grpc_event Taken(const grpc_event& event) {
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(event.tag);
  return event;
}

}  // namespace

extern "C" {

grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t count, void* tag,
                                      void* reserved) {
  static auto* const next = Next<decltype(grpc_call_start_batch)>("grpc_call_start_batch");
  __tsan_release(tag);
  return next(call, ops, count, tag, reserved);
}

grpc_event grpc_completion_queue_next(grpc_completion_queue* queue, gpr_timespec deadline,
                                      void* reserved) {
  static auto* const next =
      Next<decltype(grpc_completion_queue_next)>("grpc_completion_queue_next");
  return Taken(next(queue, deadline, reserved));
}

grpc_event grpc_completion_queue_pluck(grpc_completion_queue* queue, void* tag,
                                       gpr_timespec deadline, void* reserved) {
  static auto* const next =
      Next<decltype(grpc_completion_queue_pluck)>("grpc_completion_queue_pluck");
  return Taken(next(queue, tag, deadline, reserved));
}

}  // extern "C"

namespace grpc::internal {

void ServerCallbackCall::ScheduleOnDone(bool inline_ondone) {
  static auto* const next = Next<void(ServerCallbackCall*, bool)>(
      "_ZN4grpc8internal18ServerCallbackCall14ScheduleOnDoneEb");
  __tsan_acquire(&callbacks_outstanding_);
  next(this, inline_ondone);
}

void ServerCallbackCall::CallOnCancel(ServerReactor* reactor) {
  static auto* const next = Next<void(ServerCallbackCall*, ServerReactor*)>(
      "_ZN4grpc8internal18ServerCallbackCall12CallOnCancelEPNS0_13ServerReactorE");
  __tsan_acquire(&on_cancel_conditions_remaining_);
  next(this, reactor);
}

}  // namespace grpc::internal

namespace grpc {

void Server::UnrefWithPossibleNotify() {
  static auto* const next = Next<void(Server*)>("_ZN4grpc6Server23UnrefWithPossibleNotifyEv");
  __tsan_release(this);
  next(this);
}

void Server::UnrefAndWaitLocked() {
  static auto* const next = Next<void(Server*)>("_ZN4grpc6Server18UnrefAndWaitLockedEv");
  next(this);
  __tsan_acquire(this);
}

}  // namespace grpc

// The methods by which gRPC's libraries lock and wait.
namespace absl {
ABSL_NAMESPACE_BEGIN

Mutex::~Mutex() {
  static auto* const next = Next<void(Mutex*)>(AbslSymbol("5MutexD1Ev"));
  __tsan_acquire(this);
  next(this);
}

void Mutex::Lock() {
  static auto* const next = Next<void(Mutex*)>(AbslSymbol("5Mutex4LockEv"));
  next(this);
  __tsan_acquire(this);
}

bool Mutex::TryLock() {
  static auto* const next = Next<bool(Mutex*)>(AbslSymbol("5Mutex7TryLockEv"));
  const bool locked = next(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::Unlock() {
  static auto* const next = Next<void(Mutex*)>(AbslSymbol("5Mutex6UnlockEv"));
  __tsan_release(this);
  next(this);
}

void CondVar::Wait(Mutex* mutex) {
  static auto* const next = Next<void(CondVar*, Mutex*)>(AbslSymbol("7CondVar4WaitEPNS0_5MutexE"));
  __tsan_release(mutex);
  next(this, mutex);
  __tsan_acquire(mutex);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  static auto* const next = Next<bool(CondVar*, Mutex*, Duration)>(
      AbslSymbol("7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE"));
  __tsan_release(mutex);
  const bool timed_out = next(this, mutex, timeout);
  __tsan_acquire(mutex);
  return timed_out;
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static auto* const next = Next<bool(CondVar*, Mutex*, Time)>(
      AbslSymbol("7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE"));
  __tsan_release(mutex);
  const bool timed_out = next(this, mutex, deadline);
  __tsan_acquire(mutex);
  return timed_out;
}

ABSL_NAMESPACE_END
}  // namespace absl
