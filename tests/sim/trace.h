// What happened, as lines. Their hash must be the same when a seed runs again. The first violation
// ends a run.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/sim/agenda.h"

namespace muster::sim {

class Trace {
 public:
  Trace(Agenda& agenda, bool print) : agenda_(agenda), print_(print), began_(agenda.now()) {}

  template <typename... Parts>
  void Note(const Parts&... parts) {
    Add(absl::StrCat(parts...));
  }
  // The promise that was broken, in a sentence.
  template <typename... Parts>
  void Fail(const Parts&... parts) {
    if (!failure_.empty()) return;
    failure_ = absl::StrCat(parts...);
    Add(absl::StrCat("VIOLATION: ", failure_));
  }

  bool failed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }
  uint64_t hash() const { return hash_; }
  uint64_t lines() const { return lines_; }

 private:
  void Add(const std::string& line) {
    const double seconds = absl::ToDoubleSeconds(agenda_.now() - began_);
    ++lines_;
    for (const char c : line) Mix(static_cast<unsigned char>(c));
    Mix(static_cast<uint64_t>(seconds * 1e6));
    if (print_) std::printf("%s\n", absl::StrFormat("%12.3f  %s", seconds, line).c_str());
  }
  void Mix(uint64_t value) { hash_ = (hash_ ^ value) * 0x100000001B3ull; }  // FNV-1a

  Agenda& agenda_;
  const bool print_;
  const absl::Duration began_;
  uint64_t hash_ = 0xCBF29CE484222325ull;
  uint64_t lines_ = 0;
  std::string failure_;
};

}  // namespace muster::sim
