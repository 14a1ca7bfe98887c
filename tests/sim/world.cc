#include "tests/sim/world.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace muster::sim {
namespace {

// After everything has healed: for all jobs to end, and then for the tidying up.
constexpr absl::Duration kLiveness = absl::Hours(6);
constexpr absl::Duration kTidying = absl::Minutes(10);
// Until all are back where they belong.
constexpr absl::Duration kCalm = absl::Minutes(5);
constexpr size_t kMostClones = 2;
// Streams of their own for what not every seed has, so that the others stay what they were.
constexpr uint64_t kMetricsSalt = 0x6d657472696373;
constexpr uint64_t kDaemonsSalt = 0x6461656d6f6e73;
constexpr uint64_t kMisreadingsSalt = 0x6d697372656164;
constexpr uint64_t kDiskSalt = 0x6469736b;
constexpr uint64_t kArchiveSalt = 0x61726368697665;
constexpr uint64_t kDataSalt = 0x6c6f6f6b64;
constexpr double kMetricsChance = 0.35;  // each commit costs as much as several steps of the world

}  // namespace

World::World(uint64_t seed, bool print)
    : seed_(seed),
      dice_(seed),
      trace_(agenda_, print),
      model_(trace_, storage_),
      invariants_(trace_, storage_, model_),
      network_(agenda_, trace_, dice_.Fork()),
      ranks_{.agenda = agenda_, .trace = trace_, .storage = storage_} {}

void World::Build() {
  mc::EngineOptions options;
  options.max_log_bytes = uint64_t{1} << dice_.Between(14, 21);
  if (dice_.Chance(0.7)) {
    // Jobs here are short: gangs that are resized as seldom as real ones never would be.
    options.elastic.grow_after = dice_.Between(absl::Seconds(10), absl::Minutes(3));
    options.elastic.shrink_after = dice_.Between(absl::Seconds(10), absl::Minutes(3));
    options.elastic.restart_cost = dice_.Between(absl::Seconds(1), absl::Seconds(20));
  }
  // Machines that are lost for a while are forgotten, and come back as new ones.
  if (dice_.Chance(0.5)) {
    options.forget_lost_after = dice_.Between(absl::Minutes(1), absl::Minutes(5));
  }
  // Jobs that have ended leave memory, the last few of them excepted.
  if (Dice archive(seed_ ^ kArchiveSalt); archive.Chance(0.4)) {
    options.archive.recent = archive.Below(5);
    options.archive.least_kept = archive.Between(absl::Seconds(1), absl::Minutes(1));
    options.archive.least_kept_beyond_recent =
        archive.Between(options.archive.least_kept, absl::Minutes(3));
  }
  controller_ = std::make_unique<SimController>(agenda_, trace_, network_, invariants_,
                                                dice_.Fork(), options);
  if (!Dice(seed_ ^ kDiskSalt).Chance(0.1)) controller_->BeginWithTables();
  storage_.has_data = Dice(seed_ ^ kDataSalt).Chance(0.25);
  Dice daemons(seed_ ^ kDaemonsSalt);
  if (daemons.Chance(0.4)) ranks_.daemons = daemons.Unit() * 0.6;
  PlanMetrics();
  invariants_.now = [this] { return agenda_.clock().Now(); };
  invariants_.since_boot = [this] { return agenda_.now(); };
  invariants_.live_processes = [this] {
    std::vector<LiveProcess> live;
    for (const auto& machine : machines_) machine->AddLiveProcesses(live);
    return live;
  };
  storage_.on_delete = [this](const std::string& path, const Storage::Folder& folder) {
    invariants_.OnDelete(path, folder, controller_->published().get());
  };
  ranks_.on_resume = [this](uint64_t job_id, uint32_t attempt, int64_t step) {
    invariants_.OnResume(job_id, attempt, step, controller_->published().get());
  };
  ranks_.on_rename = [this](const std::string& path, const Storage::Folder& folder) {
    invariants_.OnRename(path, folder, controller_->published().get());
  };
  ranks_.on_success = [this](uint64_t job_id, uint32_t attempt, uint32_t rank) {
    model_.OnRankSucceeded(job_id, attempt, rank);
  };
  invariants_.holds_lease = [this](const std::string& incarnation) {
    return std::any_of(machines_.begin(), machines_.end(),
                       [&](const auto& machine) { return machine->HoldsLease(incarnation); });
  };
  if (dice_.Chance(0.4)) ranks_.undead = dice_.Unit() * 0.3;
  if (dice_.Chance(0.5)) ranks_.orphans = dice_.Unit() * 0.5;
  const int machines = static_cast<int>(dice_.Between(1, 6));
  uint32_t slots = 0;
  uint32_t widest = 0;
  std::vector<std::string> names;
  for (int i = 1; i <= machines; ++i) {
    const std::string name = absl::StrCat("m", i);
    Machine::Kind kind{.host = name,
                       .name = name,
                       .hardware = name,
                       .slots = static_cast<uint32_t>(dice_.Between(1, 4))};
    slots += kind.slots;
    widest = std::max(widest, kind.slots);
    names.push_back(kind.name);
    AddMachine(std::move(kind));
  }
  PlanMisreadings();
  People::Habits habits;
  habits.slots = slots;
  habits.widest = widest;
  habits.workers = std::move(names);
  if (dice_.Chance(0.6)) {
    habits.quota = static_cast<uint32_t>(dice_.Between(1, slots));
    habits.user_quota = static_cast<uint32_t>(dice_.Between(1, habits.quota));
    habits.quotas_change = dice_.Chance(0.5);
    habits.queues_are_bounded = dice_.Chance(0.5);
  }
  habits.submit_every = dice_.Between(absl::Seconds(10), absl::Minutes(3));
  habits.cancel_every = dice_.Between(absl::Minutes(1), absl::Minutes(15));
  habits.fail = dice_.Chance(0.6) ? dice_.Unit() * 0.05 : 0;
  if (storage_.has_data) habits.data_seed = Dice(seed_ ^ kDataSalt).Next();
  habits.max_jobs = static_cast<int>(dice_.Between(2, 14));
  people_ = std::make_unique<People>(agenda_, trace_, network_, *controller_, model_, dice_.Fork(),
                                     habits);
}

