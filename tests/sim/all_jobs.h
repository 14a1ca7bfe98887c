// The controller's jobs with those that have left its memory: what people were promised is there,
// wherever it is kept.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "controller/model/history.h"
#include "controller/model/snapshot.h"
#include "tests/sim/trace.h"

namespace muster::sim {

namespace mc = ::muster::controller;

class AllJobs {
 public:
  explicit AllJobs(Trace& trace) : trace_(trace) {}

  // Each returns the version with all archived jobs put back, as history.db has them. A job that is
  // in neither, or that changed on its way, breaks the run. Called for each version, in order.
  std::shared_ptr<const mc::Snapshot> OnStart(std::shared_ptr<const mc::Snapshot> loaded,
                                              mc::History& history);
  std::shared_ptr<const mc::Snapshot> OnPublished(std::shared_ptr<const mc::Snapshot> published,
                                                  mc::History& history);

  uint64_t archived() const { return archived_so_far_; }

 private:
  void Read(uint64_t id, mc::History& history);
  void CheckUnchanged(const mc::Snapshot& before, const mc::ArchivedJob& archived);
  std::shared_ptr<const mc::Snapshot> WithArchived() const;

  Trace& trace_;
  std::shared_ptr<const mc::Snapshot> last_;  // as it was published
  std::map<uint64_t, mc::ArchivedJob> archived_;
  uint64_t archived_so_far_ = 0;
};

}  // namespace muster::sim
