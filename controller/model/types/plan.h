// What a policy decides. The applier evaluates each action again before it commits it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::controller {

struct RankPlacement {
  std::string worker;
  std::vector<uint32_t> slots;  // ascending
  uint32_t local_rank = 0;
};

struct PlaceGang {
  uint64_t job_id = 0;
  uint32_t attempt = 0;              // the number that the new attempt gets
  std::vector<RankPlacement> ranks;  // by rank number
  std::string reason;
};

// Save, leave and queue again: for another job, or to go on at another size.
struct StopGang {
  enum class Why : uint8_t { kPreempt = 1, kShrink = 2, kGrow = 3 };
  uint64_t job_id = 0;
  uint32_t attempt = 0;
  Why why = Why::kPreempt;
  uint64_t for_job = 0;  // who gets the slots; 0: itself
  std::string reason;
};

struct Waiting {
  uint64_t job_id = 0;
  std::string message;
};

// A worker is to look at the data of a job.
struct DataLook {
  std::string worker;
  uint64_t stream = 0;  // void on another one
  uint64_t job_id = 0;
  bool overdue = false;  // it was to, and has not answered for long
};

struct Plan {
  std::vector<PlaceGang> place;
  std::vector<StopGang> stop;
  std::vector<Waiting> waiting;  // jobs whose message should change
  std::vector<DataLook> looks;
  std::vector<uint64_t> without_data;  // jobs that no worker could run, for want of sound data

  bool empty() const {
    return place.empty() && stop.empty() && waiting.empty() && looks.empty() &&
           without_data.empty();
  }
};

}  // namespace muster::controller
