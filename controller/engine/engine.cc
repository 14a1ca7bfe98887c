#include "controller/engine/engine.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/os/loop_thread.h"
#include "controller/engine/applier.h"
#include "controller/engine/dispatcher.h"
#include "controller/engine/loops/archive_loop.h"
#include "controller/engine/loops/findings_loop.h"
#include "controller/engine/loops/retention_loop.h"
#include "controller/engine/loops/root_loop.h"
#include "controller/engine/loops/scheduler_loop.h"
#include "controller/engine/loops/version_loop.h"
#include "controller/policy/explain/explain.h"
#include "controller/policy/health/liveness_rules.h"
#include "controller/policy/limits/time_limits.h"
#include "controller/rules/workers/restore_rules.h"
#include "controller/store/history/history_store.h"
#include "controller/store/set_aside.h"
#include "controller/store/state_store.h"

namespace muster::controller {
namespace {

// Runs of the liveness loop per heartbeat interval.
constexpr int kLivenessChecks = 3;
constexpr absl::Duration kLimitsEvery = absl::Seconds(1);

void IgnoreAnswer(const EventResult&) {}

// Gangs that outlived the former controller: those that trained go on; those that were still
// meeting lost their store.
void ReopenRendezvous(const Snapshot& snapshot, Rendezvous& rendezvous) {
  for (uint64_t id : *snapshot.active_jobs) {
    const Job& job = *snapshot.FindJob(id);
    if (!job.has_live_attempt()) continue;
    const Attempt& attempt = *job.current;
    rendezvous.Open(
        id, attempt.number, attempt.generation,
        attempt.reached_running
            ? ""
            : absl::StrCat("job ", id, ": the controller restarted while the gang was meeting"));
  }
}

// A caller that asks for an explanation now. Explanations run on the API's threads, so only a few
// may run at a time.
class Inquirer {
 public:
  explicit Inquirer(std::atomic<int>& count) : count_(count), may_ask_(++count <= kMost) {}
  ~Inquirer() { --count_; }
  Inquirer(const Inquirer&) = delete;
  Inquirer& operator=(const Inquirer&) = delete;

  bool may_ask() const { return may_ask_; }

 private:
  static constexpr int kMost = 2;

  std::atomic<int>& count_;
  const bool may_ask_;
};

absl::Status TooManyAsk() {
  return absl::UnavailableError("others are asking for explanations at this moment: ask again");
}

class EngineImpl final : public Engine {
 public:
  EngineImpl(EngineOptions options, Clock& clock, std::unique_ptr<StateStore> store,
             std::unique_ptr<HistoryStore> history, Snapshot initial,
             std::optional<RestoredFrom> restored)
      : options_(std::move(options)),
        clock_(clock),
        restored_(restored),
        is_held_(restored.has_value() && !restored->accepted),
        history_(std::move(history)),
        rendezvous_(clock),
        dispatcher_(clock),
        applier_(std::move(store), std::move(initial), clock,
                 {.use_half_life = options_.use_half_life,
                  .quarantine = options_.quarantine,
                  .restored = restored_.has_value() ? &*restored_ : nullptr},
                 MakeHooks()),
        scheduler_(clock, MakeWiring(scheduler_thread_),
                   DecidePlans(clock, MakeScheduleSettings())),
        retention_(clock, MakeWiring(retention_thread_), DecideCheckpointWork),
        archiving_(clock, MakeWiring(archiving_thread_),
                   DecideArchiving(options_.archive, clock_.SinceBoot(), *history_)),
        roots_(clock, MakeWiring(roots_thread_), DecideRoots),
        liveness_(options_.heartbeat_interval / kLivenessChecks, MakeFindings(liveness_thread_),
                  [this](const Snapshot& snapshot) { return FindSilentNow(snapshot); }),
        limits_(kLimitsEvery, MakeFindings(limits_thread_), [this](const Snapshot& snapshot) {
          return FindPassedLimits(snapshot, {clock_.Now(), clock_.SinceBoot()});
        }) {
    ReopenRendezvous(*snapshot(), rendezvous_);
    applier_.SetWakeUp([this] { applier_thread_.Wake(); });
    rendezvous_.SetWakeUp([this] { rendezvous_thread_.Wake(); });
  }

  ~EngineImpl() override { Stop(); }

