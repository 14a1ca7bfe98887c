// The jobs that a request names: in the engine's snapshot, or in history.db.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/engine/engine.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/events.h"
#include "muster/v1/job_service.pb.h"

namespace muster::controller {

// One request's; not thread-safe. Errors, besides those that are named: history.db cannot be read.
class KnownJobs {
 public:
  explicit KnownJobs(const Engine& engine) : engine_(engine), snapshot_(engine.snapshot()) {}

  // The engine's snapshot, with the archived jobs that were found so far as they were.
  const Snapshot& snapshot() const { return *snapshot_; }

  // INVALID_ARGUMENT: the reference names none. NOT_FOUND.
  absl::StatusOr<const Job*> Find(const v1::JobRef& ref);
  // By its id; null: there is none.
  absl::StatusOr<const Job*> Find(uint64_t id);
  absl::StatusOr<const Checkpoint*> FindCheckpoint(uint64_t id);

  // Those that the submit refers to: that it begins from or waits for, or that has its key.
  absl::Status FindReferred(const SubmitJob& event);

  // Adds the event that restores the archived jobs which were found, if any: those that are posted
  // after it may count on them. An array is restored whole.
  absl::Status Restore(std::vector<Engine::Posted>& posts);

 private:
  // The newest of the name, here or archived; null: none.
  absl::StatusOr<const Job*> FindNamed(const std::string& name);
  absl::StatusOr<const Job*> FindTask(const v1::JobRef::ArrayTask& task);
  void Add(const ArchivedJob& archived);

  const Engine& engine_;
  std::shared_ptr<const Snapshot> snapshot_;
  std::shared_ptr<Snapshot> extended_;  // the same, once an archived job was added; else null
  RestoreJobs found_;                   // archived ones; what one begins from before it
};

}  // namespace muster::controller
