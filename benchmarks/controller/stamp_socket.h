// Receives the moments that muster-bench-stamp sends.
#pragma once

#include <optional>
#include <string>

namespace muster::benchmarks {

class StampSocket {
 public:
  StampSocket();   // binds a fresh path; throws std::runtime_error
  ~StampSocket();  // removes it
  StampSocket(const StampSocket&) = delete;
  StampSocket& operator=(const StampSocket&) = delete;

  const std::string& path() const { return path_; }
  // The next moment in seconds of SteadySeconds(); nothing when none came in time.
  std::optional<double> Receive(double timeout_seconds);

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace muster::benchmarks
