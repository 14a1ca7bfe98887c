// Seconds of one all-reduce between two ranks of this host, through shared memory and through Gloo.
//
// Prints a line of JSON for each transport and size: the median over the calls of one block. The
// two transports take turns within one run. Used by benchmarks/train/run.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>

#include "tests/worker/dist/folder_key_value.h"
#include "worker/dist/gang.h"

namespace muster::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kSizes[] = {4 << 10, 512 << 10, 4 << 20};  // bytes
constexpr int kWarmUp = 20;
constexpr double kSecondsPerBlock = 0.4;

double SecondsOf(Collectives& gang, at::Tensor& value) {
  const Clock::time_point start = Clock::now();
  gang.AllReduceSum(value);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Both ranks make the same number of calls: rank 0 says how many.
double MedianSeconds(Collectives& gang, int64_t bytes) {
  at::Tensor value = at::ones({bytes / 4});
  double warm = 0;
  for (int call = 0; call < kWarmUp; ++call) warm += SecondsOf(gang, value);
  at::Tensor calls = at::ones({1}, at::kLong)
                         .mul_(std::clamp<int64_t>(
                             static_cast<int64_t>(kSecondsPerBlock * kWarmUp / warm), 20, 20000));
  gang.Broadcast(calls, 0);
  std::vector<double> seconds(static_cast<size_t>(calls.item<int64_t>()));
  for (double& each : seconds) {
    value.fill_(1.0f);
    each = SecondsOf(gang, value);
  }
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

void RunRank(int rank, const std::string& folder) {
  at::set_num_threads(1);
  auto store = std::make_shared<muster::testing::FolderKeyValue>(folder);
  const auto join = [&](Transport transport, const char* prefix) {
    CollectivesOptions options;
    options.rank = rank;
    options.world_size = 2;
    options.transport = transport;
    options.prefix = prefix;
    return Gang::Form(store, options).value();  // ends the program when it cannot be had
  };
  const auto shared_memory = join(Transport::kSharedMemory, "shared/");
  const auto gloo = join(Transport::kGloo, "gloo/");
  for (const int64_t bytes : kSizes) {
    for (Collectives* gang : {shared_memory.get(), gloo.get()}) {
      const double seconds = MedianSeconds(*gang, bytes);
      if (rank != 0) continue;
      std::printf("{\"transport\": \"%s\", \"bytes\": %lld, \"seconds\": %.9f}\n",
                  gang->transport().c_str(), static_cast<long long>(bytes), seconds);
    }
  }
}

int Main() {
  char folder[] = "/tmp/muster-allreduce-XXXXXX";
  if (::mkdtemp(folder) == nullptr) return EXIT_FAILURE;
  const pid_t child = ::fork();  // before anything of torch runs
  int result = EXIT_SUCCESS;
  try {
    RunRank(child == 0 ? 1 : 0, folder);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "allreduce: %s\n", error.what());
    result = EXIT_FAILURE;
  }
  if (child == 0) std::exit(result);
  int status = 0;
  ::waitpid(child, &status, 0);
  std::filesystem::remove_all(folder);
  return status == 0 ? result : EXIT_FAILURE;
}

}  // namespace
}  // namespace muster::worker

int main() { return muster::worker::Main(); }