void World::PlanMetrics() {
  Dice dice(seed_ ^ kMetricsSalt);
  if (!dice.Chance(kMetricsChance)) return;
  worker::SpoolOptions spool{.directory = "/spool"};
  spool.segment_bytes = static_cast<uint64_t>(dice.Between(4, 16)) << 10;
  spool.max_bytes = spool.segment_bytes * static_cast<uint64_t>(dice.Between(4, 64));
  const bool disks_fill = dice.Chance(0.4);
  const absl::Duration every = dice.Between(absl::Minutes(1), absl::Minutes(6));
  controller_->KeepMetrics(dice.Fork());
  metrics_ = std::make_unique<MetricsWorld>(
      MetricsWorld{.model = MetricsModel(trace_), .dice = dice, .spool = std::move(spool)});
  if (!disks_fill) return;
  faults_.push_back({every, [this] {
                       Dice& draw = metrics_->dice;
                       Machine& machine = *machines_[draw.Below(machines_.size())];
                       machine.FillDisk(draw.Between(absl::Seconds(2), absl::Minutes(3)));
                     }});
}

void World::CheckMetrics() {
  if (metrics_ == nullptr) return;
  for (const auto& machine : machines_) machine->SettleSpool();
  metrics_->model.Check(controller_->disk());
}

void World::AddMachine(Machine::Kind kind) {
  machines_.push_back(
      std::make_unique<Machine>(Machine::Neighbours{agenda_, trace_, network_, *controller_,
                                                    invariants_, model_, ranks_, metrics_.get()},
                                dice_.Fork(), std::move(kind)));
}

