// What an index of many samples costs: its size, the time to make and to open it, memory, and the
// time to find a batch's samples.
//
//   muster-bench-index FOLDER SAMPLES
//
// Makes an index of as many samples of one imagined shard as ImageNet names them, looks up random
// batches in it, prints a line of JSON and removes it. Used by benchmarks/data/run.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "worker/data/index/index_writer.h"
#include "worker/data/index/sample_index.h"
#include "worker/data/order/sampler.h"

namespace muster::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kSampleBytes = 110'000;
constexpr uint64_t kBatch = 256;
constexpr uint64_t kBatches = 400;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void Must(const absl::Status& status) {
  if (status.ok()) return;
  std::cerr << "muster-bench-index: " << status.message() << "\n";
  std::exit(1);
}

// A line of /proc/self/status in MiB, such as RssAnon.
double StatusMib(const std::string& name) {
  std::ifstream file("/proc/self/status");
  std::string word;
  while (file >> word) {
    double kib = 0;
    if (word == name + ":" && file >> kib) return kib / 1024;
  }
  return 0;
}

void Make(const std::string& path, uint64_t samples) {
  IndexWriter writer(PosixFileSystem(), path);
  const uint32_t file = writer.AddFile("/data/train.tar", samples * kSampleBytes);
  for (uint64_t i = 0; i < samples; ++i) {
    const uint64_t label = i % 1000;
    Must(writer.Add({absl::StrFormat("n%08d/n%08d_%d", label, label, i), file, i * kSampleBytes,
                     kSampleBytes, static_cast<int64_t>(label)}));
  }
  Must(writer.Finish({}));
}

void Run(const std::string& folder, uint64_t samples) {
  const std::string path = absl::StrCat(folder, "/growth-", samples);
  const Clock::time_point begin = Clock::now();
  Make(path, samples);
  const double make_seconds = SecondsSince(begin);
  const double make_peak_mib = StatusMib("VmHWM");
  const double before_mib = StatusMib("RssAnon");

  const Clock::time_point opening = Clock::now();
  auto index = SampleIndex::Open(path);
  Must(index.status());
  const double open_seconds = SecondsSince(opening);
  const double opened_mib = StatusMib("RssAnon") - before_mib;

  const Sampler sampler((*index)->size(), kBatch, /*seed=*/1);
  const uint64_t stride = sampler.StepsFor(1) / kBatches + 1;
  double ids_seconds = 0, places_seconds = 0;
  for (uint64_t step = 0; step < kBatches; ++step) {
    const Clock::time_point asked = Clock::now();
    const std::vector<int64_t> ids = sampler.Ids(step * stride, 0, 1);
    ids_seconds += SecondsSince(asked);
    const Clock::time_point known = Clock::now();
    for (const int64_t id : ids) Must((*index)->PlaceOf(static_cast<uint64_t>(id)).status());
    places_seconds += SecondsSince(known);
  }
  auto bytes = PosixFileSystem().FileSize(path);
  Must(bytes.status());
  absl::PrintF(
      "{\"samples\": %d, \"bytes\": %d, \"make_s\": %.2f, \"make_peak_mib\": %.0f, "
      "\"open_ms\": %.3f, \"opened_mib\": %.2f, \"looked_up_mib\": %.1f, "
      "\"ids_ns_each\": %.1f, \"places_ns_each\": %.1f}\n",
      samples, *bytes, make_seconds, make_peak_mib, 1e3 * open_seconds, opened_mib,
      StatusMib("RssFile"), 1e9 * ids_seconds / (kBatches * kBatch),
      1e9 * places_seconds / (kBatches * kBatch));
  std::remove(path.c_str());
}

}  // namespace
}  // namespace muster::worker

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: muster-bench-index FOLDER SAMPLES\n";
    return 2;
  }
  muster::worker::Run(argv[1], std::strtoull(argv[2], nullptr, 10));
  return 0;
}
