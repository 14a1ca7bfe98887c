// The jobs that a request names: in the engine's snapshot, or in history.db.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/access/access_types.h"
#include "controller/engine/engine.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/events.h"
#include "muster/v1/job_service.pb.h"

namespace muster::controller {

// For one request, or the changes of one message; not thread-safe. What is read of history.db is
// kept. Errors, besides those that are named: history.db cannot be read; RESOURCE_EXHAUSTED, too
// many archived jobs are referred to.
class KnownJobs {
 public:
  // Archived jobs that one request may read: five arrays of the largest size.
  static constexpr size_t kMostRead = 50'000;

  // A name stands for the newest job of that name in a project that `may_read`; null: in any.
  explicit KnownJobs(const Engine& engine, MayRead may_read = nullptr)
      : engine_(engine),
        may_read_(std::move(may_read)),
        here_(engine.snapshot()),
        snapshot_(here_) {}

  // The engine's snapshot, with the archived jobs that were found so far as they were.
  const Snapshot& snapshot() const { return *snapshot_; }

  // INVALID_ARGUMENT: the reference names none. NOT_FOUND.
  absl::StatusOr<const Job*> Find(const v1::JobRef& ref);
  // What Find says of one that is not there; by what may be read the same for all of them, so that
  // it fits one that may not.
  absl::Status NoSuchJob(const v1::JobRef& ref) const;
  // By its id; null: there is none.
  absl::StatusOr<const Job*> Find(uint64_t id);
  absl::StatusOr<const Checkpoint*> FindCheckpoint(uint64_t id);

  // Another change of the same message begins: what the ones before named is not restored for it.
  void BeginNext() { found_.clear(); }

  // Reads those that the submit refers to: that it begins from or waits for, or that has its key.
  absl::Status LoadReferred(SubmitJob& event);
  // Reads those that a job with these settings waits for: a requeue looks at them anew.
  absl::Status LoadWaitedFor(const SchedulingSettings& scheduling);

  // What the event that changes or refers to the jobs found so far needs (Engine::Posted.restore):
  // the archived ones with what they begin from, and arrays whole.
  absl::StatusOr<RestoreList> WhatToRestore();

 private:
  // The newest of the name, here or archived; null: none.
  absl::StatusOr<const Job*> FindNamed(const std::string& name);
  absl::StatusOr<const Job*> FindTask(const v1::JobRef::ArrayTask& task);
  // Reads the newest job of the settings' project and name that may have a checkpoint to begin
  // from, here or archived.
  absl::Status LoadResumable(const JobSettings& settings);
  // Reads all tasks of an archived array.
  absl::Status LoadTasks(uint64_t array_id);
  // As History::Find, once a job.
  absl::StatusOr<ArchivedJob> Read(uint64_t id);
  absl::StatusOr<std::shared_ptr<const RestoreJobs>> RestoreOf(uint64_t id);
  void AddToSnapshot(const std::vector<ArchivedJob>& archived);

  // The newest in memory of the name and of a project that may be read; null: none.
  const Job* FindReadableHere(const std::string& name) const;

  const Engine& engine_;
  const MayRead may_read_;
  const std::shared_ptr<const Snapshot> here_;  // the engine's
  std::shared_ptr<const Snapshot> snapshot_;
  std::map<uint64_t, ArchivedJob> read_;  // of history.db, by id
  std::set<uint64_t> found_;              // what the change names, in memory too
  // By job; the same one for all tasks of an array.
  std::map<uint64_t, std::shared_ptr<const RestoreJobs>> restores_;
};

}  // namespace muster::controller
