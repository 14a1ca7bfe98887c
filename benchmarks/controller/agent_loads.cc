#include <atomic>
#include <chrono>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "benchmarks/controller/loads.h"
#include "benchmarks/controller/sim_agent.h"
#include "benchmarks/controller/target.h"
#include "common/rpc/token.h"

namespace muster::benchmarks {
namespace {

// Below the controller's bound of streams on one connection.
constexpr int kStreamsPerChannel = 100;
constexpr double kConnectSeconds = 60;
// What a training rank reports.
const std::map<std::string, double> kReported = {
    {"loss", 0.5},          {"lr", 1e-3},
    {"grad_norm", 1.5},     {"samples_per_second", 900},
    {"step_seconds", 0.07}, {"data_seconds", 0.01},
    {"memory_bytes", 1e9},  {"memory_peak_bytes", 2e9}};

struct Options {
  std::string data_dir;
  int agents = 16;
  uint32_t slots = 64;
  int jobs = 200;
  uint32_t ranks = 64;
  int runs = 100;
  double seconds = 10;
  double interval = 3;
  bool announce = false;
};

template <typename T>
T OrThrow(absl::StatusOr<T> value) {
  if (!value.ok()) throw std::runtime_error(value.status().ToString());
  return *std::move(value);
}

// Polls: precise to a fiftieth of a second, which is enough for what it waits for.
template <typename Condition>
bool WaitUntil(double end, Condition condition) {
  while (!condition()) {
    if (SteadySeconds() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

v1::SubmitRequest GangRequest(uint32_t ranks) {
  return OrThrow(SubmitRequestOf(absl::StrCat(
      "name: gang\nranks: ", ranks,
      "\nplacement: {wait_for_capacity: true}\n"
      "train: {model: {mlp: {hidden: [8]}}, data: {synthetic: {samples: 64, shape: [8]}},"
      " batch_size: 64, steps: 10}\n")));
}

v1::SubmitRequest CommandGangRequest(uint32_t ranks) {
  return OrThrow(SubmitRequestOf(absl::StrCat("name: gang\nranks: ", ranks,
                                              "\nplacement: {wait_for_capacity: true}\n"
                                              "command: {argv: [/bin/true], workdir: /tmp}\n")));
}

uint64_t SubmitOne(v1::JobService::Stub& stub, const Target& target, v1::SubmitRequest request) {
  grpc::ClientContext context;
  AddToken(context, target.token);
  request.set_idempotency_key(FreshKey());
  v1::SubmitResponse response;
  const grpc::Status status = stub.Submit(&context, request, &response);
  if (!status.ok()) throw std::runtime_error("submit: " + status.error_message());
  return response.job_id();
}

// Agents and the channels that carry them.
class Fleet {
 public:
  Fleet(const Target& target, const Options& options, bool ranks_end,
        std::function<void(const v1::StartRanks&)> on_start = {}, uint32_t meet = 0) {
    for (int i = 0; i < options.agents; ++i) {
      if (i % kStreamsPerChannel == 0) {
        stubs_.push_back(v1::WorkerService::NewStub(LastingChannel(target.workers)));
      }
      agents_.push_back(SimAgent::Connect(*stubs_.back(),
                                          {.name = absl::StrFormat("sim-%05d", i),
                                           .slots = options.slots,
                                           .pool = "default",
                                           .token = target.token,
                                           .ranks_end = ranks_end,
                                           .meet = meet,
                                           .latest = kReported,
                                           .on_start = on_start},
                                          counts_));
    }
  }
  ~Fleet() {
    for (const auto& agent : agents_) agent->Hang();
    for (const auto& agent : agents_) agent->Join();
  }
  bool WaitUntilWelcome() {
    return WaitUntil(SteadySeconds() + kConnectSeconds,
                     [this] { return counts_.welcomed >= agents_.size(); });
  }
  AgentCounts& counts() { return counts_; }
  const std::vector<std::shared_ptr<SimAgent>>& agents() const { return agents_; }

 private:
  AgentCounts counts_;
  std::vector<std::unique_ptr<v1::WorkerService::Stub>> stubs_;
  std::vector<std::shared_ptr<SimAgent>> agents_;
};

// Gangs wait in the queue; then the agents come, and each rank is reported started, running and
// ended: three durable changes, each acknowledged after its commit.
void Reports(const Options& options) {
  const Target target = OrThrow(FindTarget(options.data_dir));
  const auto stubs = PeopleStubs(target, 1);
  const v1::SubmitRequest request = GangRequest(options.ranks);
  for (int i = 0; i < options.jobs; ++i) SubmitOne(*stubs[0], target, request);
  const uint64_t ranks = uint64_t{options.ranks} * options.jobs;
  const double began = SteadySeconds();
  Fleet fleet(target, options, /*ranks_end=*/true);
  const bool finished =
      WaitUntil(began + options.seconds, [&] { return fleet.counts().ranks_ended >= ranks; });
  const double took = SteadySeconds() - began;
  const uint64_t changes = fleet.counts().events_durable;
  PrintLine({{"load", "reports"},
             {"agents", options.agents},
             {"ranks_a_gang", options.ranks},
             {"gangs", options.jobs},
             {"finished", finished},
             {"seconds", took},
             {"changes", changes},
             {"per_s", static_cast<double>(changes) / took},
             {"gangs_per_s", static_cast<double>(fleet.counts().started_gangs) / took}});
}

// One job at a time on an idle cluster: from the moment at which the submit is sent to the moment
// at which its assignment is at the agent.
void Start(const Options& options) {
  const Target target = OrThrow(FindTarget(options.data_dir));
  const auto stubs = PeopleStubs(target, 1);
  const v1::SubmitRequest request = GangRequest(1);
  std::atomic<double> arrived = 0;
  Fleet fleet(target, options, /*ranks_end=*/true,
              [&arrived](const v1::StartRanks&) { arrived = SteadySeconds(); });
  if (!fleet.WaitUntilWelcome()) throw std::runtime_error("the agents were not welcomed");
  Latencies to_answer;
  Latencies to_agent;
  for (int i = 0; i < options.runs; ++i) {
    arrived = 0;
    const double sent = SteadySeconds();
    SubmitOne(*stubs[0], target, request);
    to_answer.Add(SteadySeconds() - sent);
    const uint64_t ended = i + 1;
    const bool done = WaitUntil(
        sent + 10, [&] { return arrived.load() > 0 && fleet.counts().ranks_ended >= ended; });
    if (!done) throw std::runtime_error("a job did not start");
    to_agent.Add(arrived.load() - sent);
  }
  PrintLine({{"load", "start"},
             {"runs", options.runs},
             {"submit_answered", to_answer.Summary()},
             {"assignment_at_agent", to_agent.Summary()}});
}

// Heartbeats until `end`, spread over the interval, as those of real agents are.
void Beat(const Fleet& fleet, double interval, double end) {
  const double began = SteadySeconds();
  const double pause = interval / static_cast<double>(fleet.agents().size());
  uint64_t turn = 0;
  while (SteadySeconds() < end) {
    fleet.agents()[turn % fleet.agents().size()]->Heartbeat();
    ++turn;
    const double ahead = began + static_cast<double>(turn) * pause - SteadySeconds();
    if (ahead > 0) std::this_thread::sleep_for(std::chrono::duration<double>(ahead));
  }
}

Json HeartbeatLatencies(AgentCounts& counts) {
  std::lock_guard<std::mutex> lock(counts.mutex);
  return counts.heartbeat_latencies.Summary();
}

// One gang with a rank on each agent: its ranks meet in its store and run, and each agent sends
// heartbeats that tell of its rank.
void OneGang(const Options& options) {
  const Target target = OrThrow(FindTarget(options.data_dir));
  const auto stubs = PeopleStubs(target, 1);
  const uint64_t ranks = options.agents;
  Fleet fleet(target, options, /*ranks_end=*/false, {}, options.agents);
  if (!fleet.WaitUntilWelcome()) throw std::runtime_error("the agents were not welcomed");
  AgentCounts& counts = fleet.counts();
  const double idle_cpu = ProcessorSeconds(target.pid);
  const double began = SteadySeconds();
  SubmitOne(*stubs[0], target, CommandGangRequest(options.agents));
  const auto wait = [&](const char* what, auto condition) {
    if (WaitUntil(began + 120, condition)) return SteadySeconds() - began;
    std::lock_guard<std::mutex> lock(counts.mutex);
    throw std::runtime_error(absl::StrCat("the gang did not ", what, ": ", counts.last_error));
  };
  const double started =
      wait("start", [&] { return counts.started_gangs >= static_cast<uint64_t>(options.agents); });
  const double met = wait("meet", [&] { return counts.ranks_met >= ranks; });
  const double running = wait("run", [&] { return counts.events_durable >= 2 * ranks; });
  const double running_cpu = ProcessorSeconds(target.pid);
  // The first heartbeat of each tells of a new rank, the others of what has moved.
  Beat(fleet, options.interval, SteadySeconds() + options.interval);
  WaitUntil(SteadySeconds() + 30,
            [&] { return counts.heartbeats_answered >= counts.heartbeats_sent; });
  const double first_cpu = ProcessorSeconds(target.pid);
  const uint64_t first = counts.heartbeats_answered;
  Beat(fleet, options.interval, SteadySeconds() + options.seconds);
  WaitUntil(SteadySeconds() + 30,
            [&] { return counts.heartbeats_answered >= counts.heartbeats_sent; });
  const double last_cpu = ProcessorSeconds(target.pid);
  const auto beats = static_cast<double>(counts.heartbeats_answered - first);
  PrintLine({{"load", "gang"},
             {"ranks", ranks},
             {"assigned_s", started},
             {"met_s", met},
             {"running_s", running},
             {"start_cpu_us_a_rank", (running_cpu - idle_cpu) * 1e6 / static_cast<double>(ranks)},
             {"first_beat_cpu_us", (first_cpu - running_cpu) * 1e6 / static_cast<double>(first)},
             {"beat_cpu_us", (last_cpu - first_cpu) * 1e6 / beats},
             {"latency", HeartbeatLatencies(counts)},
             {"streams_lost", counts.ended.load()},
             {"musterd_rss_mib", static_cast<double>(ResidentBytes(target.pid)) / (1 << 20)}});
}

void Heartbeats(const Options& options) {
  const Target target = OrThrow(FindTarget(options.data_dir));
  const double began = SteadySeconds();
  Fleet fleet(target, options, /*ranks_end=*/false);
  const bool welcomed = fleet.WaitUntilWelcome();
  const double connected = SteadySeconds();
  const double end = connected + options.seconds;
  if (options.announce) PrintLine({{"load", "heartbeats"}, {"ready", welcomed}});
  Beat(fleet, options.interval, end);
  const double took = SteadySeconds() - connected;
  WaitUntil(SteadySeconds() + 2,
            [&] { return fleet.counts().heartbeats_answered >= fleet.counts().heartbeats_sent; });
  const Json latency = HeartbeatLatencies(fleet.counts());
  std::string error;
  {
    std::lock_guard<std::mutex> lock(fleet.counts().mutex);
    error = fleet.counts().last_error;
  }
  PrintLine({{"load", "heartbeats"},
             {"agents", options.agents},
             {"welcomed", fleet.counts().welcomed.load()},
             {"all_welcomed", welcomed},
             {"connect_seconds", connected - began},
             {"wanted_per_s", options.agents / options.interval},
             {"sent_per_s", static_cast<double>(fleet.counts().heartbeats_sent) / took},
             {"answered_per_s", static_cast<double>(fleet.counts().heartbeats_answered) / took},
             {"streams_lost", fleet.counts().ended.load()},
             {"last_error", error},
             {"latency", latency},
             {"musterd_rss_mib", static_cast<double>(ResidentBytes(target.pid)) / (1 << 20)}});
}

// Keeps jobs running that report values, so that the controller has series to show; says {"ready"}
// when all of them have reported, and ends when its standard input does.
void KeepSeries(const Options& options) {
  const Target target = OrThrow(FindTarget(options.data_dir));
  const auto stubs = PeopleStubs(target, 1);
  const v1::SubmitRequest request = GangRequest(1);
  Fleet fleet(target, options, /*ranks_end=*/false);
  if (!fleet.WaitUntilWelcome()) throw std::runtime_error("the agents were not welcomed");
  for (int i = 0; i < options.jobs; ++i) SubmitOne(*stubs[0], target, request);
  AgentCounts& counts = fleet.counts();
  const uint64_t jobs = options.jobs;
  const bool running = WaitUntil(SteadySeconds() + options.seconds, [&] {
    return counts.started_gangs >= jobs && counts.events_durable >= 2 * jobs;
  });
  if (!running) throw std::runtime_error("the jobs did not start");
  for (const auto& agent : fleet.agents()) agent->Heartbeat();
  WaitUntil(SteadySeconds() + options.seconds,
            [&] { return counts.heartbeats_answered >= fleet.agents().size(); });
  PrintLine({{"load", "series"}, {"ready", true}, {"jobs", options.jobs}});
  std::atomic<bool> over = false;
  std::thread input([&over] {
    while (std::cin.get() != EOF) {
    }
    over = true;
  });
  double next = SteadySeconds();
  while (!over) {
    if (SteadySeconds() >= next) {
      for (const auto& agent : fleet.agents()) agent->Heartbeat();
      next += options.interval;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  input.join();
}

}  // namespace

void AddAgentLoads(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* reports = app.add_subcommand("reports", "durable reports of simulated ranks");
  CLI::App* start = app.add_subcommand("start", "submit to the assignment's arrival, idle");
  CLI::App* heartbeats = app.add_subcommand("heartbeats", "agents that only live");
  CLI::App* gang = app.add_subcommand("gang", "one gang with a rank on each agent");
  CLI::App* series = app.add_subcommand("series", "running jobs with series, until stdin ends");
  for (CLI::App* command : {reports, start, heartbeats, gang, series}) {
    command->add_option("--data-dir", options->data_dir, "of musterd")->required();
    command->add_option("--agents", options->agents)->capture_default_str();
    command->add_option("--slots", options->slots, "of each agent")->capture_default_str();
    command->add_option("--seconds", options->seconds, "most")->capture_default_str();
  }
  reports->add_option("--jobs", options->jobs)->capture_default_str();
  reports->add_option("--ranks", options->ranks, "of each job")->capture_default_str();
  start->add_option("--runs", options->runs)->capture_default_str();
  for (CLI::App* command : {heartbeats, gang}) {
    command->add_option("--interval", options->interval, "seconds")->capture_default_str();
  }
  heartbeats->add_flag("--announce", options->announce, "print a line once all are welcomed");
  series->add_option("--jobs", options->jobs)->capture_default_str();
  reports->callback([options] { Reports(*options); });
  start->callback([options] { Start(*options); });
  heartbeats->callback([options] { Heartbeats(*options); });
  gang->callback([options] { OneGang(*options); });
  series->callback([options] { KeepSeries(*options); });
}

}  // namespace muster::benchmarks