// Somebody starts another machine from the picture of one, data folder and all; it is there to
// stay.
void World::Clone() {
  if (clones_ == kMostClones) return;
  const Machine& original = AnyMachine();
  Machine::Kind kind = original.kind();
  kind.host = absl::StrCat(kind.host, "-clone", ++clones_);
  // Not every machine can be told from its clones.
  if (dice_.Chance(0.7)) kind.hardware = kind.host;
  trace_.Note(kind.host, ": is made of ", original.host());
  AddMachine(std::move(kind));
  machines_.back()->CopyDataFolder(original);
  machines_.back()->StartAgent();
}

// For machines that stay as they are, since nothing ends what hangs there.
void World::AddSpares() {
  const size_t machines = machines_.size();
  for (size_t i = 0; i < machines; ++i) {
    if (!machines_[i]->has_undead()) continue;
    const std::string name = absl::StrCat("spare", i);
    AddMachine({.host = name, .name = name, .hardware = name, .slots = machines_[i]->slots()});
    machines_.back()->StartWhole();
  }
}

// Which faults this world knows, and how often they come: another choice in each seed.
void World::Plan() {
  const auto maybe = [this](double chance, absl::Duration low, absl::Duration high,
                            std::function<void()> failure) {
    const bool known = dice_.Chance(chance);
    const absl::Duration every = dice_.Between(low, high);
    if (known) faults_.push_back({every, std::move(failure)});
  };
  if (dice_.Chance(0.7)) {
    network_.weather.jitter = dice_.Between(absl::Milliseconds(1), absl::Milliseconds(300));
    network_.weather.slow_chance = dice_.Unit() * 0.05;
    network_.weather.loss_chance = dice_.Unit() * 0.3;
  }
  using absl::Minutes;
  using absl::Seconds;
  maybe(0.5, Seconds(20), Minutes(5), [this] { network_.BreakOne(AnyMachine().host()); });
  maybe(0.5, Seconds(40), Minutes(6), [this] { CutSomeone(); });
  maybe(0.3, Minutes(3), Minutes(10), [this] { Flap(); });
  maybe(0.5, Seconds(40), Minutes(8),
        [this] { AnyMachine().CrashAgent(dice_.Between(absl::Milliseconds(300), Seconds(60))); });
  maybe(0.4, Minutes(1), Minutes(8),
        [this] { AnyMachine().CrashMachine(dice_.Between(Seconds(5), Minutes(3))); });
  maybe(0.4, Seconds(40), Minutes(8), [this] {
    AnyMachine().Pause(dice_.Between(absl::Milliseconds(200), Seconds(50)), dice_.Chance(0.5));
  });
  maybe(0.4, Minutes(2), Minutes(10), [this] { SpotEvent(); });
  maybe(0.5, Seconds(30), Minutes(6), [this] { controller_->Crash(CrashKind::kKill); });
  maybe(0.5, Seconds(30), Minutes(6), [this] { controller_->Crash(CrashKind::kPower); });
  maybe(0.6, Seconds(20), Minutes(5), [this] {
    controller_->LightFuse(static_cast<int>(dice_.Between(0, 40)),
                           dice_.Chance(0.5) ? CrashKind::kPower : CrashKind::kKill);
  });
  maybe(0.3, Minutes(2), Minutes(10), [this] { FillDisk(); });
  maybe(0.3, Minutes(2), Minutes(10), [this] { StepWallClock(); });
  maybe(0.25, Minutes(1), Minutes(8), [this] {
    trace_.Note("disk: an I/O error to come");
    (dice_.Chance(0.5) ? controller_->disk().fail_syncs : controller_->disk().fail_writes) = 1;
    // Trouble does not come alone.
    if (!dice_.Chance(0.5)) return;
    agenda_.After(dice_.Between(Seconds(1), Minutes(2)), [this] {
      if (!healed_) controller_->Crash(CrashKind::kPower);
    });
  });
  maybe(0.25, Minutes(3), Minutes(15), [this] { Rot(); });
  maybe(0.4, Minutes(1), Minutes(8), [this] { Clone(); });
  maybe(0.35, Minutes(1), Minutes(8), [this] { Unmount(); });
  maybe(0.2, Minutes(3), Minutes(12), [this] {
    trace_.Note("storage: away");
    storage_.away = true;
    agenda_.After(dice_.Between(Seconds(2), Minutes(4)), [this] { storage_.away = false; });
  });
}