  void Start() override {
    if (!options_.threads || started_.exchange(true)) return;
    applier_thread_.Start();
    rendezvous_thread_.Start();
    if (is_held_) {
      hold_thread_.Start();
    } else {
      StartActing();
    }
  }

  void Stop() override {
    if (stopped_.exchange(true)) return;
    // The first: it starts the others.
    hold_thread_.Stop();
    for (LoopThread* thread : {&scheduler_thread_, &retention_thread_, &archiving_thread_,
                               &roots_thread_, &liveness_thread_, &limits_thread_, &applier_thread_,
                               &dispatcher_thread_, &rendezvous_thread_}) {
      thread->Stop();
    }
    applier_.Close(absl::UnavailableError("the controller is stopping; try again"));
    rendezvous_.CloseAll();
  }

  void Post(Event event, EventDone done) override {
    applier_.Post({.event = std::move(event), .done = std::move(done), .link = nullptr});
  }

  void PostAll(std::vector<Posted> events) override {
    std::vector<Applier::Item> items;
    items.reserve(events.size());
    for (Posted& posted : events) {
      items.push_back({.event = std::move(posted.event),
                       .done = std::move(posted.done),
                       .link = nullptr,
                       .restore = std::move(posted.restore)});
    }
    applier_.PostAll(std::move(items));
  }

  void Connect(WorkerHello hello, std::shared_ptr<WorkerLink> link, EventDone done) override {
    {
      MutexLock lock(mutex_);
      hello.stream = ++last_stream_;
      streams_[link.get()] = hello.stream;
    }
    applier_.Post({.event = std::move(hello), .done = std::move(done), .link = std::move(link)});
  }

  void Disconnect(const std::string& worker, const std::string& incarnation,
                  const WorkerLink* link) override {
    WorkerDisconnected event{.worker = worker, .incarnation = incarnation};
    {
      MutexLock lock(mutex_);
      const auto it = streams_.find(link);
      if (it == streams_.end()) return;
      event.stream = it->second;
      streams_.erase(it);
    }
    Post(std::move(event), IgnoreAnswer);
  }

  bool SendOnce(const std::string& worker, const std::string& incarnation,
                const Assignment& assignment) override {
    return dispatcher_.SendOnce(worker, incarnation, assignment);
  }

  void Store(StoreOp op, StoreDone done) override {
    rendezvous_.Handle(std::move(op), std::move(done));
  }

  std::shared_ptr<const Snapshot> snapshot() const override { return applier_.snapshot(); }

  History& history() const override { return *history_; }

  absl::Duration SinceBoot() const override { return clock_.SinceBoot(); }

  absl::StatusOr<Explanation> Explain(const Snapshot& world, uint64_t job_id) const override {
    const Inquirer inquirer(inquirers_);
    if (!inquirer.may_ask()) return TooManyAsk();
    if (world.FindJob(job_id) == nullptr) {
      return absl::NotFoundError(absl::StrCat("job ", job_id, ": no such job"));
    }
    return controller::Explain(world, job_id, ContextNow());
  }

  absl::StatusOr<Explanation> Forecast(const Snapshot& world,
                                       const SubmitJob& event) const override {
    const Inquirer inquirer(inquirers_);
    if (!inquirer.may_ask()) return TooManyAsk();
    const ScheduleContext context = ContextNow();
    MUSTER_ASSIGN_OR_RETURN(std::vector<uint64_t> resume_from,
                            EvaluateSubmit(Draft(world), event, context.wall, context.now));
    Explanation explanation = ExplainNew(world, *event.settings, event.owner, context);
    explanation.resume_from = std::move(resume_from);
    return explanation;
  }

  absl::Status CopyDatabases(const std::string& folder) override {
    MUSTER_RETURN_IF_ERROR(CopyState(folder + "/state.db"));
    return history_->CopyTo(folder + "/history.db");
  }

