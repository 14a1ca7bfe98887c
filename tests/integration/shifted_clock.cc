// Preloaded into a program: its wall clock is MUSTER_CLOCK_SHIFT seconds off. Clocks that are not
// of the wall go right.
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

namespace {

time_t Shift() {
  static const time_t shift = [] {
    const char* text = ::getenv("MUSTER_CLOCK_SHIFT");
    return text == nullptr ? 0 : static_cast<time_t>(::atoll(text));
  }();
  return shift;
}

int RealClockGettime(clockid_t clock, timespec* now) {
  using Get = int (*)(clockid_t, timespec*);
  static const Get get = reinterpret_cast<Get>(::dlsym(RTLD_NEXT, "clock_gettime"));
  return get(clock, now);
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const int got = RealClockGettime(clock, now);
  if (got == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    now->tv_sec += Shift();
  }
  return got;
}

extern "C" int gettimeofday(timeval* now, void*) noexcept {
  timespec precise = {};
  const int got = clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return got;
}

extern "C" time_t time(time_t* now) noexcept {
  timespec precise = {};
  (void)clock_gettime(CLOCK_REALTIME, &precise);
  if (now != nullptr) *now = precise.tv_sec;
  return precise.tv_sec;
}
