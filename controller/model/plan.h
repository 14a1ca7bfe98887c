// What a policy proposes. The applier judges each action again before it commits it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::controller {

struct RankPlacement {
  std::string worker;
  uint32_t slot = 0;
  uint32_t local_rank = 0;
};

struct PlaceGang {
  uint64_t job_id = 0;
  uint32_t attempt = 0;              // the number that the new attempt gets
  std::vector<RankPlacement> ranks;  // by rank number
  std::string reason;
};

struct Waiting {
  uint64_t job_id = 0;
  std::string message;
};

struct Plan {
  std::vector<PlaceGang> place;
  std::vector<Waiting> waiting;  // jobs whose message should change
};

}  // namespace muster::controller
