// Moves the jobs that have ended from memory to history.db in the data folder of a musterd that
// does not run. musterd itself does so an hour after their end at the earliest, and no test of the
// page waits for so long.
#include <cstdio>
#include <memory>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "controller/engine/engine.h"
#include "controller/this_boot.h"

namespace muster::controller {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);

bool HasEndedJob(const Snapshot& snapshot) {
  bool found = false;
  snapshot.jobs.ForEach([&](const Job& job) { found = found || IsTerminal(job.state); });
  return found;
}

int ArchiveEndedJobs(const char* data_dir) {
  RealClock clock;
  EngineOptions options;
  options.data_dir = data_dir;
  options.boot = ThisBoot();
  options.archive = {.recent = 0,
                     .least_kept = absl::ZeroDuration(),
                     .least_kept_beyond_recent = absl::ZeroDuration()};
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Open(std::move(options), clock);
  if (!engine.ok()) {
    std::fprintf(stderr, "%s: %s\n", data_dir, engine.status().ToString().c_str());
    return 1;
  }
  (*engine)->Start();
  const absl::Duration end = clock.SinceBoot() + kPatience;
  while (HasEndedJob(*(*engine)->snapshot()) && clock.SinceBoot() < end) {
    absl::SleepFor(absl::Milliseconds(50));
  }
  const bool all_left = !HasEndedJob(*(*engine)->snapshot());
  std::printf("%zu\n", (*engine)->history().jobs());
  (*engine)->Stop();
  return all_left ? 0 : 1;
}

}  // namespace
}  // namespace muster::controller

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: archive_ended_jobs DATA_DIR\n");
    return 2;
  }
  return muster::controller::ArchiveEndedJobs(argv[1]);
}
