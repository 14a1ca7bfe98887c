#include "tests/sim/machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/version.h"
#include "tests/sim/bulk_call.h"

namespace muster::sim {
namespace {

// As the real agent's: so long it waits for what its predecessor left to die, and says hello beside
// it otherwise.
constexpr absl::Duration kLeftoverPatience = absl::Seconds(10);
constexpr absl::Duration kLeftoverPoll = absl::Milliseconds(100);
// Until an agent that ended is started again.
constexpr absl::Duration kServiceRestart = absl::Seconds(5);

// The agent's end of a wire.
class SimConnection final : public worker::ControlConnection {
 public:
  SimConnection(SimController& controller, std::shared_ptr<Wire> wire)
      : controller_(controller), wire_(std::move(wire)) {}

  // What arrives goes through `guard`: the agent may be paused or dead.
  void Begin(worker::ControlHandlers handlers, Execution& execution,
             const std::shared_ptr<SimConnection>& self) {
    const std::weak_ptr<SimConnection> weak = self;
    at_agent_ = [weak, &execution, on_message = std::move(handlers.on_message)](
                    const v1::ControllerMessage& message) {
      if (weak.expired()) return;
      execution.Run([weak, on_message, message] {
        const auto held = weak.lock();
        if (held != nullptr && !held->closed_) on_message(message);
      });
    };
    wire_->agent_end = [weak, &execution,
                        on_end = std::move(handlers.on_end)](const absl::Status& status) {
      if (weak.expired()) return;
      execution.Run([weak, on_end, status] {
        const auto held = weak.lock();
        if (held != nullptr && !std::exchange(held->closed_, true)) on_end(status);
      });
    };
    wire_->controller_end = [weak_line = std::weak_ptr(line_)] {
      const auto line = weak_line.lock();
      if (line != nullptr && line->stream != nullptr) line->stream->OnGone();
    };
  }

  void Send(v1::WorkerMessage message) override {
    if (closed_) return;
    wire_->up->Send([line = line_, weak_wire = std::weak_ptr(wire_), &controller = controller_,
                     at_agent = at_agent_, message = std::move(message)] {
      const std::shared_ptr<Wire> wire = weak_wire.lock();
      if (line->stream == nullptr && !line->refused && wire != nullptr) {
        line->stream = controller.Accept(wire, at_agent);
        line->refused = line->stream == nullptr;
        if (line->refused) {
          wire->down->Send([weak = std::weak_ptr(wire)] {
            const auto held = weak.lock();
            if (held != nullptr && held->agent_end) {
              held->agent_end(absl::UnavailableError("connection refused"));
            }
          });
        }
      }
      if (line->stream != nullptr) line->stream->OnMessage(message);
    });
  }

  void Close() override {
    if (std::exchange(closed_, true)) return;
    HangUp();
  }
  // The kernel closes the socket, or the call is cancelled.
  void HangUp() {
    wire_->up->Send([line = line_] {
      if (line->stream != nullptr) line->stream->OnGone();
    });
  }
  ~SimConnection() override { Close(); }