  std::string held() const override {
    if (!is_held_) return "";
    std::string text = absl::StrCat("restored from a backup of term ", restored_->term,
                                    ": nothing is placed, ended or deleted yet\n");
    std::map<std::string, std::string> unknown;
    {
      MutexLock lock(mutex_);
      unknown = unknown_;
    }
    for (const auto& [worker, what] : unknown) absl::StrAppend(&text, what, "\n");
    snapshot()->workers.ForEach([&](const Worker& worker) {
      if (worker.lost || worker.pulse.connected || unknown.count(worker.name) != 0) return;
      absl::StrAppend(&text, "worker ", worker.name, ": not heard of yet\n");
    });
    absl::StrAppend(&text,
                    unknown.empty()
                        ? "goes on by itself once all workers are there; else "
                        : "what the backup does not know would be given up: unknown ranks "
                          "are ended, jobs submitted since are forgotten. To do so, ",
                    "start musterd with --accept-lost-history; or restore a newer backup\n");
    return text;
  }

  const EngineOptions& options() const override { return options_; }

  EngineStats stats() const override {
    return {.commits = applier_.commits(),
            .commit_time = applier_.commit_time(),
            .assignments_sent = dispatcher_.sent()};
  }

  void RunUntilIdle() override {
    // Liveness and limits run again only once something was stored: while the disk is full they
    // find the same each time, and each time it is published as another version.
    std::optional<uint64_t> looked_after;
    do {
      while (applier_.RunOnce()) {
      }
      if (is_held_) {
        LookWhetherToGoOn();
        continue;
      }
      scheduler_.RunOnce();
      retention_.RunOnce();
      archiving_.RunOnce();
      roots_.RunOnce();
      if (const uint64_t commits = applier_.commits(); commits != looked_after) {
        looked_after = commits;
        liveness_.RunOnce();
        limits_.RunOnce();
      }
      dispatcher_.RunOnce(*snapshot());
      rendezvous_.Expire();
    } while (applier_.RunOnce());
  }

 private:
  // What acts by itself.
  void StartActing() {
    for (LoopThread* thread :
         {&scheduler_thread_, &retention_thread_, &archiving_thread_, &roots_thread_,
          &liveness_thread_, &limits_thread_, &dispatcher_thread_}) {
      thread->Start();
    }
  }

  absl::Status CopyState(const std::string& path) {
    const auto ended = std::make_shared<std::promise<absl::Status>>();
    applier_.WithStore([ended, path, has_begun = false](StateStore* store) mutable {
      absl::Status status = absl::UnavailableError("the controller is stopping; try again");
      if (store != nullptr) {
        status = std::exchange(has_begun, true) ? absl::OkStatus() : store->BeginCopy(path);
        if (status.ok()) {
          const absl::StatusOr<bool> whole = store->StepCopy();
          if (whole.ok() && !*whole) return true;
          status = whole.status();
        }
      }
      ended->set_value(status);
      return false;
    });
    return ended->get_future().get();
  }

  // Whether every worker that the backup knows is there, and none has done more.
  bool NothingIsUnknown() const {
    if (clock_.SinceBoot() - opened_at_ < options_.startup_grace) return false;
    bool all_there = true;
    snapshot()->workers.ForEach([&](const Worker& worker) {
      all_there = all_there && (worker.lost || worker.pulse.connected);
    });
    MutexLock lock(mutex_);
    return all_there && unknown_.empty();
  }

  void LookWhetherToGoOn() {
    if (!NothingIsUnknown() || asked_to_accept_.exchange(true)) return;
    applier_.WithStore([this](StateStore* store) {
      if (store == nullptr) return false;
      if (const absl::Status status = store->AcceptRestored(); !status.ok()) {
        Log(LogLevel::kWarning, "restore_not_accepted", {{"error", status.ToString()}});
        asked_to_accept_ = false;  // a full disk: again in a second
        return false;
      }
      restored_->accepted = true;
      is_held_ = false;
      Log(LogLevel::kInfo, "restore_accepted", {{"why", "no worker has done more since"}});
      hold_thread_.Wake();
      return false;
    });
  }

  absl::Duration Hold() {
    if (!is_held_) {
      StartActing();
      return absl::InfiniteDuration();
    }
    if (clock_.SinceBoot() >= say_held_at_) {
      say_held_at_ = clock_.SinceBoot() + absl::Minutes(1);
      Log(LogLevel::kWarning, "held", {{"why", held()}});
    }
    LookWhetherToGoOn();
    return absl::Seconds(1);
  }

