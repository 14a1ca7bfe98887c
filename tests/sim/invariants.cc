#include "tests/sim/invariants.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "tests/support/model_invariants.h"

namespace muster::sim {
namespace {

using S = mc::JobState;

std::string NameOf(const LiveProcess& live) {
  return absl::StrCat("job ", live.key.job_id, " attempt ", live.key.attempt, " rank ",
                      live.key.rank, " on ", live.host, " slot ", live.slot);
}

// Where a job may go from a state, by what the states mean; told apart from the controller's table.
bool IsLegalMove(S from, S to) {
  if (from == to) return true;  // a note
  switch (from) {
    case S::kPending:
      return to == S::kStarting || to == S::kCancelled || to == S::kFailed || to == S::kSuspended;
    case S::kStarting:
      return to == S::kRunning || to == S::kRecovering || to == S::kStopping || to == S::kSucceeded;
    case S::kRunning:
      return to == S::kRecovering || to == S::kStopping || to == S::kSucceeded;
    case S::kRecovering:
      return to == S::kPending || to == S::kFailed || to == S::kStopping || to == S::kSucceeded ||
             to == S::kSuspended;
    case S::kStopping:
      return to == S::kCancelled;
    case S::kSuspended:
      return to == S::kPending || to == S::kCancelled || to == S::kFailed;
    case S::kSucceeded:
    case S::kFailed:
    case S::kCancelled:
      return to == S::kPending;  // queued again by a person
  }
  return false;
}

// What the worker said of the root, told apart from the controller's own reading of it.
bool IsSeen(const mc::Snapshot& snapshot, const std::string& name, const std::string& root) {
  const mc::Worker* worker = snapshot.FindWorker(name);
  if (worker == nullptr || worker->pulse.roots == nullptr) return false;
  const auto view = worker->pulse.roots->find(root);
  return view != worker->pulse.roots->end() && !view->second.identity.empty();
}

// Whether its agent will refuse the rank for the sake of what lives there. Once it has said so, in
// its hello or by a notice, nothing is placed on it.
bool WillRefuse(const mc::Snapshot& before, const mc::Rank& rank, const LiveProcess& live) {
  const mc::Worker* worker = before.FindWorker(rank.worker);
  const bool gave_notice =
      worker != nullptr && worker->incarnation == rank.incarnation && worker->draining;
  return live.set_aside_by.count(rank.incarnation) != 0 && !gave_notice;
}

bool IsHeldBy(const mc::Worker& worker, uint32_t slot, const worker::RankKey& key) {
  const auto holder = worker.pulse.holders.find(slot);
  return holder != worker.pulse.holders.end() && holder->second.job_id == key.job_id &&
         holder->second.attempt == key.attempt && holder->second.rank == key.rank;
}

}  // namespace

// ---- the controller ----

void Invariants::OnStart(const mc::Snapshot& snapshot, const mc::Snapshot* before, bool exact) {
  if (snapshot.term <= model_.term()) {
    trace_.Fail("the controller starts with term ", snapshot.term, ", but ", model_.term(),
                " was seen");
  }
  if (exact && before != nullptr) CheckRestart(snapshot, *before);
  if (before != nullptr) {
    NoteUnstoredHolders(snapshot, *before);
    FreeForgottenNames(snapshot, *before);
  }
  stored_.clear();
  OnPublished(snapshot, nullptr);
}

void Invariants::CheckRestart(const mc::Snapshot& snapshot, const mc::Snapshot& before) {
  std::map<std::string, std::string> expected = DurableRows(before);
  for (const auto& [id, row] : stored_) {
    const std::string name = absl::StrCat("worker ", id);
    if (row.empty()) {
      expected.erase(name);
    } else {
      expected[name] = row;
    }
  }
  const std::map<std::string, std::string> rows = DurableRows(snapshot);
  for (const auto& [name, row] : expected) {
    const auto it = rows.find(name);
    if (it == rows.end()) return trace_.Fail("gone after a restart: ", name, ": ", row);
    if (it->second != row) {
      return trace_.Fail("changed by a restart: ", name, ": was ", row, ", is ", it->second);
    }
  }
  for (const auto& [name, row] : rows) {
    if (expected.count(name) == 0) return trace_.Fail("new after a restart: ", name, ": ", row);
  }
}

void Invariants::KeepStored(const mc::Snapshot& snapshot, const mc::Snapshot& before) {
  const std::set<uint64_t> none;
  const std::set<uint64_t>& unstored =
      snapshot.unstored_workers == nullptr ? none : *snapshot.unstored_workers;
  std::erase_if(stored_, [&](const auto& row) { return unstored.count(row.first) == 0; });
  for (const uint64_t id : unstored) {
    const mc::Worker* worker = before.workers.Find(id);
    stored_.emplace(id, worker == nullptr ? "" : DurableRow(*worker));
  }
}

void Invariants::OnPublished(const mc::Snapshot& snapshot, const mc::Snapshot* before) {
  if (trace_.failed()) return;
  static const mc::Snapshot nothing;
  const mc::Snapshot& last = before == nullptr ? nothing : *before;
  CheckHistory(snapshot, last);
  FreeForgottenNames(snapshot, last);
  snapshot.jobs.ForEachChange(last.jobs, [&](uint64_t, const mc::Job*, const mc::Job* job) {
    if (job == nullptr) return;
    CheckJob(*job);
    CheckLedger(*job);
  });
  CheckSlots(snapshot);
  CheckPlacements(snapshot, before);
  CheckVerdicts(snapshot, last);
  CheckCheckpoints(snapshot);
  preemptions_.OnPublished(snapshot, before);
  run_times_.OnPublished(snapshot, before, since_boot());
  if (before != nullptr) model_.CheckQueued(snapshot, *before);
  model_.Check(snapshot);
  KeepStored(snapshot, last);
}

// Who came to a full disk held the name in memory only: the next controller knows the holder that
// is stored, if any, and has fenced neither.
void Invariants::NoteUnstoredHolders(const mc::Snapshot& snapshot, const mc::Snapshot& before) {
  for (const auto& [id, row] : stored_) {
    const mc::Worker* shown = before.workers.Find(id);
    if (shown == nullptr) continue;
    const mc::Worker* worker = snapshot.FindWorker(shown->name);
    if (worker != nullptr) fenced_.erase({worker->name, worker->incarnation});
    if (worker == nullptr || worker->incarnation != shown->incarnation) {
      unfenced_.insert(shown->incarnation);
    }
  }
}

// The name of a worker that was forgotten is anybody's: also that of an agent that it was once
// taken from, and that has asked for it since.
void Invariants::FreeForgottenNames(const mc::Snapshot& snapshot, const mc::Snapshot& before) {
  snapshot.workers.ForEachChange(
      before.workers, [this](uint64_t, const mc::Worker* old, const mc::Worker* worker) {
        if (worker != nullptr) return;
        std::erase_if(fenced_, [old](const auto& fenced) { return fenced.first == old->name; });
        unfenced_.insert(old->incarnation);  // whoever has the name next takes it from nobody
      });
}

void Invariants::OnHello(const mc::WorkerHello& hello, const mc::EventResult& result) {
  const auto known = holder_of_name_.find(hello.worker);
  const bool comes_back = known != holder_of_name_.end() && known->second == hello.incarnation;
  if (comes_back && absl::IsResourceExhausted(result.status)) {
    trace_.Fail(hello.worker, " could not come back for want of room");
  }
  if (!result.status.ok()) return;
  if (fenced_.count({hello.worker, hello.incarnation}) != 0) {
    trace_.Fail("a fenced agent took the name ", hello.worker, " back");
  }
  std::string& holder = holder_of_name_[hello.worker];
  if (!holder.empty() && holder != hello.incarnation) {
    if (holds_lease(holder)) {
      trace_.Fail("the name ", hello.worker, " was taken from ", host_of_[holder],
                  ", whose lease holds, and given to ", host_of_[hello.incarnation]);
    }
    names_moved_ += host_of_[holder] != host_of_[hello.incarnation];
    if (unfenced_.count(holder) == 0) fenced_.insert({hello.worker, holder});
  }
  unfenced_.erase(hello.incarnation);
  holder = hello.incarnation;
}

void Invariants::OnReport(const Report& report, const mc::EventResult& result,
                          const mc::Snapshot* before) {
  if (!result.status.ok() || before == nullptr) return;
  if (fenced_.count({report.worker, report.incarnation}) != 0) {
    return trace_.Fail("a report of a fenced agent of ", report.worker, " was accepted");
  }
  const mc::Worker* worker = before->FindWorker(report.worker);
  const bool repeat = worker != nullptr && worker->incarnation == report.incarnation &&
                      worker->event_seq_known && report.event_seq <= worker->event_seq;
  if (repeat || report.fence.job_id == 0) return;
  const mc::Job* job = before->FindJob(report.fence.job_id);
  if (job == nullptr || job->current == nullptr) return;  // it is younger than that version
  const bool stale = report.fence.attempt < job->current->number ||
                     (report.fence.attempt == job->current->number && !job->current->live());
  if (stale) {
    trace_.Fail("a report of job ", job->id, " attempt ", report.fence.attempt,
                " was accepted; its live attempt is ", job->current->number);
  }
}

void Invariants::CheckHistory(const mc::Snapshot& snapshot, const mc::Snapshot& before) {
  std::set<uint64_t> fresh;  // sequences of events that `before` has not
  snapshot.jobs.ForEachChange(
      before.jobs, [&](uint64_t id, const mc::Job* old, const mc::Job* job) {
        if (job == nullptr) return trace_.Fail("job ", id, " is gone");
        CheckEvents(*job, old);
        for (size_t i = old == nullptr ? 0 : old->events.size(); i < job->events.size(); ++i) {
          fresh.insert(job->events[i]->sequence);
          if (old == nullptr) continue;
          trace_.Note("job ", id, ": ", mc::JobStateName(job->events[i]->to), " (",
                      job->events[i]->message, ")");
        }
      });
  const bool whole = fresh.size() == snapshot.last_event - before.last_event &&
                     (fresh.empty() || (*fresh.begin() == before.last_event + 1 &&
                                        *fresh.rbegin() == snapshot.last_event));
  if (!whole) {
    trace_.Fail("the events have a gap: ", fresh.size(), " after ", before.last_event,
                ", the last is ", snapshot.last_event);
  }
}

void Invariants::CheckEvents(const mc::Job& job, const mc::Job* before) {
  if (job.events.empty()) return trace_.Fail("job ", job.id, " has no events");
  S state = job.events.front()->from;
  for (const auto& event : job.events) {
    if (event->from != state) {
      return trace_.Fail("job ", job.id, ": event ", event->sequence, " starts from ",
                         mc::JobStateName(event->from), ", but it was ", mc::JobStateName(state));
    }
    const bool first = event == job.events.front();
    if (!first && !IsLegalMove(event->from, event->to)) {
      return trace_.Fail("job ", job.id, " went from ", mc::JobStateName(event->from), " to ",
                         mc::JobStateName(event->to));
    }
    state = event->to;
  }
  if (state != job.state) {
    trace_.Fail("job ", job.id, " is ", mc::JobStateName(job.state), ", its events say ",
                mc::JobStateName(state));
  }
  for (size_t i = 0; before != nullptr && i < before->events.size(); ++i) {
    const bool same = i < job.events.size() &&
                      job.events[i]->sequence == before->events[i]->sequence &&
                      job.events[i]->to == before->events[i]->to;
    if (!same) return trace_.Fail("job ", job.id, ": its history changed");
  }
}

void Invariants::CheckJob(const mc::Job& job) {
  const bool wants_attempt = job.state == S::kStarting || job.state == S::kRunning ||
                             job.state == S::kRecovering || job.state == S::kStopping;
  if (wants_attempt != job.has_live_attempt()) {
    trace_.Fail("job ", job.id, " is ", mc::JobStateName(job.state),
                wants_attempt ? " without a live attempt" : " with a live attempt");
  }
  if (job.state == S::kFailed && job.failure_class == mc::FailureClass::kStorageUnavailable) {
    trace_.Fail("job ", job.id, " failed for a checkpoint root that was away: ", job.message);
  }
  if (job.attempt != job.past.size() + (job.current == nullptr ? 0 : 1)) {
    trace_.Fail("job ", job.id, ": attempt ", job.attempt, " after ", job.past.size(), " others");
  }
  for (const auto& past : job.past) {
    if (past->live()) trace_.Fail("job ", job.id, ": attempt ", past->number, " lives on");
  }
}

void Invariants::CheckSlots(const mc::Snapshot& snapshot) {
  using Taker = std::pair<const mc::Attempt*, const mc::Rank*>;
  const auto name_of = [](const Taker& taker) {
    return absl::StrCat("job ", taker.first->job_id, ".", taker.first->number, " rank ",
                        taker.second->rank);
  };
  std::map<std::pair<const mc::Worker*, uint32_t>, Taker> held;
  const auto take = [&](const mc::Attempt& attempt) {
    for (const mc::Rank& rank : attempt.ranks) {
      const Taker taker = {&attempt, &rank};
      // Of one that was given up the slots are free once it is dead after all: CheckProcess looks.
      if (attempt.live() && !mc::HasEnded(rank.state) && !rank.holds_slots) {
        trace_.Fail(name_of(taker), " is not confirmed dead but holds no slot");
      }
      if (!rank.holds_slots) continue;
      const mc::Worker* worker = snapshot.FindWorker(rank.worker);
      for (const uint32_t slot : rank.slots) {
        const auto [it, is_new] = held.emplace(std::make_pair(worker, slot), taker);
        if (!is_new) {
          trace_.Fail(name_of(taker), " and ", name_of(it->second), " hold the same slot");
        }
        if (!IsHeldBy(*worker, slot, {attempt.job_id, attempt.number, 1, rank.rank})) {
          trace_.Fail(name_of(taker), " holds a slot that its worker gave to another");
        }
      }
    }
  };
  snapshot.jobs.ForEach([&](const mc::Job& job) {
    if (job.current != nullptr) take(*job.current);
    for (const auto& past : job.past) take(*past);
  });
  size_t holders = 0;
  snapshot.workers.ForEach(
      [&](const mc::Worker& worker) { holders += worker.pulse.holders.size(); });
  if (holders != held.size()) {
    trace_.Fail(holders, " slots are held, ", held.size(), " ranks hold one");
  }
  for (const LiveProcess& live : live_processes()) CheckProcess(snapshot, live);
}

void Invariants::CheckProcess(const mc::Snapshot& snapshot, const LiveProcess& live) {
  const mc::Worker* worker = snapshot.FindWorker(live.worker);
  // Of a worker that is forgotten, who held its name last.
  const std::string holder = worker == nullptr ? holder_of_name_[live.worker] : worker->incarnation;
  // Who holds the name came up beside it: whose slot it is says nothing, as nothing starts there.
  const bool set_aside =
      worker == nullptr ? !live.set_aside_by.empty() : live.set_aside_by.count(holder) != 0;
  const bool here = host_of_[holder] == live.host;
  if (here && !set_aside) {
    const bool its_own = worker != nullptr && IsHeldBy(*worker, live.slot, live.key);
    if (!its_own) trace_.Fail(NameOf(live), " is alive, but its slot is not its own any more");
    return;
  }
  // Its host's name went to another one, whose slots are others, or to that agent: its gang must be
  // over.
  const mc::Job* job = snapshot.FindJob(live.key.job_id);
  const bool current = job != nullptr && job->has_live_attempt() &&
                       job->current->number == live.key.attempt &&
                       live.key.rank < job->current->ranks.size();
  if (current && !mc::HasEnded(job->current->ranks[live.key.rank].state)) {
    trace_.Fail(NameOf(live), " counts as running, but ", live.worker, " is ",
                set_aside ? "held back beside it" : host_of_[holder], " now");
  }
}

void Invariants::CheckPlacements(const mc::Snapshot& snapshot, const mc::Snapshot* before) {
  if (before == nullptr) return;
  std::map<std::pair<std::string, uint32_t>, LiveProcess> alive;
  bool looked = false;
  const auto check = [&](uint64_t, const mc::Job* old, const mc::Job* row) {
    if (row == nullptr || row->current == nullptr) return;
    const mc::Job& job = *row;
    if (old != nullptr && old->attempt == job.attempt) return;
    if (!std::exchange(looked, true)) {
      for (const LiveProcess& live : live_processes()) alive[{live.host, live.slot}] = live;
    }
    model_.CheckPlacement(snapshot, *before, job, now());
    if (job.current->ranks.size() < job.settings->needs.min_ranks ||
        job.current->ranks.size() > job.settings->needs.max_ranks) {
      trace_.Fail("job ", job.id, ": placed with ", job.current->ranks.size(), " ranks");
    }
    for (const mc::Rank& rank : job.current->ranks) {
      const std::string& root = job.settings->needs.root;
      if (!IsSeen(snapshot, rank.worker, root) && !IsSeen(*before, rank.worker, root)) {
        trace_.Fail("job ", job.id, ": placed on ", rank.worker,
                    ", which did not say that it sees ", root);
      }
      const auto looks = storage_.data_looks.find(rank.incarnation);
      const std::string& data = job.settings->needs.data;
      if (looks != storage_.data_looks.end() && !data.empty()) {
        const auto said = looks->second.find(data);
        if (said == looks->second.end() || !said->second) {
          trace_.Fail("job ", job.id, ": placed on ", rank.worker,
                      ", which did not say that it can use ", data);
        }
      }
      for (const uint32_t slot : rank.slots) {
        const auto it = alive.find({host_of_[rank.incarnation], slot});
        const bool taken = it != alive.end() && (it->second.key.job_id != job.id ||
                                                 it->second.key.attempt != job.attempt);
        if (taken && !WillRefuse(*before, rank, it->second)) {
          trace_.Fail("job ", job.id, " was placed on a device in use: ", NameOf(it->second));
        }
      }
    }
  };
  snapshot.jobs.ForEachChange(before->jobs, check);
}

// Workers that the misreader's word would be held against: ready ones that said that they see the
// root, and silent ones that are not lost, which are waited for.
std::set<std::string> Invariants::OtherReaders(const mc::Snapshot& snapshot) const {
  std::set<std::string> names;
  snapshot.workers.ForEach([&](const mc::Worker& worker) {
    if (worker.name == misreader || worker.draining || worker.presence() == mc::Presence::kLost) {
      return;
    }
    const bool has_said =
        worker.pulse.roots != nullptr && worker.pulse.roots->count(Storage::kRoot) != 0;
    const bool ready = worker.pulse.connected && worker.presence() == mc::Presence::kReady;
    const bool reads = ready && IsSeen(snapshot, worker.name, Storage::kRoot);
    const bool awaited = !worker.identity.empty() && (!ready || !has_said);
    if (reads || awaited) names.insert(worker.name);
  });
  return names;
}

// One worker's word condemns nothing while another one can read; that nothing is there, it must
// say twice even where it is alone.
void Invariants::CheckVerdicts(const mc::Snapshot& snapshot, const mc::Snapshot& before) {
  const std::set<std::string> before_it = std::exchange(
      other_readers_, misreader.empty() ? std::set<std::string>() : OtherReaders(snapshot));
  snapshot.checkpoints.ForEachChange(
      before.checkpoints, [&](uint64_t id, const mc::Checkpoint*, const mc::Checkpoint* row) {
        const bool called_bad = row != nullptr && (row->state == mc::CheckpointState::kCorrupt ||
                                                   row->state == mc::CheckpointState::kDeleted);
        const Storage::Folder* folder = called_bad ? storage_.Find(row->path) : nullptr;
        if (folder == nullptr || !folder->whole || folder->given_up) return;
        std::string why = misreader.empty() ? "nobody misread it" : "";
        for (const std::string& name : before_it) {
          if (other_readers_.count(name) != 0) why = absl::StrCat(name, " could read it, too");
        }
        const bool missing = row->state == mc::CheckpointState::kDeleted;
        if (missing && folder->called_missing < 2) why = "that was not said twice";
        if (!why.empty()) {
          return trace_.Fail("checkpoint ", id, " of job ", row->job_id, " is whole but called ",
                             mc::CheckpointStateName(row->state), ": ", why);
        }
        trace_.Note("checkpoint ", id, " is given up on the word of ", misreader, " alone");
        storage_.GiveUp(row->path);
        rotten_.insert(row->job_id);
      });
}

void Invariants::CheckCheckpoints(const mc::Snapshot& snapshot) {
  std::set<uint64_t> going;  // an agent was told to delete it, and may have
  snapshot.outbox.ForEach([&going](const mc::OutboxRow& row) {
    if (row.kind == mc::AssignmentKind::kDelete) going.insert(row.checkpoint_id);
  });
  std::map<uint64_t, int64_t> newest;
  snapshot.checkpoints.ForEach([&](const mc::Checkpoint& row) {
    if (strays_.count(row.path) != 0) {
      trace_.Fail("checkpoint ", row.id, " of job ", row.job_id, " is ", row.path,
                  ", which was published when its attempt was over");
    }
    if (!row.restorable()) return;
    const Storage::Folder* folder = storage_.Find(row.path);
    const bool deleted =
        folder == nullptr && (going.count(row.id) != 0 || deleted_.count(row.path) != 0);
    if (folder == nullptr && !deleted) {
      trace_.Fail("checkpoint ", row.id, " is ", mc::CheckpointStateName(row.state),
                  ", but nothing is at ", row.path);
    }
    if (folder != nullptr && folder->manifest_sha256 != row.manifest_sha256) {
      trace_.Fail("checkpoint ", row.id, ": another folder is at ", row.path);
    }
    if (folder != nullptr && folder->whole) {
      newest[row.job_id] = std::max(newest[row.job_id], row.step);
    }
  });
  for (auto& [job_id, step] : committed_step_) {
    if (newest[job_id] < step && !rotten_.count(job_id)) {
      trace_.Fail("job ", job_id, ": its committed step fell from ", step, " to ", newest[job_id]);
    }
  }
  for (const auto& [job_id, step] : newest) committed_step_[job_id] = step;
}

void Invariants::CheckLedger(const mc::Job& job) {
  for (const std::string& fault : testing::LedgerFaults(job)) trace_.Fail(fault);
  mc::LabelledTime& settled = settled_[job.id];
  for (int i = 0; i < mc::kTimeLabelCount; ++i) {
    if (job.ledger.settled.of[i] >= settled.of[i]) continue;
    trace_.Fail("job ", job.id, ": settled ", mc::TimeLabelName(static_cast<mc::TimeLabel>(i)),
                " fell from ", absl::FormatDuration(settled.of[i]), " to ",
                absl::FormatDuration(job.ledger.settled.of[i]));
  }
  settled = job.ledger.settled;
}

// ---- the machines ----

void Invariants::OnPublish(uint64_t job_id, uint32_t attempt, const mc::Snapshot* snapshot) {
  const mc::Job* job = snapshot == nullptr ? nullptr : snapshot->FindJob(job_id);
  const bool live = job != nullptr && job->has_live_attempt() && job->attempt == attempt;
  if (!live) {
    trace_.Fail("job ", job_id, " attempt ", attempt,
                " was allowed to publish a checkpoint, but it is not live");
  }
}

// The lease may be over by now, and the attempt with it. Its folder is its own all the same, takes
// no other's place, and is nobody's checkpoint.
void Invariants::OnRename(const std::string& path, const Storage::Folder& folder,
                          const mc::Snapshot* snapshot) {
  if (const Storage::Folder* there = storage_.Find(path); there != nullptr) {
    trace_.Fail("job ", folder.job_id, " attempt ", folder.attempt, " renames over ", path,
                " of attempt ", there->attempt);
  }
  const mc::Job* job = snapshot == nullptr ? nullptr : snapshot->FindJob(folder.job_id);
  const bool live = job != nullptr && job->has_live_attempt() && job->attempt == folder.attempt;
  if (live) return;
  trace_.Note(path, " comes late: its attempt is over");
  strays_.insert(path);
}

void Invariants::OnResume(uint64_t job_id, uint32_t attempt, int64_t step,
                          const mc::Snapshot* snapshot) {
  if (snapshot == nullptr) return;
  trace_.Note("job ", job_id, " attempt ", attempt, " goes on from step ", step);
  const int64_t promised = model_.NewestPromisedStep(*snapshot, job_id);
  const mc::Job* job = snapshot->FindJob(job_id);
  // A gang that is over and does not know it yet may read what it likes.
  if (job == nullptr || !job->has_live_attempt() || job->attempt != attempt) return;
  if (step < promised) {
    trace_.Fail("job ", job_id, " attempt ", attempt, " starts at step ", step, ", but step ",
                promised, " was called committed and is whole");
  }
}

void Invariants::OnDelete(const std::string& path, const Storage::Folder& folder,
                          const mc::Snapshot* snapshot) {
  deleted_.insert(path);
  const mc::Job* job = snapshot == nullptr ? nullptr : snapshot->FindJob(folder.job_id);
  if (job == nullptr) return trace_.Fail("a checkpoint of an unknown job was deleted: ", path);
  uint32_t newer = 0;
  bool newer_verified = false;
  for (const uint64_t id : job->checkpoints) {
    const mc::Checkpoint* row = snapshot->FindCheckpoint(id);
    if (row->step < folder.step || row->path == path || !row->restorable()) continue;
    ++newer;
    newer_verified |= row->state == mc::CheckpointState::kVerified;
  }
  if (newer < job->settings->keep_last || !newer_verified) {
    trace_.Fail(path, " was deleted with ", newer, " newer ones, verified: ", newer_verified);
  }
}

void Invariants::OnRot(const std::string& path) {
  const Storage::Folder* folder = storage_.Find(path);
  if (folder != nullptr) rotten_.insert(folder->job_id);
}

void Invariants::OnQuiet(const mc::Snapshot& snapshot) {
  snapshot.jobs.ForEach([this](const mc::Job& job) {
    if (!mc::IsTerminal(job.state)) {
      trace_.Fail("job ", job.id, " is ", mc::JobStateName(job.state),
                  " long after everything healed: ", job.message);
    }
  });
  snapshot.outbox.ForEach([this](const mc::OutboxRow& row) {
    trace_.Fail("outbox row ", row.seq, " for ", row.worker, " is never done with: kind ",
                static_cast<int>(row.kind), " of job ", row.fence.job_id, ".", row.fence.attempt);
  });
  snapshot.workers.ForEach([this](const mc::Worker& worker) {
    for (const auto& [slot, holder] : worker.pulse.holders) {
      trace_.Fail(worker.name, " slot ", slot, " is held for ever by job ", holder.job_id);
    }
  });
  for (const LiveProcess& live : live_processes()) {
    trace_.Fail(NameOf(live), " outlives its job");
  }
  snapshot.checkpoints.ForEach([this](const mc::Checkpoint& row) {
    if (row.state == mc::CheckpointState::kWriting ||
        row.state == mc::CheckpointState::kCommitted) {
      trace_.Fail("checkpoint ", row.id, " stays ", mc::CheckpointStateName(row.state));
    }
  });
}

}  // namespace muster::sim
