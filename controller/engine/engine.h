// The engine, as the API sees it: events go in, a published snapshot and assignments come out.
//
// Inside: one applier (the only writer of the model and of state.db), the loops (scheduler,
// retention, archiving, checkpoint roots, liveness, limits), the dispatcher of assignments and the
// gangs' rendezvous. All methods are thread-safe. Callbacks run on the engine's threads after the
// commit: they must be quick and must not block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "controller/engine/rendezvous.h"
#include "controller/engine/worker_link.h"
#include "controller/model/history.h"
#include "controller/model/snapshot.h"
#include "controller/model/types/events.h"
#include "controller/model/types/explanation_types.h"
#include "controller/policy/archive/archivable_jobs.h"
#include "controller/policy/health/quarantine_rules.h"
#include "controller/policy/placement/elastic.h"

namespace muster::controller {

struct EngineOptions {
  std::string data_dir;  // holds state.db and history.db; must exist
  absl::Duration heartbeat_interval = absl::Seconds(3);
  absl::Duration suspect_after = absl::Seconds(9);
  absl::Duration lost_after = absl::Seconds(15);  // also the agents' lease
  absl::Duration startup_grace = absl::Seconds(30);
  // How long a gang may report no progress before its first step.
  absl::Duration start_timeout = absl::Minutes(5);
  absl::Duration forget_lost_after = absl::Hours(24);  // workers that hold nothing; infinite: never
  // Workers that were lost while they held ranks. Infinite: never.
  absl::Duration forget_gone_after = absl::Hours(7 * 24);
  ArchiveSettings archive;  // of jobs that have ended; default: all stay in memory
  // What a project has used loses half its weight in this time; above zero.
  absl::Duration use_half_life = absl::Hours(7 * 24);
  QuarantineSettings quarantine;
  ElasticSettings elastic;
  // False: no threads; a test drives the engine with RunUntilIdle.
  bool threads = true;
  // state.db may not grow beyond this many bytes; 0: no bound. Tests use it as a full disk.
  uint64_t max_database_bytes = 0;
  // Names the boot of the machine: see StateStore::Load.
  uint64_t boot = 0;
  // As SqliteOptions.vfs and max_log_bytes.
  std::string database_vfs;
  uint64_t max_log_bytes = 8 << 20;
  // For a state that was put back from a backup: what agents have done since and the backup does
  // not know is given up.
  bool accept_lost_history = false;
  // Called once when state.db can no longer be trusted (failed fsync, I/O error): the process must
  // exit and start anew. Runs on an engine thread: it must not call Stop.
  std::function<void(const absl::Status&)> on_fatal;
  // For tests: called after each batch with what is published by then, on the applier's thread.
  std::function<void(const std::shared_ptr<const Snapshot>&)> on_published;
};

// What the engine has done since it was opened; for metrics.
struct EngineStats {
  uint64_t commits = 0;           // transactions of state.db
  absl::Duration commit_time;     // spent in them
  uint64_t assignments_sent = 0;  // to agents, repeats included
};

using EventDone = std::function<void(const EventResult&)>;

class Engine {
 public:
  // Opens state.db, raises the term, and loads the model. Opens history.db; a broken one is set
  // aside, and a new one begun. Errors: those of store/sqlite.h and state_store.h.
  static absl::StatusOr<std::unique_ptr<Engine>> Open(EngineOptions options, Clock& clock);
  // Stops; events that are still queued are answered UNAVAILABLE.
  virtual ~Engine() = default;

  // Starts the threads. Events may be posted before.
  virtual void Start() = 0;
  // Finishes the current batch, answers the rest UNAVAILABLE, ends all threads. Idempotent.
  virtual void Stop() = 0;

  // Queues an event. `done` runs exactly once, after the commit or the refusal, possibly before
  // Post returns. Status codes:
  // - INVALID_ARGUMENT, NOT_FOUND.
  // - ALREADY_EXISTS: the idempotency key was used with other content, or another agent holds the
  //   worker's name.
  // - FAILED_PRECONDITION: wrong state for this verb; "refused: ..." for a job that can never fit;
  //   a fenced report; a Hello of an agent that has seen a higher term.
  // - RESOURCE_EXHAUSTED: a quota or bound is reached, or the disk is full; nothing changed.
  // - ABORTED: a gap in event_seq, because an earlier report failed; for a Hello: the holder of the
  //   name may live.
  // - UNAVAILABLE: stopping, the queue is full, or a heartbeat of a worker that was taken for lost.
  // A report that is neither OK nor fenced stays unacknowledged: end its stream with UNAVAILABLE,
  // at once or, if the disk is full, once there is room: the agent connects again and repeats it.
  // Reports of one stream are applied in the order in which they were posted.
  virtual void Post(Event event, EventDone done) = 0;

  // Posts them one after the other; cheaper than one by one, and they share a commit.
  struct Posted {
    Event event;
    EventDone done;
    RestoreList restore = {};  // applied before the event and stored with it
  };
  virtual void PostAll(std::vector<Posted> events) {
    for (Posted& posted : events) Post(std::move(posted.event), std::move(posted.done));
  }

  // A WorkerHello that also binds the stream. On OK, `done` runs before anything is sent through
  // `link`, so that it can queue the Welcome first. A former link of the same worker is closed.
  virtual void Connect(WorkerHello hello, std::shared_ptr<WorkerLink> link, EventDone done) = 0;
  // The stream of `link` ended. Does nothing when the worker has another link by now.
  virtual void Disconnect(const std::string& worker, const std::string& incarnation,
                          const WorkerLink* link) = 0;

  // Sends what is not stored and not repeated to that incarnation of the worker's agent. False: it
  // is not connected.
  virtual bool SendOnce(const std::string& worker, const std::string& incarnation,
                        const Assignment& assignment) = 0;

  // One operation on a gang's rendezvous store; refused unless a rank of that fence lives.
  virtual void Store(StoreOp op, StoreDone done) = 0;

  // The newest published version; never null.
  virtual std::shared_ptr<const Snapshot> snapshot() const = 0;

  // Jobs that have ended and are not in the snapshot any more.
  virtual History& history() const = 0;

  virtual absl::Duration SinceBoot() const = 0;  // by the clock that events are applied by

  // Why the job waits and when it could start, worked out on the caller's thread: milliseconds, or
  // up to a second or two where thousands of jobs wait. NOT_FOUND; UNAVAILABLE while two other
  // explanations are running.
  virtual absl::StatusOr<Explanation> Explain(const Snapshot& snapshot, uint64_t job_id) const = 0;
  // For a dry run: the same for a job that is not there yet. Errors: those of its submit.
  virtual absl::StatusOr<Explanation> Forecast(const Snapshot& snapshot,
                                               const SubmitJob& event) const = 0;

  // Copies state.db and then history.db to new files in the folder, both as they are at the end of
  // their copy, while events are applied. So a job that had left the one by then is in the other.
  // Blocks; not from the engine's threads. Statuses as store/sqlite.h; UNAVAILABLE: stopping.
  virtual absl::Status CopyDatabases(const std::string& folder) = 0;

  // Not empty: this state was put back from a backup, and nothing is placed, ended or deleted
  // before it is known that no worker has done anything since, or --accept-lost-history says so.
  // What is waited for, and what is known by now; a line each.
  virtual std::string held() const = 0;

  virtual const EngineOptions& options() const = 0;
  virtual EngineStats stats() const = 0;

  // Only with options.threads == false: applies all that is queued and runs all loops until nothing
  // changes any more.
  virtual void RunUntilIdle() = 0;
};

}  // namespace muster::controller
