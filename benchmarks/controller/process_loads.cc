// Loads that are processes: a command line started again and again (a CLI's submits), and jobs that
// real agents run.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "benchmarks/controller/loads.h"
#include "benchmarks/controller/measure.h"
#include "benchmarks/controller/stamp_socket.h"
#include "benchmarks/controller/submit_stream.h"
#include "benchmarks/controller/target.h"
#include "common/rpc/token.h"

namespace muster::benchmarks {
namespace {

struct Options {
  std::vector<std::string> command;
  int parallel = 1;
  double seconds = 2;
  std::string data_dir;
  std::string spec;
  std::string stamp;
  uint64_t jobs = 0;
  uint64_t warm_up = 0;  // jobs
  int runs = 50;
};

template <typename T>
T OrThrow(absl::StatusOr<T> value) {
  if (!value.ok()) throw std::runtime_error(value.status().ToString());
  return *std::move(value);
}

pid_t Spawn(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", 1 /* O_WRONLY */, 0);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, argv[0], &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) throw std::runtime_error(command[0] + ": cannot be started");
  return pid;
}

void SpawnLoop(const Options& options) {
  const double began = SteadySeconds();
  const double end = began + options.seconds;
  int live = 0;
  uint64_t done = 0;
  uint64_t failed = 0;
  while (live > 0 || SteadySeconds() < end) {
    if (live < options.parallel && SteadySeconds() < end) {
      Spawn(options.command);
      ++live;
      continue;
    }
    int status = 0;
    if (::wait(&status) < 0) throw std::runtime_error("a child was lost");
    --live;
    ++done;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) ++failed;
  }
  PrintLine({{"load", "spawn"},
             {"parallel", options.parallel},
             {"runs", done},
             {"failed", failed},
             {"per_s", static_cast<double>(done) / (SteadySeconds() - began)}});
}

v1::SubmitRequest RequestOf(const std::string& spec_file, const std::string& stamp,
                            const std::string& socket) {
  std::ifstream file(spec_file);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) throw std::runtime_error(spec_file + ": cannot be read");
  return OrThrow(
      SubmitRequestOf(absl::StrReplaceAll(text.str(), {{"@STAMP@", stamp}, {"@SOCKET@", socket}})));
}

// Jobs that are not over yet; at most one is asked for.
bool AnyActive(v1::JobService::Stub& stub, const Target& target) {
  grpc::ClientContext context;
  AddToken(context, target.token);
  v1::ListJobsRequest request;
  for (const v1::JobState state :
       {v1::PENDING, v1::STARTING, v1::RUNNING, v1::RECOVERING, v1::STOPPING}) {
    request.add_states(state);
  }
  request.set_page_size(1);
  v1::ListJobsResponse response;
  const grpc::Status status = stub.ListJobs(&context, request, &response);
  if (!status.ok()) throw std::runtime_error("list: " + status.error_message());
  return response.jobs_size() > 0;
}