 private:
  struct Line {
    std::shared_ptr<ServerStream> stream;
    bool refused = false;
  };
  SimController& controller_;
  const std::shared_ptr<Wire> wire_;
  const std::shared_ptr<Line> line_ = std::make_shared<Line>();
  std::function<void(const v1::ControllerMessage&)> at_agent_;
  bool closed_ = false;
};

}  // namespace

Machine::Machine(Neighbours around, Dice dice, Kind kind)
    : around_(around), dice_(dice), kind_(std::move(kind)) {
  if (around_.metrics != nullptr) spooling_.emplace(around_.metrics->dice.Fork());
}

Machine::~Machine() {
  agent_.reset();
  processes_.clear();
}

std::shared_ptr<worker::ControlConnection> Machine::Connect(worker::ControlHandlers handlers) {
  std::shared_ptr<Wire> wire = around_.network.Connect(kind_.host);
  wire_ = wire;
  auto connection = std::make_shared<SimConnection>(around_.controller, std::move(wire));
  connection->Begin(std::move(handlers), agent_->execution(), connection);
  return connection;
}

std::unique_ptr<BulkAgent> Machine::MakeBulk(Execution& execution, const std::string& incarnation) {
  if (spool_ == nullptr) return nullptr;
  v1::BulkHello hello;
  hello.set_worker_name(kind_.name);
  hello.set_incarnation(incarnation);
  const auto connect = [this, &execution](BulkHandlers handlers) {
    std::shared_ptr<Wire> wire = around_.network.Connect(kind_.host);
    bulk_wire_ = wire;
    return CallBulk(around_.controller, std::move(wire), execution, std::move(handlers));
  };
  MetricsWorld& metrics = *around_.metrics;
  return std::make_unique<BulkAgent>(execution, metrics.dice.Fork(), std::move(spool_),
                                     BulkAgent::Host{.connect = connect,
                                                     .hello = std::move(hello),
                                                     .model = &metrics.model,
                                                     .spooled = &spooling_->records});
}

bool Machine::OpenSpool() {
  if (around_.metrics == nullptr) return true;
  auto spool = worker::Spool::Open(spooling_->disk, around_.metrics->spool);
  if (!spool.ok()) {
    around_.trace.Note(kind_.host, ": agent does not start: ", spool.status().ToString());
    return false;
  }
  spool_ = *std::move(spool);
  return true;
}

std::shared_ptr<Process> Machine::Spawn(Process::Setup setup) {
  Reap();
  for (const auto& process : processes_) {
    for (const uint32_t slot : setup.slots) {
      const std::vector<uint32_t>& taken = process->setup().slots;
      if (!process->alive() || std::count(taken.begin(), taken.end(), slot) == 0) continue;
      around_.trace.Fail(kind_.host, " slot ", slot, " has two processes: jobs ",
                         process->setup().key.job_id, " and ", setup.key.job_id);
    }
  }
  processes_.push_back(std::make_shared<Process>(around_.ranks, dice_.Fork(), std::move(setup)));
  return processes_.back();
}

void Machine::StartAgent() {
  if (agent_ != nullptr) return;
  ++life_;
  ClearLeftovers(around_.agenda.now() + kLeftoverPatience);
}

// All that it finds is killed; each dies of its own accord, for the kernel takes its time.
void Machine::ClearLeftovers(absl::Duration deadline) {
  Reap();
  std::vector<std::shared_ptr<Process>> leftovers;
  for (const auto& process : processes_) {
    if (process->alive()) leftovers.push_back(process);
  }
  if (leftovers.empty() || around_.agenda.now() > deadline) return BeginAgent(std::move(leftovers));
  for (const auto& process : leftovers) process->KillAll();
  around_.agenda.After(kLeftoverPoll, [this, life = life_, deadline] {
    if (life == life_ && agent_ == nullptr) ClearLeftovers(deadline);
  });
}

std::string Machine::RandomBytes() {
  std::string bytes;
  for (size_t i = 0; i < worker::kIdentityBytes; ++i) bytes += static_cast<char>(dice_.Next());
  return bytes;
}

// `is_clear`: nothing of its predecessors lives any more, so that they may be called dead.
v1::Hello Machine::MakeHello(bool is_clear) {
  v1::Hello hello;
  hello.set_protocol_version(kProtocolVersion);
  hello.set_worker_name(kind_.name);
  const std::string incarnation = RandomBytes();
  hello.set_incarnation(incarnation);
  const worker::Surroundings here{.machine = kind_.hardware,
                                  .place = absl::StrCat(kind_.host, " boot ", boots_)};
  const worker::BegunLife begun = worker::BeginLife(record_, here, incarnation, RandomBytes());
  record_ = begun.record;
  hello.set_identity(record_->identity);
  for (const std::string& dead : begun.predecessors) {
    if (is_clear) hello.add_predecessors(dead);
  }
  hello.set_version("sim");
  hello.set_pool(kind_.pool);
  // Now and then a device does not come back.
  const uint32_t broken = !healed_ && kind_.slots > 1 && dice_.Chance(0.1) ? 1 : 0;
  for (uint32_t i = 0; i < kind_.slots - broken; ++i) {
    v1::Slot* slot = hello.add_slots();
    slot->set_index(i);
    slot->set_kind(v1::CPU);
    slot->set_device("cpu");
  }
  hello.set_cpus(kind_.slots);
  // Some agents are older ones.
  Storage& storage = around_.ranks.storage;
  hello.set_checks_data(storage.has_data && (incarnation.front() & 3) != 0);
  if (hello.checks_data()) storage.data_looks[incarnation] = {};
  hello.set_allows_commands(true);
  hello.set_memory_bytes(uint64_t{1} << 30);
  return hello;
}

void Machine::BeginAgent(std::vector<std::shared_ptr<Process>> leftovers) {
  if (!OpenSpool()) return ComeBack(kServiceRestart);
  v1::Hello hello = MakeHello(leftovers.empty());
  around_.trace.Note(kind_.host, ": agent starts with ", hello.slots_size(), " slots, beside ",
                     leftovers.size(), " leftovers");
  if (!leftovers.empty()) ++around_.ranks.held_back;
  for (const auto& process : leftovers) process->SetAside(hello.incarnation());
  const std::string incarnation = hello.incarnation();
  around_.invariants.OnAgentStart(kind_.host, incarnation);
  agent_ = std::make_unique<Agent>(
      around_.agenda, around_.trace, around_.ranks.storage, dice_.Fork(), kind_.host,
      std::move(hello), Agent::Past{record_->controller, std::move(leftovers)},
      Agent::Host{
          .connect = [this](worker::ControlHandlers h) { return Connect(std::move(h)); },
          .spawn = [this](Process::Setup setup) { return Spawn(std::move(setup)); },
          .quit =
              [this, life = life_] {
                if (life != life_ || agent_ == nullptr) return;
                around_.trace.Note(kind_.host, ": agent leaves");
                DropAgent();
                ComeBack(dice_.Between(absl::Seconds(1), absl::Seconds(40)));
              },
          .on_publish =
              [this](uint64_t job_id, uint32_t attempt) {
                around_.invariants.OnPublish(job_id, attempt, around_.controller.published().get());
              },
          .on_committed = [this](
                              uint64_t job_id, uint32_t attempt,
                              int64_t step) { around_.model.OnCommitted(job_id, attempt, step); },
          .on_controller =
              [this](const worker::KnownController& controller) {
                worker::NoteWelcome(controller, *record_);
                around_.model.OnTerm(kind_.host, controller.term);
              },
          .make_bulk = [this, incarnation](
                           Execution& execution) { return MakeBulk(execution, incarnation); }});
  agent_->Start();
}

void Machine::DropAgent() {
  agent_.reset();  // its socket is closed by the kernel
  for (const auto& process : processes_) {
    if (process->alive()) process->OnAgentDead();
  }
}

bool Machine::has_undead() const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const auto& process) { return process->undead(); });
}

