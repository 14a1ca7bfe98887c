#include "tests/sim/sim_controller.h"

#include <type_traits>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "controller/api/calls/known_jobs.h"
#include "controller/model/rank_origin.h"
#include "controller/store/history/history_store.h"
#include "controller/store/metrics/metrics_schema.h"
#include "controller/store/sqlite.h"
#include "controller/store/state_store.h"
#include "tests/sim/metrics_model.h"

namespace muster::sim {
namespace {

constexpr char kStateDatabase[] = "/sim/state.db";
constexpr char kHistoryDatabase[] = "/sim/history.db";
constexpr absl::Duration kTick = absl::Seconds(1);
constexpr absl::Duration kFullDiskRetry = absl::Seconds(10);

}  // namespace

SimController::SimController(Agenda& agenda, Trace& trace, Network& network, Invariants& invariants,
                             Dice dice, mc::EngineOptions options)
    : agenda_(agenda),
      trace_(trace),
      network_(network),
      invariants_(invariants),
      dice_(dice),
      options_([this, &options] {
        options.data_dir = "/sim";
        options.threads = false;
        options.database_vfs = Disk::kVfs;
        options.boot = 1;  // its machine's clock goes on, whatever becomes of the process
        options.on_fatal = [this](const absl::Status& status) {
          if (dying_) return;  // how it dies is decided
          trace_.Note("controller: fatal: ", status.ToString());
          dying_ = true;
          crash_kind_ = CrashKind::kKill;
        };
        options.on_published = [this](const std::shared_ptr<const mc::Snapshot>& snapshot) {
          if (snapshot->version == published_->version) return;
          const std::shared_ptr<const mc::Snapshot> all =
              all_jobs_.OnPublished(snapshot, engine_->history());
          invariants_.OnPublished(*all, published_.get());
          published_ = all;
        };
        return options;
      }()),
      disk_(dice_.Fork()),
      all_jobs_(trace) {
  disk_.alive = [this] { return Spend(); };
  disk_.Mount();
}

const Disk& SimController::DiskWithTables() {
  static const Disk* const made = [] {
    auto* disk = new Disk(Dice(1));
    disk->Mount();
    const auto state = mc::StateStore::Open({.path = kStateDatabase, .vfs = Disk::kVfs});
    MUSTER_CHECK(state.ok(), "an empty state.db cannot be made");
    const auto history = mc::HistoryStore::Open({.path = kHistoryDatabase, .vfs = Disk::kVfs});
    MUSTER_CHECK(history.ok(), "an empty history.db cannot be made");
    const auto metrics = mc::SqliteDatabase::Open(
        {.path = MetricsModel::kDatabase, .vfs = Disk::kVfs}, mc::kMetricsMigrations);
    MUSTER_CHECK(metrics.ok(), "an empty metrics.db cannot be made");
    return disk;
  }();
  return *made;
}

SimController::~SimController() {
  dying_ = true;
  ingest_.reset();
  engine_.reset();
}

bool SimController::Spend() {
  if (dying_) return false;
  if (fuse_ < 0) return true;
  if (fuse_-- > 0) return true;
  dying_ = true;
  return false;
}

void SimController::LightFuse(int effects, CrashKind kind) {
  if (!up()) return;
  fuse_ = effects;
  crash_kind_ = kind;
}

void SimController::Start() {
  if (engine_ != nullptr) return;
  dying_ = false;
  fuse_ = -1;
  const uint64_t life = ++life_;
  // Before the first start nothing has befallen it.
  if (life > 1) {
    Disk copy = disk_.Copy();
    copy.Mount();
    auto store = mc::StateStore::Open({.path = kStateDatabase, .vfs = Disk::kVfs});
    if (!store.ok()) {
      trace_.Fail("the database cannot be opened after a crash: ", store.status().ToString());
    } else if (const absl::Status good = (*store)->CheckIntegrity(); !good.ok()) {
      trace_.Fail("integrity_check after a crash: ", good.ToString());
    }
    if (store.ok()) store->reset();
  }
  disk_.Mount();
  const absl::Status opened = Open();
  if (!opened.ok() || dying_) {
    trace_.Note("controller: does not start: ", opened.ToString());
    const absl::StatusCode code = opened.code();
    const bool may_be = dying_ || code == absl::StatusCode::kResourceExhausted ||
                        code == absl::StatusCode::kUnknown;
    if (!may_be) trace_.Fail("the controller cannot start: ", opened.ToString());
    dying_ = true;
    ingest_.reset();
    engine_.reset();
    in_transaction_ = true;
    agenda_.After(absl::Seconds(2), [this, life] {
      if (life == life_) Start();
    });
    return;
  }
  const std::shared_ptr<const mc::Snapshot> before = std::move(published_);
  published_ = all_jobs_.OnStart(engine_->snapshot(), engine_->history());
  trace_.Note("controller: starts, term ", published_->term, ", ", published_->jobs.size(),
              " jobs");
  invariants_.OnStart(*published_, before.get(), !std::exchange(in_transaction_, false));
  engine_->Start();
  if (ingest_ != nullptr) ingest_->Start();
  Tick();
}

absl::Status SimController::Open() {
  MUSTER_ASSIGN_OR_RETURN(engine_, mc::Engine::Open(options_, agenda_.clock()));
  return metrics_dice_.has_value() ? OpenIngest() : absl::OkStatus();
}

absl::Status SimController::OpenIngest() {
  mc::MetricsIngestOptions options;
  options.path = MetricsModel::kDatabase;
  options.vfs = Disk::kVfs;
  options.threads = false;
  options.full_disk_retry = kFullDiskRetry;
  options.open_retry = absl::ZeroDuration();
  options.known = [this](const mc::RankKey& key, const std::string& worker) {
    return mc::WasPlacedOn(*engine_->snapshot(), engine_->history(), key, worker);
  };
  options.on_fatal = options_.on_fatal;
  MUSTER_ASSIGN_OR_RETURN(ingest_, mc::MetricsIngest::Open(std::move(options), agenda_.clock()));
  return absl::OkStatus();
}

void SimController::Tick() {
  agenda_.After(kTick, [this, life = life_] {
    if (life != life_ || engine_ == nullptr) return;
    Step();
    if (life == life_ && engine_ != nullptr) Tick();
  });
}

void SimController::Wake() {
  if (std::exchange(wake_pending_, true)) return;
  const absl::Duration wait = dice_.Chance(0.02)
                                  ? dice_.Between(absl::Milliseconds(50), absl::Seconds(2))
                                  : absl::Microseconds(dice_.Between(10, 4000));
  agenda_.After(wait, [this, life = life_] {
    wake_pending_ = false;
    if (life == life_) Step();
  });
}

void SimController::Step() {
  if (engine_ == nullptr || stepping_) return;
  stepping_ = true;
  engine_->RunUntilIdle();
  stepping_ = false;
  if (dying_) {
    in_transaction_ = true;
    TearDown();
  }
}

// Batches of several agents gather for one commit, as under load.
void SimController::WakeIngest() {
  StoreMetricsIn(metrics_dice_->Between(absl::Milliseconds(100), absl::Seconds(5)));
}

void SimController::StoreMetricsIn(absl::Duration wait) {
  if (std::exchange(ingest_wake_pending_, true)) return;
  agenda_.After(wait, [this] {
    ingest_wake_pending_ = false;
    StoreMetrics();
  });
}

void SimController::StoreMetrics() {
  if (ingest_ == nullptr || stepping_ || dying_) return;
  stepping_ = true;
  ingest_->RunUntilIdle();
  stepping_ = false;
  if (dying_) return TearDown();
  if (!ingest_->ready().ok()) StoreMetricsIn(kFullDiskRetry);
}

void SimController::Crash(CrashKind kind) {
  if (!up()) return;
  crash_kind_ = kind;
  dying_ = true;
  TearDown();
}

void SimController::TearDown() {
  trace_.Note("controller: dies, ", crash_kind_ == CrashKind::kPower ? "power lost" : "killed");
  ingest_.reset();
  engine_.reset();
  fuse_ = -1;
  disk_.fail_writes = disk_.fail_syncs = 0;
  if (crash_kind_ == CrashKind::kPower) {
    disk_.LosePower();
  } else {
    // The kernel closes its sockets.
    for (const std::weak_ptr<Wire>& weak : std::exchange(wires_, {})) {
      const auto wire = weak.lock();
      if (wire == nullptr) continue;
      wire->down->Send([weak] {
        const auto held = weak.lock();
        if (held != nullptr && held->agent_end) {
          held->agent_end(absl::UnavailableError("connection closed"));
        }
      });
    }
  }
  wires_.clear();
  const absl::Duration down = dice_.Chance(0.15)
                                  ? dice_.Between(absl::Seconds(20), absl::Minutes(3))
                                  : dice_.Between(absl::Milliseconds(200), absl::Seconds(15));
  agenda_.After(down, [this, life = life_] {
    if (life == life_) Start();
  });
}

std::shared_ptr<ServerStream> SimController::Accept(
    std::shared_ptr<Wire> wire, std::function<void(const v1::ControllerMessage&)> at_agent) {
  if (!up()) return nullptr;
  std::erase_if(wires_, [](const auto& weak) { return weak.expired(); });
  wires_.push_back(wire);
  StreamHost& host = *this;
  return std::make_shared<ServerStream>(host, std::move(wire), std::move(at_agent));
}

std::shared_ptr<BulkServer> SimController::AcceptBulk(
    std::shared_ptr<Wire> wire, std::function<void(const v1::BulkAck&)> at_agent) {
  if (!up()) return nullptr;
  std::erase_if(wires_, [](const auto& weak) { return weak.expired(); });
  wires_.push_back(wire);
  StreamHost& host = *this;
  return std::make_shared<BulkServer>(host, std::move(wire), std::move(at_agent));
}

void SimController::Post(mc::Event event, std::function<void(const mc::EventResult&)> done) {
  if (!up()) return;
  absl::StatusOr<mc::RestoreList> restore = WhatToRestore(event);
  if (!restore.ok()) return done({.status = restore.status()});
  std::vector<mc::Engine::Posted> post;
  post.push_back({.event = std::move(event),
                  .done =
                      [this, done = std::move(done)](const mc::EventResult& result) {
                        if (Spend()) done(result);
                      },
                  .restore = *std::move(restore)});
  engine_->PostAll(std::move(post));
  Wake();
}

absl::StatusOr<mc::RestoreList> SimController::WhatToRestore(mc::Event& event) {
  mc::KnownJobs jobs(*engine_);
  const auto find = [&jobs](auto& request) -> absl::Status {
    using Request = std::decay_t<decltype(request)>;
    if constexpr (std::is_same_v<Request, mc::SubmitJob>) {
      return jobs.LoadReferred(request);
    } else if constexpr (std::is_same_v<Request, mc::RequestVerify>) {
      return jobs.FindCheckpoint(request.checkpoint_id).status();
    } else if constexpr (std::is_same_v<Request, mc::CancelJob> ||
                         std::is_same_v<Request, mc::UpdateJob>) {
      return jobs.Find(request.job_id).status();
    } else if constexpr (std::is_same_v<Request, mc::ControlJob>) {
      MUSTER_ASSIGN_OR_RETURN(const mc::Job* job, jobs.Find(request.job_id));
      const bool requeues = request.verb == mc::ControlJob::Verb::kRequeue && job != nullptr;
      return requeues ? jobs.LoadWaitedFor(job->settings->scheduling) : absl::OkStatus();
    } else {
      return absl::OkStatus();
    }
  };
  MUSTER_RETURN_IF_ERROR(std::visit(find, event));
  return jobs.WhatToRestore();
}

void SimController::OnHelloAnswered(const mc::WorkerHello& hello, const mc::EventResult& result) {
  if (!dying_) invariants_.OnHello(hello, result);
}

void SimController::OnHeartbeatAnswered(const std::string& worker, const mc::EventResult& result) {
  // A lease that needs room would be lost with the disk.
  if (!dying_ && absl::IsResourceExhausted(result.status)) {
    trace_.Fail("a heartbeat of ", worker, " needed room: ", result.status.ToString());
  }
}

void SimController::OnReportAnswered(const mc::Fence& fence, const v1::WorkerMessage& message,
                                     const std::string& worker, const std::string& incarnation,
                                     const mc::EventResult& result) {
  if (dying_) return;
  invariants_.OnReport({.worker = worker,
                        .incarnation = incarnation,
                        .event_seq = message.event_seq(),
                        .fence = fence},
                       result, published_.get());
}

}  // namespace muster::sim
