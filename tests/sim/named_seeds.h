// Seeds that once found a bug in the code: each is run again by the test.
#pragma once

#include <array>
#include <cstdint>

namespace muster::sim {

struct NamedSeed {
  uint64_t seed = 0;
  const char* found = "";  // what it found
};

// Of the first three: a failed fsync, a restart that read what only memory held, and a power loss.
// A change of what seeds mean takes their point away: then `muster_sim_planted --calibrate --bug
// unsettled-log` tells new ones.
inline constexpr std::array<NamedSeed, 12> kNamedSeeds = {{
    {12, "acknowledged jobs gone: the log was not settled after a failed fsync"},
    {100'022, "a term given twice: likewise"},
    {200'029, "a job whose state its events did not say: likewise"},
    {318, "a job placed after its deadline, which had passed while the controller was away"},
    {5'000, "ledgers off by a nanosecond after a restart: the clock was finer than what is stored"},
    {100'111, "an unfit worker's name given to a clone of it when the controller began anew"},
    {200'120, "likewise"},
    {146'992'557, "a lost worker forgotten with a living rank: the wall clock was set on by weeks"},
    {87'996'661, "a forgotten worker whose next report was for ever taken for one too many"},
    {227'502'021, "a worker's word against a checkpoint forgotten by a restart"},
    {258'961'859,
     "none of the product's: the name of a forgotten worker taken by a clone, and back"},
    {124, "an older checkpoint deleted for a newer verified one that had been found broken since"},
}};

}  // namespace muster::sim