bool Machine::HoldsLease(const std::string& incarnation) const {
  return agent_ != nullptr && agent_->incarnation() == incarnation && agent_->HoldsLease();
}

void Machine::ComeBack(absl::Duration after) {
  around_.agenda.After(after, [this, life = life_] {
    if (life == life_) StartAgent();
  });
}

void Machine::CrashAgent(absl::Duration back_after) {
  if (agent_ == nullptr) return;
  around_.trace.Note(kind_.host, ": agent crashes");
  DropAgent();
  ComeBack(back_after);
}

void Machine::CrashMachine(absl::Duration back_after) {
  around_.trace.Note(kind_.host, ": machine crashes");
  ++boots_;
  if (const auto wire = wire_.lock()) {
    wire->up->Sever();
    wire->down->Sever();
  }
  if (const auto wire = bulk_wire_.lock()) {
    wire->up->Sever();
    wire->down->Sever();
  }
  Resume();
  agent_.reset();
  if (spooling_.has_value()) {
    spooling_->disk.LosePower();
    spooling_->records.OnLost(around_.metrics->model);
  }
  for (const auto& process : processes_) process->LosePower();
  Reap();
  ComeBack(back_after);
}

void Machine::Pause(absl::Duration time, bool with_ranks) {
  if (agent_ == nullptr || agent_->execution().paused()) return;
  around_.trace.Note(kind_.host, with_ranks ? ": machine" : ": agent", " paused for ",
                     absl::FormatDuration(time));
  agent_->execution().Pause();
  for (const auto& process : processes_) {
    if (with_ranks) process->execution().Pause();
  }
  around_.agenda.After(time, [this] { Resume(); });
}

void Machine::Resume() {
  if (agent_ != nullptr) agent_->execution().Resume();
  const std::vector<std::shared_ptr<Process>> processes = processes_;
  for (const auto& process : processes) process->execution().Resume();
}

void Machine::Notice(absl::Duration grace, absl::Duration back_after) {
  if (agent_ == nullptr || agent_->stopping()) return;
  around_.trace.Note(kind_.host, ": spot notice of ", absl::FormatDuration(grace));
  agent_->execution().Run([this, grace] { agent_->BeginStop(grace); });
  around_.agenda.After(grace + absl::Seconds(1), [this, life = life_, back_after] {
    if (life == life_ && agent_ != nullptr) CrashMachine(back_after);
  });
}

void Machine::FillDisk(absl::Duration time) {
  if (!spooling_.has_value() || healed_) return;
  around_.trace.Note(kind_.host, ": disk full for ", absl::FormatDuration(time));
  spooling_->disk.full = true;
  around_.agenda.After(time, [this] { spooling_->disk.full = false; });
}

void Machine::CopyDataFolder(const Machine& from) {
  record_ = from.record_;
  if (!spooling_.has_value()) return;
  spooling_->disk.CopyFrom(from.spooling_->disk);
  spooling_->records = from.spooling_->records;
}

void Machine::SettleSpool() {
  if (!spooling_.has_value()) return;
  if (agent_ != nullptr && agent_->connected() && spooling_->records.size() > 0) {
    around_.trace.Fail(kind_.host, " never delivered ", spooling_->records.size(),
                       " records of its spool");
  }
  spooling_->records.OnLost(around_.metrics->model);
}

void Machine::Heal() {
  healed_ = true;
  if (spooling_.has_value()) spooling_->disk.full = false;
  Resume();
  // Nobody comes to mend a driver that hangs: what runs elsewhere must do without.
  if (has_undead()) return;
  const bool sound = agent_ != nullptr && !agent_->stopping() && agent_->slots() == kind_.slots;
  if (!sound) CrashMachine(absl::Seconds(1));
}

void Machine::AddLiveProcesses(std::vector<LiveProcess>& out) const {
  for (const auto& process : processes_) {
    if (!process->alive()) continue;
    for (const uint32_t slot : process->setup().slots) {
      out.push_back({.host = kind_.host,
                     .worker = kind_.name,
                     .slot = slot,
                     .key = process->setup().key,
                     .set_aside_by = process->set_aside_by()});
    }
  }
}

void Machine::Reap() {
  std::erase_if(processes_,
                [](const auto& process) { return !process->alive() && process.use_count() == 1; });
}

}  // namespace muster::sim