uint64_t CountSucceeded(v1::JobService::Stub& stub, const Target& target) {
  uint64_t count = 0;
  v1::ListJobsRequest request;
  request.add_states(v1::SUCCEEDED);
  request.set_page_size(1000);
  do {
    grpc::ClientContext context;
    AddToken(context, target.token);
    v1::ListJobsResponse response;
    const grpc::Status status = stub.ListJobs(&context, request, &response);
    if (!status.ok()) throw std::runtime_error("list: " + status.error_message());
    count += static_cast<uint64_t>(response.jobs_size());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return count;
}

// Between two looks whether all is over: a look costs what a tenth of a job does.
constexpr std::chrono::milliseconds kEndPoll(10);

// Durable submits of `jobs` jobs over one stream.
void SubmitAll(v1::JobService::Stub& stub, const Target& target, const v1::SubmitRequest& request,
               uint64_t jobs) {
  grpc::ClientContext context;
  AddToken(context, target.token);
  const auto stream = stub.SubmitJobs(&context);
  for (uint64_t sent = 0; sent < jobs;) {
    v1::SubmitJobsRequest message;
    for (; sent < jobs && message.submits_size() < kMostInMessage; ++sent) {
      *message.add_submits() = request;
      message.mutable_submits()->rbegin()->set_idempotency_key(FreshKey());
    }
    if (!stream->Write(message)) break;
  }
  stream->WritesDone();
  v1::SubmitJobsResponse answer;
  while (stream->Read(&answer)) {
    for (const v1::SubmitOutcome& outcome : answer.outcomes()) {
      if (outcome.code() != 0) throw std::runtime_error("submit: " + outcome.message());
    }
  }
  const grpc::Status status = stream->Finish();
  if (!status.ok()) throw std::runtime_error("submit: " + status.error_message());
}

// Submits jobs and waits until all are over, for so many seconds at most.
void RunAll(v1::JobService::Stub& stub, const Target& target, const v1::SubmitRequest& request,
            uint64_t jobs, double seconds) {
  const double end = SteadySeconds() + seconds;
  SubmitAll(stub, target, request, jobs);
  while (AnyActive(stub, target) && SteadySeconds() < end) std::this_thread::sleep_for(kEndPoll);
}

// Jobs that real agents run; before them, unmeasured, a few that bring everything into being.
void EndToEnd(const Options& options) {
  const Target target = OrThrow(FindTarget(options.data_dir));
  const v1::SubmitRequest request = RequestOf(options.spec, options.stamp, "");
  const auto stubs = PeopleStubs(target, 1);
  RunAll(*stubs[0], target, request, options.warm_up, options.seconds);
  const uint64_t before = CountSucceeded(*stubs[0], target);
  const double began = SteadySeconds();
  RunAll(*stubs[0], target, request, options.jobs, options.seconds);
  const double took = SteadySeconds() - began;
  const uint64_t succeeded = CountSucceeded(*stubs[0], target) - before;
  PrintLine({{"load", "end-to-end"},
             {"jobs", options.jobs},
             {"succeeded", succeeded},
             {"seconds", took},
             {"per_s", static_cast<double>(succeeded) / took}});
}

// One job at a time on an idle cluster: from the submit's sending to the process's main().
void StartProcess(const Options& options) {
  const Target target = OrThrow(FindTarget(options.data_dir));
  StampSocket socket;
  const v1::SubmitRequest base = RequestOf(options.spec, options.stamp, socket.path());
  const auto stubs = PeopleStubs(target, 1);
  Latencies to_start;
  for (int i = 0; i < options.runs; ++i) {
    grpc::ClientContext context;
    AddToken(context, target.token);
    v1::SubmitRequest request = base;
    request.set_idempotency_key(FreshKey());
    v1::SubmitResponse response;
    const double sent = SteadySeconds();
    const grpc::Status status = stubs[0]->Submit(&context, request, &response);
    if (!status.ok()) throw std::runtime_error("submit: " + status.error_message());
    const std::optional<double> started = socket.Receive(10);
    if (!started.has_value()) throw std::runtime_error("a job's process did not start");
    to_start.Add(*started - sent);
    const double end = SteadySeconds() + 10;
    while (AnyActive(*stubs[0], target) && SteadySeconds() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  PrintLine({{"load", "start-process"}, {"runs", options.runs}, {"process", to_start.Summary()}});
}

// The same for a command line that starts the process itself (srun): its own start is inside.
void StartByCommand(const Options& options) {
  StampSocket socket;
  std::vector<std::string> command = options.command;
  command.push_back(options.stamp);
  command.push_back(socket.path());
  Latencies to_start;
  for (int i = 0; i < options.runs; ++i) {
    const double began = SteadySeconds();
    const pid_t pid = Spawn(command);
    const std::optional<double> started = socket.Receive(10);
    if (!started.has_value()) throw std::runtime_error("the command's process did not start");
    to_start.Add(*started - began);
    int status = 0;
    ::waitpid(pid, &status, 0);
  }
  PrintLine({{"load", "start-command"}, {"runs", options.runs}, {"process", to_start.Summary()}});
}

}  // namespace

void AddProcessLoads(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* spawn = app.add_subcommand("spawn", "a command line, again and again");
  spawn->add_option("--parallel", options->parallel)->capture_default_str();
  spawn->add_option("--seconds", options->seconds)->capture_default_str();
  spawn->add_option("command", options->command)->required();
  spawn->callback([options] { SpawnLoop(*options); });

  CLI::App* end_to_end = app.add_subcommand("end-to-end", "jobs that real agents run");
  CLI::App* start = app.add_subcommand("start-process", "submit to the process's start, idle");
  for (CLI::App* command : {end_to_end, start}) {
    command->add_option("--data-dir", options->data_dir, "of musterd")->required();
    command->add_option("--spec", options->spec, "a job file")->required();
    command->add_option("--stamp", options->stamp, "muster-bench-stamp, for @STAMP@ in the spec");
  }
  end_to_end->add_option("--jobs", options->jobs)->required();
  end_to_end->add_option("--warm-up", options->warm_up, "jobs")->capture_default_str();
  end_to_end->add_option("--seconds", options->seconds, "most")->capture_default_str();
  start->add_option("--runs", options->runs)->capture_default_str();
  end_to_end->callback([options] { EndToEnd(*options); });
  start->callback([options] { StartProcess(*options); });

  CLI::App* start_command = app.add_subcommand("start-command", "the same by a command line");
  start_command->add_option("--stamp", options->stamp)->required();
  start_command->add_option("--runs", options->runs)->capture_default_str();
  start_command->add_option("command", options->command)->required();
  start_command->callback([options] { StartByCommand(*options); });
}

}  // namespace muster::benchmarks
