// An Engine without rules: it records what it is given, answers as the test says, and publishes
// what the test publishes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "controller/engine/engine.h"
#include "controller/store/history/history_store.h"
#include "tests/support/temp_dir.h"

namespace muster::controller {

// What a test sets while the server's threads may read it: that the request comes later, over a
// socket, is an order that ThreadSanitizer does not see.
template <typename T>
class Settable {
 public:
  explicit Settable(T value) : value_(std::move(value)) {}
  Settable& operator=(T value) MUSTER_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    value_ = std::move(value);
    return *this;
  }
  T Get() const MUSTER_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return value_;
  }

 private:
  mutable Mutex mutex_;
  T value_ MUSTER_GUARDED_BY(mutex_);
};

class FakeEngine final : public Engine {
 public:
  FakeEngine() {
    auto first = std::make_shared<Snapshot>();
    first->term = 7;
    first->controller_id = std::string(16, 'c');
    snapshot_ = std::move(first);
  }

  // What an event, a hello or a store operation is answered with. Set before the calls that use
  // them.
  Settable<std::function<EventResult(const Event&)>> on_event{
      [](const Event&) { return EventResult(); }};
  Settable<std::function<EventResult(const WorkerHello&)>> on_hello{
      [](const WorkerHello&) { return EventResult(); }};
  Settable<std::function<void(StoreOp, StoreDone)>> on_store{[](StoreOp op, StoreDone done) {
    done({true, op.value, "", false});
  }};
  // Runs each answer to an event; by default at once.
  Settable<std::function<void(std::function<void()>)>> answer{
      [](std::function<void()> run) { run(); }};
  // What it says of any job.
  Settable<absl::StatusOr<Explanation>> explanation{Explanation()};
  EngineOptions engine_options;

  // Edits a copy of the snapshot and publishes it.
  void Publish(const std::function<void(Snapshot&)>& edit) {
    MutexLock lock(mutex_);
    auto next = std::make_shared<Snapshot>(*snapshot_);
    edit(*next);
    ++next->version;
    snapshot_ = std::move(next);
  }
  std::vector<Event> events() {
    MutexLock lock(mutex_);
    return events_;
  }
  // How many events each PostAll brought.
  std::vector<size_t> posted_at_once() {
    MutexLock lock(mutex_);
    return posted_at_once_;
  }
  // What each event of a PostAll restores.
  std::vector<RestoreList> restored() {
    MutexLock lock(mutex_);
    return restored_;
  }
  // Blocks until an agent has connected, or has gone.
  std::shared_ptr<WorkerLink> WaitForLink() {
    MutexLock lock(mutex_);
    while (link_ == nullptr) changed_.Wait(mutex_);
    return link_;
  }
  void WaitForDisconnect() {
    MutexLock lock(mutex_);
    while (!disconnected_) changed_.Wait(mutex_);
  }

  void Start() override {}
  void Stop() override {}
  absl::Duration SinceBoot() const override { return absl::ZeroDuration(); }
  void Post(Event event, EventDone done) override {
    const EventResult result = on_event.Get()(event);
    {
      MutexLock lock(mutex_);
      events_.push_back(std::move(event));
    }
    answer.Get()([result, done = std::move(done)] { done(result); });
  }
  void PostAll(std::vector<Posted> events) override {
    {
      MutexLock lock(mutex_);
      posted_at_once_.push_back(events.size());
      for (const Posted& posted : events) restored_.push_back(posted.restore);
    }
    Engine::PostAll(std::move(events));
  }
  void Connect(WorkerHello hello, std::shared_ptr<WorkerLink> link, EventDone done) override {
    const EventResult result = on_hello.Get()(hello);
    done(result);
    MutexLock lock(mutex_);
    if (result.status.ok()) link_ = std::move(link);
    disconnected_ = false;
    changed_.NotifyAll();
  }
  void Disconnect(const std::string&, const std::string&, const WorkerLink*) override {
    MutexLock lock(mutex_);
    disconnected_ = true;
    link_.reset();
    changed_.NotifyAll();
  }
  bool SendOnce(const std::string&, const std::string&, const Assignment& assignment) override {
    std::shared_ptr<WorkerLink> link;
    {
      MutexLock lock(mutex_);
      link = link_;
    }
    if (link != nullptr) link->Send(assignment);
    return link != nullptr;
  }
  void Store(StoreOp op, StoreDone done) override {
    on_store.Get()(std::move(op), std::move(done));
  }
  std::shared_ptr<const Snapshot> snapshot() const override {
    MutexLock lock(mutex_);
    return snapshot_;
  }
  HistoryStore& history() const override {
    MutexLock lock(mutex_);
    if (history_ == nullptr) {
      history_ = *HistoryStore::Open({.path = folder_ / "history.db"});
    }
    return *history_;
  }
  absl::StatusOr<Explanation> Explain(const Snapshot&, uint64_t) const override {
    return explanation.Get();
  }
  absl::StatusOr<Explanation> Forecast(const Snapshot&, const SubmitJob&) const override {
    return explanation.Get();
  }
  absl::Status CopyDatabases(const std::string&) override { return absl::OkStatus(); }
  std::string held() const override { return ""; }
  const EngineOptions& options() const override { return engine_options; }
  EngineStats stats() const override {
    return {.commits = 3, .commit_time = absl::Seconds(2), .assignments_sent = 5};
  }
  void RunUntilIdle() override {}

 private:
  const ::muster::testing::TempDir folder_;
  mutable Mutex mutex_;
  mutable std::unique_ptr<HistoryStore> history_ MUSTER_GUARDED_BY(mutex_);
  CondVar changed_;
  std::shared_ptr<const Snapshot> snapshot_ MUSTER_GUARDED_BY(mutex_);
  std::vector<Event> events_ MUSTER_GUARDED_BY(mutex_);
  std::vector<RestoreList> restored_ MUSTER_GUARDED_BY(mutex_);
  std::vector<size_t> posted_at_once_ MUSTER_GUARDED_BY(mutex_);
  std::shared_ptr<WorkerLink> link_ MUSTER_GUARDED_BY(mutex_);
  bool disconnected_ MUSTER_GUARDED_BY(mutex_) = false;
};

inline std::shared_ptr<Job> MakeJob(uint64_t id, std::string name,
                                    JobState state = JobState::kRunning) {
  auto settings = std::make_shared<JobSettings>();
  settings->name = std::move(name);
  settings->project = "default";
  settings->spec = "{\"name\": \"" + settings->name + "\"}";
  auto job = std::make_shared<Job>();
  job->id = id;
  job->settings = std::move(settings);
  job->state = state;
  job->attempt = 1;
  return job;
}

}  // namespace muster::controller
