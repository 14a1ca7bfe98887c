#include "cli/output/views/top_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/output/text.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

const absl::Time kTopNow = absl::FromUnixMillis(1'700'000'100'000);

v1::WorkerInfo Worker(const std::string& name, uint32_t used) {
  v1::WorkerInfo worker;
  worker.set_name(name);
  worker.set_state("ready");
  worker.add_slots();
  worker.add_slots();
  worker.set_slots_used(used);
  worker.set_cpus(4);
  worker.set_memory_bytes(8ull << 30);
  return worker;
}

TEST(TopLines, ShowsWhatIsHeldAndWhatIsInUse) {
  TopPicture picture;
  picture.workers = {Worker("idle", 0), Worker("busy", 1)};
  picture.workers[1].mutable_use()->set_cpus(2.26);
  picture.workers[1].mutable_use()->set_memory_bytes(3ull << 30);
  picture.workers[1].add_job_ids(7);
  v1::JobSummary job;
  job.set_id(7);
  job.set_name("digits");
  job.set_state(v1::RUNNING);
  job.set_ranks(1);
  job.set_step(45);
  job.set_total_steps(100);
  job.set_loss(0.5);
  job.set_samples_per_second(1200);
  job.set_started_ms(1'700'000'040'000);
  job.add_workers("busy");
  picture.jobs = {job};
  picture.waiting = 3;
  EXPECT_THAT(
      TopLines(picture, kTopNow, 100, 0),
      ElementsAre("2 workers, 1 of 4 slots held; 1 job on them, 3 waiting", "",
                  "WORKER  STATE  SLOTS   CPUS       MEMORY  JOBS",
                  "busy    ready    1/2  2.3/4  3.0/8.0 GiB  7",
                  "idle    ready    0/2    ?/4    ?/8.0 GiB  -", "",
                  "JOB  NAME    STATE    RANKS    STEP    LOSS    RATE  MEMORY  RUNS  WORKERS",
                  "  7  digits  RUNNING      1  45/100  0.5000  1200/s       -    1m  busy"));
}

TEST(TopLines, GpusHaveAColumnWhereThereAreAny) {
  TopPicture picture;
  picture.workers = {Worker("w", 2)};
  for (const uint32_t slot : {0, 1}) {
    picture.workers[0].mutable_slots(static_cast<int>(slot))->set_index(slot);
    picture.workers[0].mutable_slots(static_cast<int>(slot))->set_memory_bytes(80ull << 30);
    v1::WorkerUse::Gpu& gpu = *picture.workers[0].mutable_use()->add_gpus();
    gpu.set_slot(slot);
    gpu.set_utilization(slot == 0 ? 1 : 0.5);
    gpu.set_memory_bytes(20ull << 30);
  }
  const std::vector<std::string> lines = TopLines(picture, kTopNow, 100, 0);
  EXPECT_EQ(lines[2], "WORKER  STATE  SLOTS   CPUS       MEMORY            GPUS  JOBS");
  EXPECT_EQ(lines[3], "w       ready    2/2  0.0/4  0.0/8.0 GiB  75% 40/160 GiB  -");
}

TEST(TopLines, WhatDoesNotFitTheScreenIsCounted) {
  TopPicture picture;
  for (int i = 0; i < 9; ++i) picture.workers.push_back(Worker("w" + std::to_string(i), 0));
  const std::vector<std::string> lines = TopLines(picture, kTopNow, 30, 4);
  ASSERT_THAT(lines, SizeIs(8));
  EXPECT_EQ(lines.back(), "and 5 further workers");
  for (const std::string& line : lines) EXPECT_LE(DisplayWidth(line), 30u) << line;
}

}  // namespace
}  // namespace muster::cli
