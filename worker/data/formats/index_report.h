// What the walk over a file added, and what it left out and why.
//
// Given back by every format's function. What cannot be read at all is an error instead; what is
// left out is no sample by the format's own rules, or cannot be read in one piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace muster::worker {

struct IndexReport {
  // Of so many the reasons are kept: for people to read.
  static constexpr size_t kMostReasons = 20;

  uint64_t samples = 0;
  uint64_t left_out = 0;
  std::vector<std::string> reasons;  // each names the file, the place or member, and what it is

  void LeaveOut(std::string reason) {
    ++left_out;
    if (reasons.size() < kMostReasons) reasons.push_back(std::move(reason));
  }
};

}  // namespace muster::worker