void World::Arm(const Fault& fault) {
  agenda_.After(dice_.Exponential(fault.every), [this, &fault] {
    if (healed_) return;
    fault.failure();
    Arm(fault);
  });
}

// For seconds, or for so long that every lease would be over.
void World::FillDisk() {
  const absl::Duration time = dice_.Chance(0.5)
                                  ? dice_.Between(absl::Seconds(1), absl::Minutes(2))
                                  : dice_.Between(absl::Minutes(2), absl::Minutes(12));
  const uint64_t filling = ++fillings_;
  trace_.Note("disk: full");
  controller_->disk().full = true;
  controller_->disk().copies = dice_.Chance(0.5);
  agenda_.After(time, [this, filling] {
    if (filling != fillings_) return;
    trace_.Note("disk: has room");
    controller_->disk().full = false;
  });
}

// Somebody sets the wall clock, or a time server does.
void World::StepWallClock() {
  const absl::Duration by = dice_.Chance(0.5)
                                ? dice_.Between(absl::Milliseconds(1), absl::Seconds(5))
                                : dice_.Between(absl::Minutes(1), absl::Hours(2000));
  const bool back = dice_.Chance(0.5);
  trace_.Note("the wall clock steps ", back ? "back" : "on", " by ", absl::FormatDuration(by));
  agenda_.JumpWall(back ? -by : by);
}

void World::CutSomeone() {
  const std::string name = AnyMachine().host();
  const bool both = dice_.Chance(0.5);
  const Way way = dice_.Chance(0.5) ? Way::kUp : Way::kDown;
  for (const Way each : {Way::kUp, Way::kDown}) {
    if (!both && each != way) continue;
    network_.Cut(name, each, true);
    agenda_.After(dice_.Between(absl::Seconds(1), absl::Seconds(90)),
                  [this, name, each] { network_.Cut(name, each, false); });
  }
}

void World::Flap() {
  const std::string name = AnyMachine().host();
  for (int i = 0; i < 8; ++i) {
    const absl::Duration at =
        absl::Seconds(7 * i) + dice_.Between(absl::ZeroDuration(), absl::Seconds(3));
    agenda_.After(at, [this, name] {
      if (!healed_) network_.BreakOne(name);
    });
  }
}

// The provider takes several machines at a time, with or without a word.
void World::SpotEvent() {
  const uint64_t taken = 1 + dice_.Below(machines_.size());
  const absl::Duration grace = dice_.Between(absl::Seconds(5), absl::Seconds(30));
  const bool noticed = dice_.Chance(0.7);
  for (uint64_t i = 0; i < taken; ++i) {
    Machine& machine = AnyMachine();
    const absl::Duration back = dice_.Between(absl::Seconds(20), absl::Minutes(5));
    if (noticed) {
      machine.Notice(grace, back);
    } else {
      machine.CrashMachine(back);
    }
  }
}

// A machine comes up without the mount, or loses it.
void World::Unmount() {
  const std::string name = AnyMachine().host();
  trace_.Note("storage: not mounted on ", name);
  storage_.unmounted.insert(name);
  agenda_.After(dice_.Between(absl::Seconds(2), absl::Minutes(10)),
                [this, name] { storage_.unmounted.erase(name); });
}

// The memory of one machine is bad at times, or what it sees of the store is stale: its agent and
// its ranks read wrongly what is whole. One at most, so that no two bear each other out.
void World::PlanMisreadings() {
  Dice dice(seed_ ^ kMisreadingsSalt);
  if (!dice.Chance(0.4)) return;
  const Machine& machine = *machines_[dice.Below(machines_.size())];
  invariants_.misreader = machine.kind().name;
  const absl::Duration every = dice.Between(absl::Seconds(40), absl::Minutes(4));
  misreadings_ = dice;
  faults_.push_back({every, [this, host = machine.host()] {
                       constexpr Storage::Misreading kKinds[] = {Storage::Misreading::kOtherBytes,
                                                                 Storage::Misreading::kNothing,
                                                                 Storage::Misreading::kError};
                       const uint64_t kind = misreadings_->Below(std::size(kKinds));
                       trace_.Note("storage: ", host, " reads wrongly: ", kind);
                       storage_.misreadings[host] = kKinds[kind];
                       agenda_.After(misreadings_->Between(absl::Seconds(10), absl::Minutes(3)),
                                     [this, host] { storage_.misreadings.erase(host); });
                     }});
}

