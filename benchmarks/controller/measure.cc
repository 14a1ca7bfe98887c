#include "benchmarks/controller/measure.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace muster::benchmarks {

double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Latencies::Merge(const Latencies& other) {
  seconds_.insert(seconds_.end(), other.seconds_.begin(), other.seconds_.end());
}

Json Latencies::Summary() const {
  std::vector<double> sorted = seconds_;
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&sorted](double share) {
    if (sorted.empty()) return 0.0;
    const auto index = static_cast<size_t>(share * static_cast<double>(sorted.size()));
    return sorted[std::min(index, sorted.size() - 1)] * 1e3;
  };
  return {{"count", sorted.size()}, {"p50_ms", at(0.5)}, {"p99_ms", at(0.99)}, {"max_ms", at(1.0)}};
}

void PrintLine(const Json& line) { std::cout << line.dump() << std::endl; }

uint64_t ResidentBytes(int pid) {
  std::ifstream statm(absl::StrCat("/proc/", pid, "/statm"));
  uint64_t pages = 0;
  uint64_t resident = 0;
  statm >> pages >> resident;
  return statm ? resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

double ProcessorSeconds(int pid) {
  std::ifstream stat(absl::StrCat("/proc/", pid, "/stat"));
  std::string text;
  std::getline(stat, text);
  // What stands behind the program's name in brackets: utime is the 12th, stime the 13th.
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace muster::benchmarks
