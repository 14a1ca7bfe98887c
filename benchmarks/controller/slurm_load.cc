// Submits to Slurm through its own C API (libslurm), from so many processes at once: C1's rival of
// our API client. The jobs are held, so that only the submission is measured, or run `true`. Prints
// one JSON line.
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "benchmarks/controller/measure.h"

namespace muster::benchmarks {
namespace {

struct Counted {
  uint64_t done = 0;
  uint64_t failed = 0;
};

bool SubmitOne(bool held) {
  static char script[] = "#!/bin/sh\nexec true\n";
  static char name[] = "bench";
  static char folder[] = "/tmp";
  static char null_file[] = "/dev/null";
  static char path[] = "PATH=/bin:/usr/bin";
  static char* environment[] = {path, nullptr};
  job_desc_msg_t job;
  slurm_init_job_desc_msg(&job);
  job.name = name;
  job.script = script;
  job.work_dir = folder;
  job.std_in = null_file;
  job.std_out = null_file;
  job.std_err = null_file;
  job.environment = environment;
  job.env_size = 1;
  job.user_id = ::getuid();
  job.group_id = ::getgid();
  job.min_cpus = 1;
  job.num_tasks = 1;
  if (held) job.priority = 0;
  submit_response_msg_t* response = nullptr;
  if (slurm_submit_batch_job(&job, &response) != SLURM_SUCCESS) return false;
  slurm_free_submit_response_response_msg(response);
  return true;
}

Counted Loop(double end, uint64_t most, bool held) {
  Counted counted;
  while (SteadySeconds() < end && (most == 0 || counted.done < most)) {
    if (SubmitOne(held)) {
      ++counted.done;
    } else {
      ++counted.failed;
      ::usleep(1000);
    }
  }
  return counted;
}

void Run(int clients, double seconds, uint64_t most, bool held) {
  int pipe_fds[2];
  if (::pipe(pipe_fds) != 0) throw std::runtime_error("no pipe");
  const double began = SteadySeconds();
  for (int i = 0; i < clients; ++i) {
    if (::fork() != 0) continue;
    slurm_init(nullptr);
    const uint64_t share = most == 0 ? 0 : most / clients + (i < static_cast<int>(most % clients));
    const Counted counted =
        most != 0 && share == 0 ? Counted() : Loop(began + seconds, share, held);
    const ssize_t wrote = ::write(pipe_fds[1], &counted, sizeof(counted));
    ::_exit(wrote == sizeof(counted) ? 0 : 1);
  }
  Counted all;
  for (int i = 0; i < clients; ++i) {
    Counted one;
    if (::read(pipe_fds[0], &one, sizeof(one)) != sizeof(one)) break;
    all.done += one.done;
    all.failed += one.failed;
  }
  const double took = SteadySeconds() - began;
  while (::wait(nullptr) > 0) {
  }
  PrintLine({{"load", "slurm-api"},
             {"clients", clients},
             {"calls", all.done},
             {"failed", all.failed},
             {"per_s", static_cast<double>(all.done) / took}});
}

}  // namespace
}  // namespace muster::benchmarks

int main(int argc, char** argv) {
  CLI::App app("Submits to the Slurm of SLURM_CONF through libslurm.");
  int clients = 1;
  double seconds = 3;
  uint64_t most = 0;
  bool run = false;
  app.add_option("--clients", clients, "processes")->capture_default_str();
  app.add_option("--seconds", seconds, "most")->capture_default_str();
  app.add_option("--most", most, "jobs in all; 0: no bound")->capture_default_str();
  app.add_flag("--run", run, "let the jobs run; else they are held");
  CLI11_PARSE(app, argc, argv);
  try {
    muster::benchmarks::Run(clients, seconds, most, !run);
  } catch (const std::exception& error) {
    std::cerr << "muster-bench-slurm: " << error.what() << std::endl;
    return 1;
  }
  return 0;
}
