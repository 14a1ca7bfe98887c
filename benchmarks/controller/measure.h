// What all measuring programs share: a steady clock, the distribution of latencies, one JSON object
// a line on stdout.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace muster::benchmarks {

using Json = nlohmann::ordered_json;

// Since some fixed moment; comparable only within this machine's boot.
double SteadySeconds();

// Not thread-safe; merge those of several threads at the end.
class Latencies {
 public:
  void Add(double seconds) { seconds_.push_back(seconds); }
  void Merge(const Latencies& other);
  size_t count() const { return seconds_.size(); }
  // {"count", "p50_ms", "p99_ms", "max_ms"}; zeros when there is none.
  Json Summary() const;

 private:
  std::vector<double> seconds_;
};

void PrintLine(const Json& line);

// Resident bytes of a process; 0: there is none.
uint64_t ResidentBytes(int pid);
// Seconds of processor time that a process has used; 0: there is none.
double ProcessorSeconds(int pid);

}  // namespace muster::benchmarks
