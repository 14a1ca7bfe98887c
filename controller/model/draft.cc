#include "controller/model/draft.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "common/base/check.h"
#include "controller/model/job_links.h"
#include "controller/model/kept_checkpoints.h"
#include "controller/model/ledger_rules.h"

namespace muster::controller {
namespace {

// Whether the retention policy has something to do for the job: to read, or to delete. What it only
// leaves for now, because another job or a starting gang needs it, goes later.
bool HasRetentionWork(const Snapshot& snapshot, const Job& job) {
  for (uint64_t id : job.checkpoints) {
    const Checkpoint* checkpoint = snapshot.FindCheckpoint(id);
    if (checkpoint->state == CheckpointState::kCommitted) return true;
    if (checkpoint->restorable() && checkpoint->doubt.has_value()) return true;
  }
  return !LetGo(snapshot, job).empty();
}

// Whether the job still counts on the checkpoints of another one that it was to begin from.
bool CountsOnOthers(const Snapshot& snapshot, const Job& job) {
  if (job.settings->resume_from.empty() || IsTerminal(job.state)) return false;
  return std::none_of(job.checkpoints.begin(), job.checkpoints.end(), [&snapshot](uint64_t id) {
    return snapshot.FindCheckpoint(id)->state == CheckpointState::kVerified;
  });
}

bool WaitsForOthers(const Job& job) {
  return !job.settings->scheduling.after.empty() && !IsTerminal(job.state);
}

bool NeedsRoot(const Snapshot& snapshot, const Job& job) {
  return !IsTerminal(job.state) || HasRetentionWork(snapshot, job);
}

// `roots` gives the table to change, when there is something to change.
template <typename Roots>
void CountRootUse(const JobNeeds& needs, int sign, Roots&& roots) {
  if (needs.root.empty()) return;
  std::map<std::string, RootInUse>& table = roots();
  std::map<std::string, uint32_t>& jobs = table[needs.root].jobs;
  for (const JobNeeds::Pool& pool : needs.pools) {
    uint32_t& count = jobs[pool.name];
    count += sign;
    if (count == 0) jobs.erase(pool.name);
  }
  if (jobs.empty()) table.erase(needs.root);
}

// Brings the sorted list up to date for the touched ids (id, is a member now; ascending). The list
// is copied once, and only when something changes.
void UpdateMembers(std::shared_ptr<const std::vector<uint64_t>>& list,
                   const std::vector<std::pair<uint64_t, bool>>& touched) {
  const bool changes =
      std::any_of(touched.begin(), touched.end(), [&list](const std::pair<uint64_t, bool>& entry) {
        return std::binary_search(list->begin(), list->end(), entry.first) != entry.second;
      });
  if (!changes) return;
  auto merged = std::make_shared<std::vector<uint64_t>>();
  merged->reserve(list->size() + touched.size());
  auto next = list->begin();
  for (const auto& [id, member] : touched) {
    const auto at = std::lower_bound(next, list->end(), id);
    merged->insert(merged->end(), next, at);
    next = at != list->end() && *at == id ? at + 1 : at;
    if (member) merged->push_back(id);
  }
  merged->insert(merged->end(), next, list->end());
  list = std::move(merged);
}

using UseTable = std::map<std::string, std::shared_ptr<const ProjectUse>>;

void Count(Use& total, const Use& part, int sign) {
  total.slots += sign * part.slots;
  total.queued += sign * part.queued;
}

// Adds the job's own use to its project's and owner's, or takes it away.
void Count(ProjectUse& project, const Job& job, int sign) {
  const Use part = UseOf(job);
  if (part == Use()) return;
  Count(project.all, part, sign);
  Use& user = project.users[job.owner];
  Count(user, part, sign);
  if (user == Use()) project.users.erase(job.owner);
}

// The mutable copy of a row, made and put into the table at the first call.
template <typename T>
T& Edit(CowTable<T>& table, std::map<uint64_t, std::shared_ptr<T>>& edited, uint64_t id) {
  std::shared_ptr<T>& row = edited[id];
  if (row == nullptr) {
    const T* current = table.Find(id);
    MUSTER_CHECK(current != nullptr, "an edit of a row that does not exist");
    row = std::make_shared<T>(*current);
    table.Put(id, row);
  }
  return *row;
}

template <typename T>
T& Add(CowTable<T>& table, std::map<uint64_t, std::shared_ptr<T>>& edited, T row) {
  row.id = table.last_id() + 1;
  auto shared = std::make_shared<T>(std::move(row));
  edited[shared->id] = shared;
  table.Put(shared->id, shared);
  return *shared;
}

}  // namespace

bool ChangeSet::empty() const {
  return new_jobs.empty() && jobs.empty() && attempts.empty() && workers.empty() &&
         workers_forgotten.empty() && checkpoints.empty() && projects.empty() && roots.empty() &&
         events.empty() && outbox_added.empty() && outbox_removed.empty() &&
         jobs_archived.empty() && jobs_restored.empty();
}

Draft::Draft(const Snapshot& base, absl::Duration now_at)
    : now_(WholeNanoseconds(base.ledger_origin + now_at)),
      next_(std::make_shared<Snapshot>(base)) {}

Draft::Draft(const Snapshot& base) : next_(std::make_shared<Snapshot>(base)) {}

Job& Draft::EditJob(uint64_t id) {
  durable_jobs_.insert(id);
  return MutableJob(id);
}

Job& Draft::MutableJob(uint64_t id) {
  if (jobs_.count(id) == 0) jobs_before_[id] = next_->jobs.Share(id);
  Job& job = Edit(next_->jobs, jobs_, id);
  // What was held so far was held in the state that may change now.
  CloseInterval(job, now_);
  return job;
}

Draft::Progress Draft::EditProgress(uint64_t job_id) {
  Job& job = MutableJob(job_id);
  return {.shown = job.progress, .ledger = job.ledger};
}

void Draft::SaveProgress(uint64_t job_id) {
  MutableJob(job_id);
  saved_progress_.insert(job_id);
}

void Draft::ShowMessage(uint64_t job_id, std::string message) {
  MutableJob(job_id).message = std::move(message);
}

Attempt& Draft::EditAttempt(uint64_t job_id) {
  durable_ranks_[job_id];  // the attempt's own row changes
  std::shared_ptr<Attempt>& attempt = attempts_[job_id];
  if (attempt == nullptr) {
    Job& job = EditJob(job_id);
    MUSTER_CHECK(job.current != nullptr, "an edit of a job's attempt before its first placement");
    attempt = std::make_shared<Attempt>(*job.current);
    job.current = attempt;
  }
  return *attempt;
}

Rank& Draft::EditRank(uint64_t job_id, uint32_t rank) {
  Attempt& attempt = EditAttempt(job_id);
  MUSTER_CHECK(rank < attempt.ranks.size(), "an edit of a rank that the attempt does not have");
  durable_ranks_[job_id].insert(rank);
  return attempt.ranks[rank];
}

Rank& Draft::EditPastRank(uint64_t job_id, uint32_t attempt, uint32_t rank) {
  Job& job = EditJob(job_id);
  MUSTER_CHECK(attempt >= 1 && attempt <= job.past.size(), "an edit of an unknown past attempt");
  std::shared_ptr<const Attempt>& past = job.past[attempt - 1];
  MUSTER_CHECK(rank < past->ranks.size(), "an edit of a rank that the attempt does not have");
  auto copy = std::make_shared<Attempt>(*past);
  past = copy;
  replaced_.push_back({copy, {rank}});
  return copy->ranks[rank];
}

Worker& Draft::EditWorker(uint64_t id) {
  durable_workers_.insert(id);
  return MutableWorker(id);
}

WorkerPulse& Draft::EditPulse(uint64_t worker_id) { return MutableWorker(worker_id).pulse; }

Worker& Draft::MutableWorker(uint64_t id) { return Edit(next_->workers, workers_, id); }

Checkpoint& Draft::EditCheckpoint(uint64_t id) {
  return Edit(next_->checkpoints, checkpoints_, id);
}

Project& Draft::EditProject(const std::string& name) {
  std::shared_ptr<Project>& row = projects_[name];
  if (row == nullptr) {
    const Project* current = next_->FindProject(name);
    row = current != nullptr ? std::make_shared<Project>(*current) : std::make_shared<Project>();
    row->name = name;
    auto copy = *next_->projects;
    copy[name] = row;
    next_->projects = std::make_shared<const decltype(copy)>(std::move(copy));
  }
  return *row;
}

void Draft::AddRoot(RootIdentity root) {
  next_->roots.Put(root.path, root);
  new_roots_.push_back(std::move(root));
}

std::map<std::string, RootInUse>& Draft::MutableRoots() {
  if (roots_in_use_ == nullptr) {
    roots_in_use_ = std::make_shared<std::map<std::string, RootInUse>>(*next_->roots_in_use);
    next_->roots_in_use = roots_in_use_;
  }
  return *roots_in_use_;
}

RootInUse& Draft::EditRootInUse(const std::string& path) {
  MUSTER_CHECK(next_->roots_in_use->count(path) != 0, "an edit of a root that nobody uses");
  return MutableRoots().at(path);
}

Job& Draft::AddJob(Job job) {
  Job& added = Add(next_->jobs, jobs_, std::move(job));
  jobs_before_[added.id] = nullptr;
  added.ledger.until = now_;
  new_jobs_.insert(added.id);
  const std::string& project = added.settings->project;
  if (next_->use->count(project) == 0 && next_->FindProject(project) == nullptr) {
    new_projects_.insert(project);
  }
  if (!added.idempotency_key.empty()) {
    new_keys_.emplace(KeyOf(added), &added);
  }
  return added;
}

const Job* Draft::FindNewJob(absl::string_view owner, absl::string_view idempotency_key) const {
  const auto it = new_keys_.find({owner, idempotency_key});
  return it == new_keys_.end() ? nullptr : it->second;
}

Worker& Draft::AddWorker(Worker worker) {
  Worker& added = Add(next_->workers, workers_, std::move(worker));
  durable_workers_.insert(added.id);
  MutableWorkerIds().emplace(added.name, added.id);
  return added;
}

std::map<std::string, uint64_t>& Draft::MutableWorkerIds() {
  if (worker_ids_ == nullptr) {
    worker_ids_ = std::make_shared<std::map<std::string, uint64_t>>(*next_->worker_ids);
    next_->worker_ids = worker_ids_;
  }
  return *worker_ids_;
}

void Draft::ForgetWorker(uint64_t id) {
  const Worker& worker = *next_->workers.Find(id);
  MUSTER_CHECK(worker.pulse.holders.empty(), "a worker that holds slots was forgotten");
  const std::string name = worker.name;
  for (uint64_t seq : next_->outbox.Of(name)) RemoveOutbox(seq);
  MutableWorkerIds().erase(name);
  next_->workers.Erase(id);
  workers_.erase(id);
  durable_workers_.erase(id);
  forgotten_workers_.push_back(id);
}

bool Draft::LeaveUnstored() {
  const bool may_be_lost = new_jobs_.empty() && durable_jobs_.empty() && durable_ranks_.empty() &&
                           replaced_.empty() && checkpoints_.empty() && projects_.empty() &&
                           events_.empty() && !outbox_changed_ && forgotten_workers_.empty() &&
                           archived_jobs_.empty() && restored_jobs_.empty();
  if (!may_be_lost) return false;
  saved_progress_.clear();
  left_unstored_ = true;
  return true;
}

Checkpoint& Draft::AddCheckpoint(Checkpoint checkpoint) {
  Checkpoint& added = Add(next_->checkpoints, checkpoints_, std::move(checkpoint));
  EditJob(added.job_id).checkpoints.push_back(added.id);
  return added;
}

void Draft::AddAttempt(uint64_t job_id, Attempt attempt) {
  Job& job = EditJob(job_id);
  if (const auto it = attempts_.find(job_id); it != attempts_.end()) {
    if (now_ != absl::InfinitePast()) EndHolds(*it->second, durable_ranks_[job_id]);
    replaced_.push_back({it->second, std::move(durable_ranks_[job_id])});
    durable_ranks_.erase(job_id);
  }
  if (job.current != nullptr) job.past.push_back(job.current);
  attempt.job_id = job_id;
  attempt.held_from = now_;
  for (Rank& rank : attempt.ranks) rank.held_from = now_;
  job.attempt = attempt.number;
  auto shared = std::make_shared<Attempt>(std::move(attempt));
  std::set<uint32_t>& ranks = durable_ranks_[job_id];
  for (const Rank& rank : shared->ranks) ranks.insert(rank.rank);
  attempts_[job_id] = shared;
  job.current = std::move(shared);
  job.progress.memory_bytes = 0;  // none of its ranks has reported yet
  BeginAttempt(job);
}

void Draft::AddEvent(JobEvent event) {
  event.sequence = ++next_->last_event;
  if (event.at == absl::InfinitePast()) event.at = now_;
  if (IsTerminal(event.from) && !IsTerminal(event.to)) ++requeued_jobs_;
  auto shared = std::make_shared<const JobEvent>(std::move(event));
  EditJob(shared->job_id).events.push_back(shared);
  next_->events.Put(shared->sequence, shared);
  events_.push_back(std::move(shared));
}

void Draft::AddOutbox(OutboxRow row) {
  row.seq = ++next_->last_outbox;
  outbox_added_.insert(row.seq);
  next_->outbox.Add(std::move(row));
  outbox_changed_ = true;
}

void Draft::RemoveOutbox(uint64_t seq) {
  if (!next_->outbox.Remove(seq)) return;
  outbox_changed_ = true;
  if (outbox_added_.erase(seq) == 0) outbox_removed_.push_back(seq);
}

void Draft::EndHolds(Attempt& attempt, std::set<uint32_t>& changed) {
  if (!attempt.live() && attempt.held_until == absl::InfiniteFuture()) attempt.held_until = now_;
  for (Rank& rank : attempt.ranks) {
    const bool gone = IsGivenUp(rank.state) || !rank.holds_slots;
    if (!gone || rank.held_until != absl::InfiniteFuture()) continue;
    EndHold(rank, now_);
    changed.insert(rank.rank);
  }
}

void Draft::SettleLedgers() {
  if (now_ == absl::InfinitePast()) return;
  for (auto& [job_id, attempt] : attempts_) EndHolds(*attempt, durable_ranks_[job_id]);
  std::set<uint64_t> stored = saved_progress_;
  stored.insert(durable_jobs_.begin(), durable_jobs_.end());
  stored.insert(new_jobs_.begin(), new_jobs_.end());
  for (uint64_t id : stored) {
    Job& job = *jobs_.at(id);
    if (!job.has_live_attempt()) job.ledger.unconfirmed = absl::ZeroDuration();
    job.ledger.settled = ConfirmedTimes(job.ledger);
    job.ledger.settled_queued = job.ledger.queued;
    job.saved_at = now_;
    job.saved_phase = job.ledger.phase;
    job.saved_step = job.ledger.step;
  }
}

ChangeSet Draft::Changes() {
  SettleLedgers();
  ChangeSet changes;
  changes.last_outbox = next_->last_outbox;
  for (uint64_t id : new_jobs_) changes.new_jobs.push_back(next_->jobs.Share(id));
  for (uint64_t id : durable_jobs_) {
    if (new_jobs_.count(id) == 0) changes.jobs.push_back(next_->jobs.Share(id));
  }
  for (uint64_t id : saved_progress_) {
    const bool stands_already = new_jobs_.count(id) != 0 || durable_jobs_.count(id) != 0;
    if (!stands_already) changes.jobs.push_back(next_->jobs.Share(id));
  }
  changes.attempts = replaced_;
  for (const auto& [job_id, ranks] : durable_ranks_) {
    changes.attempts.push_back({attempts_.at(job_id), ranks});
  }
  std::set<uint64_t> workers = durable_workers_;
  if (next_->unstored_workers != nullptr) {
    workers.insert(next_->unstored_workers->begin(), next_->unstored_workers->end());
  }
  for (uint64_t id : workers) {
    if (next_->workers.Find(id) != nullptr) changes.workers.push_back(next_->workers.Share(id));
  }
  changes.workers_forgotten = forgotten_workers_;
  for (const auto& [id, row] : checkpoints_) changes.checkpoints.push_back(row);
  for (const auto& [name, row] : projects_) changes.projects.push_back(row);
  changes.roots = new_roots_;
  changes.events = events_;
  for (uint64_t seq : outbox_added_) changes.outbox_added.push_back(*next_->outbox.Find(seq));
  changes.outbox_removed = outbox_removed_;
  AddArchived(changes);
  return changes;
}

// Before the lists of active and retention jobs are brought up to date: they tell who counted so
// far.
void Draft::UpdateRoots(const std::set<uint64_t>& touched) {
  const auto is_in = [](const std::vector<uint64_t>& list, uint64_t id) {
    return std::binary_search(list.begin(), list.end(), id);
  };
  for (uint64_t id : touched) {
    const Job& job = *next_->jobs.Find(id);
    const auto before = jobs_before_.find(id);
    const bool counted = is_in(*next_->active_jobs, id) || is_in(*next_->retention_jobs, id);
    const bool counts = NeedsRoot(*next_, job);
    const JobSettings& was = before == jobs_before_.end() || before->second == nullptr
                                 ? *job.settings
                                 : *before->second->settings;
    const bool same =
        was.needs.pools == job.settings->needs.pools && was.needs.root == job.settings->needs.root;
    if (counted == counts && (same || !counted)) continue;
    if (counted)
      CountRootUse(
          was.needs, -1, [this]() -> auto& { return MutableRoots(); });
    if (counts) {
      CountRootUse(
          job.settings->needs, +1, [this]() -> auto& { return MutableRoots(); });
    }
  }
}

void Draft::UpdateJobLists(const std::set<uint64_t>& touched) {
  std::vector<std::pair<uint64_t, bool>> active;
  std::vector<std::pair<uint64_t, bool>> retention;
  std::vector<std::pair<uint64_t, bool>> resuming;
  std::vector<std::pair<uint64_t, bool>> dependent;
  for (uint64_t id : touched) {
    const Job& job = *next_->jobs.Find(id);
    active.emplace_back(id, !IsTerminal(job.state));
    retention.emplace_back(id, HasRetentionWork(*next_, job));
    resuming.emplace_back(id, CountsOnOthers(*next_, job));
    dependent.emplace_back(id, WaitsForOthers(job));
  }
  UpdateMembers(next_->active_jobs, active);
  UpdateMembers(next_->retention_jobs, retention);
  UpdateMembers(next_->resuming_jobs, resuming);
  UpdateMembers(next_->dependent_jobs, dependent);
}

void Draft::UpdateResumable() {
  std::set<uint64_t> resumable_jobs;
  for (const auto& [id, row] : checkpoints_) {
    if (row->restorable()) resumable_jobs.insert(row->job_id);
  }
  for (uint64_t id : resumable_jobs) AddResumable(*next_, *next_->jobs.Find(id));
}

std::vector<uint64_t> Draft::ResumableJobs(const std::string& key) const {
  const std::shared_ptr<const std::vector<uint64_t>>* known = next_->resumable_jobs.Find(key);
  auto resumable_jobs = known == nullptr ? std::vector<uint64_t>() : **known;
  for (const auto& [id, row] : checkpoints_) {
    const Job& job = *next_->jobs.Find(row->job_id);
    if (row->restorable() && RunTimeKey(*job.settings) == key) resumable_jobs.push_back(job.id);
  }
  std::sort(resumable_jobs.begin(), resumable_jobs.end(), std::greater<>());
  resumable_jobs.erase(std::unique(resumable_jobs.begin(), resumable_jobs.end()),
                       resumable_jobs.end());
  return resumable_jobs;
}

const Job* Draft::FindJobByName(absl::string_view name) const {
  const Job* newest = next_->FindJobByName(name);
  for (uint64_t id : new_jobs_) {
    const Job* job = next_->jobs.Find(id);
    if (job->settings->name == name) newest = job;
  }
  return newest;
}

ProjectUse Draft::UseOf(const std::string& project) const {
  ProjectUse use = next_->UseOf(project);
  for (const auto& [id, before] : jobs_before_) {
    if (before != nullptr && before->settings->project == project) Count(use, *before, -1);
    const Job& after = *next_->jobs.Find(id);
    if (after.settings->project == project) Count(use, after, +1);
  }
  return use;
}

void Draft::UpdateUse() {
  std::map<std::string, ProjectUse> changed;
  const auto edit = [&](const std::string& project) -> ProjectUse& {
    return changed.try_emplace(project, next_->UseOf(project)).first->second;
  };
  for (const auto& [id, before] : jobs_before_) {
    const Job& after = *next_->jobs.Find(id);
    const bool same = before != nullptr && controller::UseOf(*before) == controller::UseOf(after) &&
                      before->settings->project == after.settings->project;
    if (same) continue;
    if (before != nullptr) Count(edit(before->settings->project), *before, -1);
    Count(edit(after.settings->project), after, +1);
  }
  if (changed.empty()) return;
  auto use = std::make_shared<UseTable>(*next_->use);
  for (auto& [project, row] : changed) {
    if (row == ProjectUse()) {
      use->erase(project);
    } else {
      (*use)[project] = std::make_shared<const ProjectUse>(std::move(row));
    }
  }
  next_->use = std::move(use);
}

void Draft::UpdateNamesAndRunTimes() {
  ArrayTallies arrays(*next_);
  std::map<absl::string_view, NamedJobs> fresh;  // one name is often submitted again and again
  for (const auto& [id, before] : jobs_before_) {
    const Job& job = *next_->jobs.Find(id);
    arrays.Count(before.get(), job);
    if (before == nullptr) {
      NamedJobs& named = fresh[job.settings->name];
      named.newest = id;
      ++named.count;
      CountSources(*next_, job, +1);
    }
    const bool had = before != nullptr && before->state == JobState::kSucceeded;
    if (!had && job.state == JobState::kSucceeded) LearnRunTime(*next_, job);
  }
  for (auto& [name, named] : fresh) {
    if (const NamedJobs* known = next_->by_name.Find(name)) named.count += known->count;
    next_->by_name.Put(name, named);
  }
}

void Draft::RebuildJobLists() {
  std::vector<const Job*> succeeded;
  next_->by_name = {};
  next_->begun_from = {};
  next_->run_times = {};
  next_->arrays = {};
  ArrayTallies arrays(*next_);
  next_->jobs.ForEach([&](const Job& job) {
    arrays.Count(nullptr, job);
    CountName(*next_, job);
    CountSources(*next_, job, +1);
    if (job.state == JobState::kSucceeded) succeeded.push_back(&job);
  });
  std::stable_sort(succeeded.begin(), succeeded.end(),
                   [](const Job* a, const Job* b) { return a->finished < b->finished; });
  for (const Job* job : succeeded) LearnRunTime(*next_, *job);
  std::map<std::string, ProjectUse> projects;
  next_->jobs.ForEach([&](const Job& job) {
    if (!IsTerminal(job.state)) Count(projects[job.settings->project], job, +1);
  });
  auto use = std::make_shared<UseTable>();
  for (auto& [project, row] : projects) {
    if (row == ProjectUse()) continue;
    use->emplace(project, std::make_shared<const ProjectUse>(std::move(row)));
  }
  next_->use = std::move(use);
  jobs_before_.clear();  // they are counted
  auto active = std::make_shared<std::vector<uint64_t>>();
  auto retention = std::make_shared<std::vector<uint64_t>>();
  auto resuming = std::make_shared<std::vector<uint64_t>>();
  auto dependent = std::make_shared<std::vector<uint64_t>>();
  std::map<std::string, std::vector<uint64_t>> resumable_jobs;
  next_->jobs.ForEach([&](const Job& job) {
    if (!IsTerminal(job.state)) active->push_back(job.id);
    if (HasRetentionWork(*next_, job)) retention->push_back(job.id);
    if (CountsOnOthers(*next_, job)) resuming->push_back(job.id);
    if (WaitsForOthers(job)) dependent->push_back(job.id);
    const bool saved =
        std::any_of(job.checkpoints.begin(), job.checkpoints.end(),
                    [this](uint64_t id) { return next_->FindCheckpoint(id)->restorable(); });
    if (saved) resumable_jobs[RunTimeKey(*job.settings)].push_back(job.id);
  });
  next_->resumable_jobs = {};
  for (auto& [key, jobs] : resumable_jobs) {
    next_->resumable_jobs.Put(key, std::make_shared<const std::vector<uint64_t>>(std::move(jobs)));
  }
  auto roots = std::make_shared<std::map<std::string, RootInUse>>();
  next_->jobs.ForEach([&](const Job& job) {
    if (!NeedsRoot(*next_, job)) return;
    CountRootUse(
        job.settings->needs, +1, [&roots]() -> auto& { return *roots; });
  });
  next_->roots_in_use = std::move(roots);
  next_->active_jobs = std::move(active);
  next_->retention_jobs = std::move(retention);
  next_->resuming_jobs = std::move(resuming);
  next_->dependent_jobs = std::move(dependent);
}

std::shared_ptr<const Snapshot> Draft::Finish() {
  std::set<uint64_t> touched = durable_jobs_;
  touched.insert(new_jobs_.begin(), new_jobs_.end());
  for (const auto& [id, checkpoint] : checkpoints_) touched.insert(checkpoint->job_id);
  for (const ArchivedJob& restored : restored_jobs_) touched.insert(restored.job->id);
  UpdateRoots(touched);
  UpdateJobLists(touched);
  UpdateResumable();
  UpdateUse();
  UpdateNamesAndRunTimes();
  std::set<uint64_t> unstored;
  if (left_unstored_) {
    if (next_->unstored_workers != nullptr) unstored = *next_->unstored_workers;
    unstored.insert(durable_workers_.begin(), durable_workers_.end());
  }
  next_->unstored_workers =
      unstored.empty() ? nullptr : std::make_shared<const std::set<uint64_t>>(std::move(unstored));
  ++next_->version;
  const bool wakes_nobody = !wakes_loops_ && durable_jobs_.empty() && new_jobs_.empty() &&
                            durable_workers_.empty() && forgotten_workers_.empty() &&
                            archived_jobs_.empty() && restored_jobs_.empty() &&
                            checkpoints_.empty() && projects_.empty() && !outbox_changed_ &&
                            roots_in_use_ == nullptr && new_roots_.empty();
  if (!wakes_nobody) ++next_->durable_version;
  return std::move(next_);
}

}  // namespace muster::controller