  Applier::Hooks MakeHooks() {
    return {
        .before_publish =
            [this](const AfterCommit& after) {
              for (const Fence& fence : after.opened) {
                rendezvous_.Open(fence.job_id, fence.attempt, fence.generation);
              }
            },
        .after_publish =
            [this](const AfterCommit& after) {
              for (const Fence& fence : after.closed)
                rendezvous_.Close(fence.job_id, fence.attempt);
              for (const AfterCommit::ClosedLink& link : after.closed_links) {
                dispatcher_.Close(link.worker, link.incarnation, link.status);
              }
              for (const AfterCommit::UnstoredMessage& message : after.unstored_messages) {
                dispatcher_.SendUnstored(message.worker, message.stream, message.assignment);
              }
            },
        .answered = [this](const Applier::Item& item,
                           const EventResult& result) { Bind(item, result); },
        .batch_done =
            [this](const std::shared_ptr<const Snapshot>& snapshot) {
              if (options_.on_published) options_.on_published(snapshot);
              WakeLoops(*snapshot);
            },
        .fatal =
            [this](const absl::Status& status) {
              if (options_.on_fatal && !fatal_.exchange(true)) options_.on_fatal(status);
            },
    };
  }

  // Wakes only those that may find something: a thread that is woken for nothing delays the call
  // that comes next. On the applier's thread.
  void WakeLoops(const Snapshot& snapshot) {
    if (snapshot.durable_version != woken_for_version_) scheduler_thread_.Wake();
    if (!snapshot.retention_jobs->empty()) retention_thread_.Wake();
    if (RootsMayChange(snapshot)) roots_thread_.Wake();
    if (snapshot.outbox.revision() != woken_for_outbox_ || links_changed_) {
      dispatcher_thread_.Wake();
    }
    woken_for_version_ = snapshot.durable_version;
    woken_for_outbox_ = snapshot.outbox.revision();
    woken_for_roots_ = snapshot.roots_in_use;
    unsettled_roots_ = HasUnsettledRoots(snapshot);
    links_changed_ = false;
  }

  static bool HasUnsettledRoots(const Snapshot& snapshot) {
    return std::any_of(
        snapshot.roots_in_use->begin(), snapshot.roots_in_use->end(),
        [&](const auto& root) { return snapshot.roots.Find(root.first) == nullptr; });
  }

  // The roots in use or the agents' connections changed, or a root in use has no identity yet.
  bool RootsMayChange(const Snapshot& snapshot) const {
    if (snapshot.roots_in_use->empty() && woken_for_roots_ == nullptr) return false;
    return snapshot.roots_in_use != woken_for_roots_ || links_changed_ || unsettled_roots_;
  }

  ScheduleSettings MakeScheduleSettings() const {
    return {.use_half_life = options_.use_half_life,
            .incident_window = options_.quarantine.window,
            .elastic = options_.elastic};
  }
  ScheduleContext ContextNow() const {
    return {.now = clock_.SinceBoot(), .wall = clock_.Now(), .settings = MakeScheduleSettings()};
  }

  VersionLoop::Wiring MakeWiring(LoopThread& thread) {
    return {
        .snapshot = [this] { return snapshot(); },
        .post = [this](Event event, EventDone done) { Post(std::move(event), std::move(done)); },
        .wake_up = [&thread] { thread.Wake(); }};
  }

  FindingsLoop::Wiring MakeFindings(LoopThread& thread) {
    return {
        .snapshot = [this] { return snapshot(); },
        .post = [this](Event event, EventDone done) { Post(std::move(event), std::move(done)); },
        .wake_up = [&thread] { thread.Wake(); }};
  }
  // The liveness loop's. While this process stood still (it was stopped, its machine frozen) it
  // received nothing: that is no silence of the workers, and they get the grace of a start.
  std::vector<Finding> FindSilentNow(const Snapshot& snapshot) {
    const absl::Duration now = clock_.SinceBoot();
    const absl::Duration since_last = now - std::exchange(looked_for_silent_at_, now);
    if (since_last > options_.lost_after / 2) {
      Log(LogLevel::kWarning, "stood_still", {{"ms", absl::ToInt64Milliseconds(since_last)}});
      hears_since_ = now;
    }
    return FindSilent(snapshot,
                      {.suspect_after = options_.suspect_after,
                       .lost_after = options_.lost_after,
                       .startup_grace = options_.startup_grace,
                       .start_timeout = options_.start_timeout,
                       .hears_since = hears_since_,
                       .started = opened_at_,
                       .forget_after = options_.forget_lost_after,
                       .forget_gone_after = options_.forget_gone_after},
                      now);
  }

