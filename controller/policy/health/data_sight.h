// What workers say of the data that jobs name (JobNeeds::data), and what follows for one such name:
// which workers may get ranks, and when a worker is asked to look. Pure.
//
// A worker whose agent checks data (checks_data) gets ranks of such a job only while its last check
// on the current stream found the data sound, is younger than kDataVerdictLasts, and found the
// fingerprint that most workers of its pool found in the same time. Planning counts a worker that
// has not checked yet as one that may have ranks. It does not count one that found a fault or
// another fingerprint, or that has not answered for kDataPatience, until that one answers anew.
// Where a check takes long, only a few workers check (kMostOverdue). An agent that cannot check
// gets ranks all the same. docs/decisions/0021.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/model/snapshot.h"

namespace muster::controller {

// A look lasts this long.
inline constexpr absl::Duration kDataVerdictLasts = absl::Minutes(10);
// Others are asked in place of a worker that has not answered for so long. Where it makes the index
// of a large set, its answer counts whenever it comes.
inline constexpr absl::Duration kDataPatience = absl::Minutes(1);
// When more than this many workers of a pool, plus as many as have answered meanwhile, are overdue,
// no further worker of the pool is asked: the data take long, not the workers.
inline constexpr uint32_t kMostOverdue = 2;
// Who found a fault looks again after this long, and twice as long each time it finds one again.
inline constexpr absl::Duration kFirstDataRetry = absl::Seconds(30);
inline constexpr absl::Duration kLongestDataRetry = absl::Minutes(10);
// Data that are missing or forbidden on a worker are given up there after so many looks; broken
// ones after one, but for jobs that wait for workers to come.
inline constexpr uint32_t kDataLooks = 5;

enum class DataStanding : uint8_t {
  kSound,      // it may get ranks
  kUnknown,    // it has not looked, or not lately, and is not asked
  kAsked,      // it is to look, and has not answered
  kOverdue,    // nor for long
  kFaulty,     // it found a fault
  kDifferent,  // it found other data than most; DataSight alone says that
};

// By what the worker itself says; for people and rules that need not compare. `now`: since boot.
DataStanding StandingByItself(const Worker& worker, const std::string& data, absl::Duration now);

// For one name of data, in one snapshot.
class DataSight {
 public:
  // `workers`: all. Empty data: such as nobody need have looked at.
  DataSight(std::string data, const std::vector<const Worker*>& workers);
  DataSight(std::string data, const Snapshot& snapshot);

  // `now`: since boot.
  DataStanding Of(const Worker& worker, absl::Duration now) const;
  // Whether ranks are planned for other workers alone, until it answers anew, or others do. Time
  // alone does not change that.
  bool RulesOut(const Worker& worker) const;
  // In a few words. Requires that it is.
  std::string WhyRuledOut(const Worker& worker) const;
  // The worker that is to check again because `different` found another fingerprint than most of
  // its pool: the one of the majority whose check is the oldest. Null: one of them has checked
  // since, or is being asked.
  const Worker* OldestOfMost(const Worker& different) const;

 private:
  // Of the workers of one pool that take work.
  struct InPool {
    std::string fingerprint;  // that most have; of as many, that of the worker with the lowest id
    absl::Duration since = absl::InfiniteDuration();          // looks before are not compared
    const Worker* oldest = nullptr;                           // of those that have it
    absl::Duration newest;                                    // look of theirs
    bool asked = false;                                       // one of them is to look
    bool takes_long = false;                                  // as kMostOverdue has it
    absl::Duration overdue_since = absl::InfiniteDuration();  // when the first of these was asked
  };

  void CountOverdue(InPool& pool, const std::vector<const DataView*>& views) const;
  void Compare(InPool& pool, const std::vector<const Worker*>& workers) const;
  // It found other data than most have found lately.
  bool Differs(const Worker& worker, const DataView& view) const;
  // It would have to be asked, and nobody is.
  bool IsPutOff(const Worker& worker, const DataView* view) const;

  std::string data_;
  std::map<std::string, InPool> pools_;
};

// Null: it was not asked on this stream.
const DataView* DataViewOf(const Worker& worker, const std::string& data);

// When a worker that found a fault, or other data than most, is to look again, since boot.
absl::Duration NextDataLook(const DataView& view);

// Looking again is not expected to help.
bool IsGivenUp(const DataView& view);

// "missing: /data/imagenet: no such folder"
std::string DescribeDataFault(const DataView& view);

// Data that each worker which could ever take a job has given up.
struct UnusableData {
  std::string why;          // for people; empty: a worker may find them sound
  absl::Duration asked_at;  // since boot: no worker was asked for its verdict before
};
// Looks at all workers; a worker that is away may come back with sound ones. `now`: since boot.
UnusableData FindUnusableData(const Snapshot& snapshot, const JobNeeds& needs, absl::Duration now);
// Whether a job with these needs ends for them: it waits, it never ran, and no verdict is older
// than `admitted`, the moment since boot from which nothing else has kept it back.
bool EndsFor(const UnusableData& data, const Job& job, absl::Duration admitted);

// What of its data keeps the job from workers that would take it, for people; empty: nothing.
// "its data are not seen by worker w2 (missing: ...) and 2 others"
std::string WhyDataUnseen(const Snapshot& snapshot, const JobNeeds& needs, absl::Duration now);

}  // namespace muster::controller
