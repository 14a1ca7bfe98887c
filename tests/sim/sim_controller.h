// The controller's process and its machine: the real engine, without threads, over the simulated
// disk. It is killed or loses its power at any moment, also between any two effects of one step
// (a write, a sync, an answer, an assignment that is sent), and starts again from the disk.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/engine/engine.h"
#include "controller/metrics/metrics_ingest.h"
#include "tests/sim/all_jobs.h"
#include "tests/sim/bulk_server.h"
#include "tests/sim/disk.h"
#include "tests/sim/invariants.h"
#include "tests/sim/network.h"
#include "tests/sim/stream.h"
#include "tests/sim/trace.h"

namespace muster::sim {

enum class CrashKind { kKill, kPower };

class SimController final : private StreamHost {
 public:
  SimController(Agenda& agenda, Trace& trace, Network& network, Invariants& invariants, Dice dice,
                mc::EngineOptions options);
  ~SimController() override;

  bool up() const { return engine_ != nullptr && !dying_; }
  // The newest version, with its archived jobs, also while it is down; null before the first start.
  const std::shared_ptr<const mc::Snapshot>& published() const { return published_; }
  Disk& disk() { return disk_; }
  // Before the first start: it takes in what ranks report, too.
  void KeepMetrics(Dice dice) { metrics_dice_ = dice; }
  // Before the first start: its databases have their tables already. To make them takes as long as
  // some minutes of the world.
  void BeginWithTables() { disk_.Load(DiskWithTables()); }
  // How often a job was archived.
  uint64_t archived() const { return all_jobs_.archived(); }
  // Its databases, without a row. Made at the first question, over a disk that is then mounted.
  static const Disk& DiskWithTables();

  void Start();
  void Crash(CrashKind kind);
  // It crashes after so many effects from now.
  void LightFuse(int effects, CrashKind kind);

  // A new Control stream; null: nobody listens. `at_agent` gets what it says.
  std::shared_ptr<ServerStream> Accept(std::shared_ptr<Wire> wire,
                                       std::function<void(const v1::ControllerMessage&)> at_agent);
  // A new Bulk stream, likewise.
  std::shared_ptr<BulkServer> AcceptBulk(std::shared_ptr<Wire> wire,
                                         std::function<void(const v1::BulkAck&)> at_agent);
  // A request of people; what it names is restored first, as the API does. `done` runs unless the
  // controller dies before its answer leaves.
  void Post(mc::Event event, std::function<void(const mc::EventResult&)> done);

 private:
  mc::Engine* engine() override { return dying_ ? nullptr : engine_.get(); }
  mc::MetricsIngest* ingest() override { return dying_ ? nullptr : ingest_.get(); }
  uint64_t life() const override { return life_; }
  bool MayEmit() override { return Spend(); }
  void Wake() override;
  void WakeIngest() override;
  void OnHelloAnswered(const mc::WorkerHello& hello, const mc::EventResult& result) override;
  void OnHeartbeatAnswered(const std::string& worker, const mc::EventResult& result) override;
  void OnReportAnswered(const mc::Fence& fence, const v1::WorkerMessage& message,
                        const std::string& worker, const std::string& incarnation,
                        const mc::EventResult& result) override;

  bool Spend();  // one effect; false: too late, it is dead
  // Opens both databases. Not OK: what was in the way.
  absl::Status Open();
  absl::Status OpenIngest();
  absl::StatusOr<mc::RestoreList> WhatToRestore(mc::Event& event);
  void Step();
  void StoreMetrics();
  void StoreMetricsIn(absl::Duration wait);
  void Tick();
  void TearDown();

  Agenda& agenda_;
  Trace& trace_;
  Network& network_;
  Invariants& invariants_;
  Dice dice_;
  const mc::EngineOptions options_;
  Disk disk_;
  std::unique_ptr<mc::Engine> engine_;
  std::optional<Dice> metrics_dice_;
  std::unique_ptr<mc::MetricsIngest> ingest_;
  AllJobs all_jobs_;
  std::shared_ptr<const mc::Snapshot> published_;
  std::vector<std::weak_ptr<Wire>> wires_;
  uint64_t life_ = 0;
  bool stepping_ = false;
  bool wake_pending_ = false;
  bool ingest_wake_pending_ = false;
  bool dying_ = false;
  bool in_transaction_ = false;  // it died within a step: more than was published may be on disk
  CrashKind crash_kind_ = CrashKind::kKill;
  int fuse_ = -1;  // effects left; below 0: not lit
};

}  // namespace muster::sim