  void NoteUnknown(const WorkerHello& hello, const absl::Status& status) {
    constexpr size_t kMostNoted = 1000;
    absl::string_view text = status.message();
    MutexLock lock(mutex_);
    if (!absl::ConsumePrefix(&text, kHeldHello)) {
      if (status.ok()) unknown_.erase(hello.worker);
      return;
    }
    if (unknown_.size() >= kMostNoted && unknown_.count(hello.worker) == 0) return;
    const bool is_new = unknown_.insert_or_assign(hello.worker, std::string(text)).second;
    if (is_new) Log(LogLevel::kWarning, "unknown_to_backup", {{"what", std::string(text)}});
  }

  // Streams come and go in the order in which their events were applied.
  void Bind(const Applier::Item& item, const EventResult& result) {
    if (const auto* hello = std::get_if<WorkerHello>(&item.event)) {
      if (is_held_) NoteUnknown(*hello, result.status);
      if (!result.status.ok() || item.link == nullptr) return;
      links_changed_ = true;
      dispatcher_.Attach({.worker = hello->worker,
                          .incarnation = hello->incarnation,
                          .stream = hello->stream,
                          .link = item.link});
    } else if (const auto* gone = std::get_if<WorkerDisconnected>(&item.event)) {
      dispatcher_.Detach(gone->worker, gone->stream);
    }
  }

  const EngineOptions options_;
  Clock& clock_;
  std::optional<RestoredFrom> restored_;  // of the applier's thread, once it runs
  std::atomic<bool> is_held_;
  std::atomic<bool> asked_to_accept_ = false;
  absl::Duration say_held_at_ = -absl::InfiniteDuration();  // of the hold's thread
  const std::unique_ptr<HistoryStore> history_;
  const absl::Duration opened_at_ = clock_.SinceBoot();
  absl::Duration looked_for_silent_at_ = opened_at_;
  absl::Duration hears_since_ = opened_at_;
  Rendezvous rendezvous_;
  Dispatcher dispatcher_;
  std::atomic<bool> started_ = false;
  std::atomic<bool> stopped_ = false;
  std::atomic<bool> fatal_ = false;
  mutable std::atomic<int> inquirers_ = 0;
  mutable Mutex mutex_;
  // By worker, while held.
  std::map<std::string, std::string> unknown_ MUSTER_GUARDED_BY(mutex_);
  uint64_t last_stream_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::map<const WorkerLink*, uint64_t> streams_ MUSTER_GUARDED_BY(mutex_);

  // As of the last WakeLoops; only on the applier's thread.
  uint64_t woken_for_version_ = 0;
  uint64_t woken_for_outbox_ = 0;
  bool links_changed_ = false;
  std::shared_ptr<const std::map<std::string, RootInUse>> woken_for_roots_;
  bool unsettled_roots_ = false;

  // Declared before what wakes them; stopped before anything that they use goes.
  LoopThread applier_thread_{"applier", [this] {
                               while (!stopped_) {
                                 const absl::Duration wait = applier_.UntilDue();
                                 if (wait > absl::ZeroDuration()) return wait;
                                 applier_.RunOnce();
                               }
                               return absl::InfiniteDuration();
                             }};
  LoopThread scheduler_thread_{"scheduler", [this] { return scheduler_.RunOnce(); }};
  LoopThread retention_thread_{"retention", [this] { return retention_.RunOnce(); }};
  LoopThread archiving_thread_{"archiving", [this] { return archiving_.RunOnce(); }};
  LoopThread roots_thread_{"roots", [this] { return roots_.RunOnce(); }};
  LoopThread liveness_thread_{"liveness", [this] { return liveness_.RunOnce(); }};
  LoopThread limits_thread_{"limits", [this] { return limits_.RunOnce(); }};
  LoopThread dispatcher_thread_{"dispatcher", [this] { return dispatcher_.RunOnce(*snapshot()); }};
  LoopThread hold_thread_{"hold", [this] { return Hold(); }};
  LoopThread rendezvous_thread_{"rendezvous",
                                [this] { return rendezvous_.Expire() - clock_.SinceBoot(); }};

