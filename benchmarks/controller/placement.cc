// How fast the scheduler decides: C4 of docs/benchmarks.md. One core, nothing stored.
//
//   fill    all slots are free: one call places as many gangs as one plan may hold. The same
//           snapshot again and again, since a decision changes nothing.
//   churn   all slots are held and the queue is long: some gangs end, one call fills the holes.
//   table   the time to fill an empty cluster (several calls, the first of which reads the whole
//           snapshot) and of one call in churn, by nodes and queued jobs.
//   million decisions (placed gangs) until a million are reached, by `fill`.
//
// "decide" is the scheduler alone (one that lives on, as in musterd's loop), "apply" what the
// applier's rules take to judge and apply the plan to a draft. Prints one JSON object a line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include "benchmarks/controller/cluster_model.h"
#include "benchmarks/controller/measure.h"
#include "controller/policy/scheduler.h"

namespace muster::benchmarks {
namespace {

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// Of this thread: what the machine's other work does not blur.
double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

struct Round {
  uint64_t placed = 0;
  double decide_s = 0;
  double decide_cpu_s = 0;
  double apply_s = 0;
};

// One call of the scheduler, and the applier's share.
Round Decide(ClusterModel& cluster, controller::Scheduler& scheduler, bool keep) {
  Round round;
  const double began = SteadySeconds();
  const double began_cpu = CpuSeconds();
  const controller::Plan plan =
      scheduler.Decide(cluster.snapshot(), {.now = cluster.now(), .wall = absl::UnixEpoch()}).plan;
  const double decided = SteadySeconds();
  round.decide_cpu_s = CpuSeconds() - began_cpu;
  round.placed = cluster.Apply(plan, keep);
  round.decide_s = decided - began;
  round.apply_s = SteadySeconds() - decided;
  return round;
}

Json Rates(const Round& sum) {
  return {{"placed", sum.placed},
          {"decide_s", sum.decide_s},
          {"decide_cpu_s", sum.decide_cpu_s},
          {"apply_s", sum.apply_s},
          {"placements_per_s", sum.placed / sum.decide_s},
          {"placements_per_cpu_s", sum.placed / sum.decide_cpu_s},
          {"placements_per_s_applied", sum.placed / (sum.decide_s + sum.apply_s)}};
}

// Fills an empty cluster again and again until `enough` gangs were placed or the time is over.
void Fill(const ClusterSize& size, uint64_t enough, double seconds, const char* row) {
  ClusterModel cluster(size, 1);
  controller::Scheduler scheduler;
  Round sum;
  uint64_t calls = 0;
  const double began = SteadySeconds();
  do {
    const Round round = Decide(cluster, scheduler, false);
    sum.placed += round.placed;
    sum.decide_s += round.decide_s;
    sum.decide_cpu_s += round.decide_cpu_s;
    sum.apply_s += round.apply_s;
    ++calls;
  } while (sum.placed < enough && SteadySeconds() - began < seconds);
  Json line = {{"row", row},
               {"nodes", size.nodes},
               {"queued", size.queued},
               {"calls", calls},
               {"complete", sum.placed >= enough}};
  line.update(Rates(sum));
  PrintLine(line);
}

struct CallTimes {
  double fill_ms = 0;
  double churn_ms = 0;  // median
  Round sum;            // of the churning calls
};

CallTimes Churn(const ClusterSize& size, uint32_t gangs_a_round, int rounds, double seconds) {
  ClusterModel cluster(size, 1);
  controller::Scheduler scheduler;
  CallTimes times;
  const double began = SteadySeconds();
  Round round;
  do {
    round = Decide(cluster, scheduler, true);
    times.fill_ms += round.decide_s * 1e3;
  } while (round.placed > 0);
  std::vector<double> calls;
  for (int i = 0; i < rounds && (i < 3 || SteadySeconds() - began < seconds); ++i) {
    cluster.Replace(gangs_a_round);
    round = Decide(cluster, scheduler, true);
    calls.push_back(round.decide_s * 1e3);
    times.sum.placed += round.placed;
    times.sum.decide_s += round.decide_s;
    times.sum.decide_cpu_s += round.decide_cpu_s;
    times.sum.apply_s += round.apply_s;
  }
  times.churn_ms = Median(calls);
  return times;
}

// A cell is left out when the one before it, grown by the product of nodes and jobs (the worst that
// a scheduler may cost), would not fit in `cell_seconds`.
void Table(double cell_seconds) {
  for (uint32_t nodes : {100u, 1000u, 10000u}) {
    double expected_s = 0;
    for (uint32_t queued : {1000u, 10000u, 100000u}) {
      Json line = {{"row", "C4-table"}, {"nodes", nodes}, {"queued", queued}};
      if (expected_s > cell_seconds) {
        line["left_out"] = "would take too long";
      } else {
        const CallTimes times =
            Churn({.nodes = nodes, .queued = queued}, std::max(1u, nodes / 100), 30, cell_seconds);
        line["fill_ms"] = times.fill_ms;
        line["churn_ms"] = times.churn_ms;
        expected_s = 10 * (times.fill_ms + 3 * times.churn_ms) / 1e3;
      }
      PrintLine(line);
    }
  }
}

}  // namespace
}  // namespace muster::benchmarks

int main(int argc, char** argv) {
  using namespace muster::benchmarks;
  CLI::App app("How fast the scheduler places gangs; prints JSON lines.");
  ClusterSize size{.nodes = 5000, .queued = 100000};
  double seconds = 10;
  double cell_seconds = 10;
  std::vector<std::string> what{"fill", "churn", "table", "million"};
  app.add_option("what", what, "fill, churn, table, million; default: all")
      ->check(CLI::IsMember({"fill", "churn", "table", "million"}));
  app.add_option("--nodes", size.nodes, "for fill, churn and million")->capture_default_str();
  app.add_option("--queued", size.queued, "gangs, for fill, churn and million")
      ->capture_default_str();
  app.add_option("--seconds", seconds, "most for fill and for churn")->capture_default_str();
  app.add_option("--cell-seconds", cell_seconds, "most for one cell of the table")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  for (const std::string& part : what) {
    if (part == "fill") Fill(size, ~0ull, seconds, "C4-fill");
    if (part == "million") Fill(size, 1'000'000, 60, "C4-million");
    if (part == "table") Table(cell_seconds);
    if (part != "churn") continue;
    const uint32_t gangs = std::max(1u, size.nodes / 50);
    const CallTimes times = Churn(size, gangs, 200, seconds);
    Json line = {{"row", "C4-churn"},
                 {"nodes", size.nodes},
                 {"queued", size.queued},
                 {"gangs_a_call", gangs},
                 {"call_ms", times.churn_ms}};
    line.update(Rates(times.sum));
    PrintLine(line);
  }
  return 0;
}