void World::Rot() {
  if (storage_.folders().empty()) return;
  auto it = storage_.folders().begin();
  std::advance(it, dice_.Below(storage_.folders().size()));
  const std::string path = it->first;
  trace_.Note("storage: ", path, " rots");
  invariants_.OnRot(path);
  storage_.Corrupt(path);
}

void World::RunUntil(absl::Duration end) {
  while (!trace_.failed() && agenda_.RunNext(end)) {
  }
}

bool World::AllEnded() const {
  const auto& snapshot = controller_->published();
  return snapshot != nullptr && snapshot->active_jobs->empty() && people_->waiting() == 0;
}

void World::Heal() {
  trace_.Note("---- everything heals ----");
  healed_ = true;
  ranks_.healed = true;
  people_->Stop();
  network_.Heal();
  storage_.away = false;
  storage_.unmounted.clear();
  storage_.misreadings.clear();
  controller_->disk().full = false;
  // Times that people named come by the wall clock: it is set right again.
  agenda_.SetWallRight();
  controller_->disk().fail_syncs = controller_->disk().fail_writes = 0;
  controller_->LightFuse(-1, CrashKind::kKill);
  for (const auto& machine : machines_) machine->Heal();
  AddSpares();
}

RunResult World::Run() {
  Build();
  Plan();
  const absl::Duration began = agenda_.now();
  controller_->Start();
  for (const auto& machine : machines_) {
    agenda_.After(dice_.Between(absl::ZeroDuration(), absl::Seconds(20)),
                  [raw = machine.get()] { raw->StartAgent(); });
  }
  if (dice_.Chance(0.2)) Unmount();
  people_->Begin();
  for (const Fault& fault : faults_) Arm(fault);
  RunUntil(began + dice_.Between(absl::Minutes(8), absl::Minutes(30)));
  if (!trace_.failed()) {
    Heal();
    const absl::Duration healed = agenda_.now();
    while (!trace_.failed() && agenda_.now() < healed + kLiveness && !AllEnded()) {
      RunUntil(agenda_.now() + absl::Seconds(10));
      if (agenda_.now() < healed + kCalm || controller_->published() == nullptr) continue;
      invariants_.CheckLimits(*controller_->published());
    }
    // At last somebody switches them off.
    for (const auto& machine : machines_) {
      if (machine->has_undead()) machine->CrashMachine(absl::Seconds(1));
    }
    RunUntil(agenda_.now() + kTidying);
    if (people_->waiting() > 0) trace_.Fail("a request of people is never answered");
    if (controller_->published() == nullptr) {
      trace_.Fail("the controller never started");
    } else if (!trace_.failed()) {
      invariants_.OnQuiet(*controller_->published());
      CheckMetrics();
    }
  }
  RunResult result{.seed = seed_,
                   .hash = trace_.hash(),
                   .lines = trace_.lines(),
                   .jobs = model_.jobs(),
                   .preemptions = invariants_.preemptions().counts(),
                   .clones = clones_,
                   .names_moved = invariants_.names_moved(),
                   .undead = ranks_.undead_so_far,
                   .held_back = ranks_.held_back,
                   .children_left = ranks_.children_left,
                   .strays = invariants_.strays(),
                   .archived = controller_->archived(),
                   .records = metrics_ == nullptr ? 0 : metrics_->model.records(),
                   .records_lost = metrics_ == nullptr ? 0 : metrics_->model.lost(),
                   .simulated = agenda_.now() - began,
                   .failure = trace_.failure()};
  machines_.clear();
  agenda_.Clear();
  controller_.reset();
  return result;
}

}  // namespace muster::sim