  Applier applier_;
  VersionLoop scheduler_;
  VersionLoop retention_;
  VersionLoop archiving_;
  VersionLoop roots_;
  FindingsLoop liveness_;
  FindingsLoop limits_;
};

// A history.db that is broken ends nothing: it is set aside, and a new one begun.
absl::StatusOr<std::unique_ptr<HistoryStore>> OpenHistory(const EngineOptions& options,
                                                          absl::Time now) {
  const SqliteOptions sqlite{.path = options.data_dir + "/history.db",
                             .max_log_bytes = options.max_log_bytes,
                             .vfs = options.database_vfs};
  absl::StatusOr<std::unique_ptr<HistoryStore>> history = HistoryStore::Open(sqlite);
  if (!absl::IsDataLoss(history.status())) return history;
  MUSTER_ASSIGN_OR_RETURN(const AsideDatabase aside, SetAsideDatabase(sqlite.path, now));
  Log(LogLevel::kError, "history_set_aside",
      {{"error", history.status().ToString()}, {"kept_as", aside.path}});
  return HistoryStore::Open(sqlite);
}

// Whether this state was put back from a backup, and whether that was accepted.
absl::StatusOr<std::optional<RestoredFrom>> TakeRestored(StateStore& store, bool accept) {
  MUSTER_ASSIGN_OR_RETURN(std::optional<RestoredFrom> restored, store.Restored());
  const bool is_open = restored.has_value() && !restored->accepted;
  if (accept && is_open) {
    MUSTER_RETURN_IF_ERROR(store.AcceptRestored());
    restored->accepted = true;
    Log(LogLevel::kWarning, "restore_accepted", {{"why", "--accept-lost-history"}});
  } else if (accept) {
    Log(LogLevel::kWarning, "accept_lost_history_not_needed",
        {{"meaning", "nothing waits for it; leave it away, or the next restore is not looked at"}});
  }
  return restored;
}

// state.db may have been restored from a backup that is older than history.db: what was given since
// is not given again.
absl::Status SkipTo(HistoryStore& history, StateStore& store, Snapshot& snapshot) {
  MUSTER_ASSIGN_OR_RETURN(const HistoryStore::Highest highest, history.HighestIds());
  if (highest.job <= snapshot.jobs.last_id() &&
      highest.checkpoint <= snapshot.checkpoints.last_id() &&
      highest.event <= snapshot.last_event) {
    return absl::OkStatus();
  }
  Log(LogLevel::kWarning, "state_older_than_history",
      {{"last_job", snapshot.jobs.last_id()}, {"last_archived_job", highest.job}});
  snapshot.jobs.SkipTo(highest.job);
  snapshot.checkpoints.SkipTo(highest.checkpoint);
  if (highest.event > snapshot.last_event) {
    snapshot.archived_events += highest.event - snapshot.last_event;
    snapshot.last_event = highest.event;
  }
  return store.PutSkipped(snapshot);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Open(EngineOptions options, Clock& clock) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<StateStore> store,
                          StateStore::Open({.path = options.data_dir + "/state.db",
                                            .max_bytes = options.max_database_bytes,
                                            .max_log_bytes = options.max_log_bytes,
                                            .vfs = options.database_vfs}));
  MUSTER_ASSIGN_OR_RETURN(const uint64_t term, store->StartTerm());
  MUSTER_ASSIGN_OR_RETURN(Snapshot initial,
                          store->Load(term, clock.SinceBoot(), clock.Now(), options.boot));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<HistoryStore> history, OpenHistory(options, clock.Now()));
  MUSTER_RETURN_IF_ERROR(SkipTo(*history, *store, initial));
  MUSTER_RETURN_IF_ERROR(history->Begin(
      initial.jobs.last_id(), initial.LedgerTime(clock.SinceBoot()), initial.archived_put));
  MUSTER_ASSIGN_OR_RETURN(const std::optional<RestoredFrom> restored,
                          TakeRestored(*store, options.accept_lost_history));
  Log(LogLevel::kInfo, "state_loaded",
      {{"term", term},
       {"jobs", initial.jobs.size()},
       {"active", initial.active_jobs->size()},
       {"archived", history->jobs()}});
  return std::make_unique<EngineImpl>(std::move(options), clock, std::move(store),
                                      std::move(history), std::move(initial), restored);
}

}  // namespace muster::controller
