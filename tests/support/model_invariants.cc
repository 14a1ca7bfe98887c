#include "tests/support/model_invariants.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/model/job_state.h"

namespace muster::testing {
namespace {

namespace mc = ::muster::controller;

// How long the rank held its slots, up to the time that its job's ledger counts to.
absl::Duration HeldBy(const mc::Rank& rank, absl::Time until) {
  const absl::Duration held = std::min(rank.held_until, until) - rank.held_from;
  return held * static_cast<int64_t>(rank.slots.size());
}

// What is wrong with when the rank held its slots; empty: nothing.
std::string HoldFault(const mc::Rank& rank, absl::Time until) {
  const bool gone = !rank.holds_slots || mc::IsGivenUp(rank.state);
  if (gone != (rank.held_until != absl::InfiniteFuture())) {
    return gone ? "is gone, yet held for ever" : "holds slots that it gave back";
  }
  if (std::min(rank.held_until, until) < rank.held_from) {
    return "held its slots for less than no time";
  }
  return "";
}

// Every slot-second that the job's ranks held has one label.
void AuditLedger(const mc::Job& job, std::vector<std::string>& faults) {
  const mc::JobLedger& ledger = job.ledger;
  absl::Duration held;
  const auto count = [&](const mc::Attempt& attempt) {
    for (const mc::Rank& rank : attempt.ranks) {
      if (rank.held_from == absl::InfinitePast()) continue;
      const std::string fault = HoldFault(rank, ledger.until);
      if (!fault.empty()) {
        faults.push_back(absl::StrCat("job ", job.id, ": rank ", rank.rank, " of attempt ",
                                      attempt.number, " ", fault));
      }
      held += HeldBy(rank, ledger.until);
    }
  };
  for (const auto& attempt : job.past) count(*attempt);
  if (job.current != nullptr) count(*job.current);
  if (held != ledger.times.total()) {
    faults.push_back(absl::StrCat("job ", job.id, "'s ranks held ", absl::FormatDuration(held),
                                  " of slots, its labels say ",
                                  absl::FormatDuration(ledger.times.total())));
  }
  for (int i = 0; i < mc::kTimeLabelCount; ++i) {
    const bool sound =
        ledger.times.of[i] >= absl::ZeroDuration() && ledger.settled.of[i] <= ledger.times.of[i];
    if (sound) continue;
    faults.push_back(absl::StrCat("job ", job.id, ": ",
                                  mc::TimeLabelName(static_cast<mc::TimeLabel>(i)),
                                  " is below zero, or less than what was settled of it"));
  }
  if (ledger.queued < absl::ZeroDuration()) {
    faults.push_back(absl::StrCat("job ", job.id, " waited for less than no time"));
  }
}

class Audit {
 public:
  explicit Audit(const mc::Snapshot& snapshot) : snapshot_(snapshot) {}

  std::vector<std::string> Run() {
    snapshot_.jobs.ForEach([this](const mc::Job& job) {
      CheckEvents(job);
      CheckAttempts(job);
      CheckKey(job);
      for (std::string& fault : LedgerFaults(job)) faults_.push_back(std::move(fault));
    });
    snapshot_.workers.ForEach([this](const mc::Worker& worker) { CheckHolders(worker); });
    if (events_.size() + snapshot_.archived_events != snapshot_.last_event) {
      Fault("of ", snapshot_.last_event, " events ", events_.size(), " are there and ",
            snapshot_.archived_events, " are forgotten");
    }
    if (snapshot_.events.size() != events_.size()) Fault("an event is of no job");
    CheckKeptLists();
    CheckOutbox();
    CheckCheckpoints();
    return std::move(faults_);
  }

 private:
  template <typename... Parts>
  void Fault(const Parts&... parts) {
    faults_.push_back(absl::StrCat(parts...));
  }

  static bool IsMove(mc::JobState from, mc::JobState to) {
    for (int input = 0; input < mc::kJobInputCount; ++input) {
      const mc::JobRule& rule = mc::LookUp(from, static_cast<mc::JobInput>(input));
      if (rule.handling == mc::Handling::kMove && rule.next == to) return true;
    }
    return false;
  }

  void CheckEvents(const mc::Job& job) {
    if (job.events.empty()) return Fault("job ", job.id, " has no event");
    mc::JobState state = job.events.front()->from;
    uint64_t last = 0;
    for (const auto& event : job.events) {
      const bool first = last == 0;
      if (event->sequence <= last) Fault("job ", job.id, ": events out of order");
      last = event->sequence;
      if (!events_.insert(last).second) Fault("event ", last, " stands twice");
      if (last > snapshot_.last_event) Fault("event ", last, " is beyond the last one");
      if (event->job_id != job.id) Fault("event ", last, " stands with job ", job.id);
      if (event->from != state) Fault("event ", last, " does not begin where its job stood");
      const bool legal = first ? event->to == event->from
                               : event->to == event->from || IsMove(event->from, event->to);
      if (!legal) {
        Fault("event ", last, ": no move leads from ", mc::JobStateName(event->from), " to ",
              mc::JobStateName(event->to));
      }
      const bool requeued = event->reason == mc::Reason::kRequeued;
      if (!first && mc::IsTerminal(event->from) && event->to != event->from && !requeued) {
        Fault("event ", last, ": job ", job.id, " left a terminal state");
      }
      state = event->to;
    }
    if (state != job.state) {
      Fault("job ", job.id, " is ", mc::JobStateName(job.state), ", its events say ",
            mc::JobStateName(state));
    }
  }

  void CheckAttempts(const mc::Job& job) {
    uint32_t number = 0;
    for (const auto& attempt : job.past) {
      if (attempt->number != ++number) Fault("job ", job.id, ": attempts are not 1, 2, ...");
      if (attempt->live()) Fault("job ", job.id, ": attempt ", number, " lives beside a newer one");
      CheckRanks(*attempt);
    }
    if (job.current != nullptr) {
      if (job.current->number != ++number) Fault("job ", job.id, ": attempts are not 1, 2, ...");
      CheckRanks(*job.current);
    }
    if (job.attempt != number) {
      Fault("job ", job.id, " counts ", job.attempt, " attempts and has ", number);
    }
    const bool holds = job.state == mc::JobState::kStarting || job.state == mc::JobState::kRunning;
    const bool must_not = mc::IsTerminal(job.state) || job.state == mc::JobState::kPending;
    if ((holds && !job.has_live_attempt()) || (must_not && job.has_live_attempt())) {
      Fault("job ", job.id, " is ", mc::JobStateName(job.state), " with ",
            job.has_live_attempt() ? "a" : "no", " live attempt");
    }
  }

  void CheckRanks(const mc::Attempt& attempt) {
    for (const mc::Rank& rank : attempt.ranks) {
      if (!rank.holds_slots) continue;
      for (uint32_t index : rank.slots) {
        const auto slot = std::make_tuple(rank.worker, rank.incarnation, index);
        const auto rank_name = std::make_tuple(attempt.job_id, attempt.number, rank.rank);
        if (!held_.emplace(slot, rank_name).second) {
          Fault("slot ", index, " of ", rank.worker, " is held twice");
        }
      }
    }
  }

  void CheckHolders(const mc::Worker& worker) {
    std::set<uint32_t> slots;
    for (const auto& [slot, holder] : worker.pulse.holders) {
      slots.insert(slot);
      const auto found = held_.find(std::make_tuple(worker.name, worker.incarnation, slot));
      if (found == held_.end() ||
          found->second != std::make_tuple(holder.job_id, holder.attempt, holder.rank)) {
        Fault("slot ", slot, " of ", worker.name, " names a holder that does not hold it");
      }
    }
    for (const auto& [slot, rank] : held_) {
      if (std::get<0>(slot) != worker.name || std::get<1>(slot) != worker.incarnation) continue;
      if (slots.count(std::get<2>(slot)) == 0) {
        Fault("job ", std::get<0>(rank), " holds slot ", std::get<2>(slot), " of ", worker.name,
              ", which counts it as free");
      }
    }
  }

  void CheckKey(const mc::Job& job) {
    if (job.idempotency_key.empty()) return;
    if (!keys_.emplace(job.owner, job.idempotency_key).second) {
      Fault("job ", job.id, ": another job has its key ", job.idempotency_key);
    }
  }

  // What is kept over all jobs speaks of jobs that are there.
  void CheckKeptLists() {
    std::map<std::string, mc::NamedJobs> names;
    snapshot_.jobs.ForEach([&](const mc::Job& job) {
      mc::NamedJobs& named = names[job.settings->name];
      named.newest = job.id;
      ++named.count;
      for (const uint64_t id : job.settings->resume_from) {
        if (snapshot_.FindCheckpoint(id) != nullptr) continue;
        Fault("job ", job.id, " begins from checkpoint ", id, ", which is not there");
      }
      const auto* resumable_jobs = snapshot_.resumable_jobs.Find(mc::RunTimeKey(*job.settings));
      if (resumable_jobs == nullptr) return;
      for (const uint64_t id : **resumable_jobs) {
        if (snapshot_.FindJob(id) == nullptr) Fault("saver ", id, " is not there");
      }
    });
    for (const auto& [name, named] : names) {
      const mc::NamedJobs* kept = snapshot_.by_name.Find(name);
      if (kept == nullptr || kept->newest != named.newest || kept->count != named.count) {
        Fault("the jobs named ", name, " are miscounted");
      }
    }
  }

  void CheckOutbox() {
    std::map<std::string, std::vector<uint64_t>> of_worker;
    snapshot_.outbox.ForEach([&](const mc::OutboxRow& row) {
      if (snapshot_.outbox.Find(row.seq) != &row || row.seq > snapshot_.last_outbox) {
        Fault("outbox row ", row.seq, " is misplaced");
      }
      if (snapshot_.FindWorker(row.worker) == nullptr) {
        Fault("outbox row ", row.seq, " is for an unknown worker");
      }
      of_worker[row.worker].push_back(row.seq);
    });
    snapshot_.workers.ForEach([&](const mc::Worker& worker) {
      if (snapshot_.outbox.Of(worker.name) != of_worker[worker.name]) {
        Fault("the outbox rows for ", worker.name, " are not those that it has");
      }
    });
  }

  void CheckCheckpoints() {
    snapshot_.checkpoints.ForEach([this](const mc::Checkpoint& checkpoint) {
      const bool usable = checkpoint.state == mc::CheckpointState::kCommitted ||
                          checkpoint.state == mc::CheckpointState::kVerified;
      if (usable && (checkpoint.path.empty() || checkpoint.manifest_sha256.empty())) {
        Fault("checkpoint ", checkpoint.id, " is usable without a folder or a manifest");
      }
    });
  }

  const mc::Snapshot& snapshot_;
  std::vector<std::string> faults_;
  std::set<uint64_t> events_;
  std::set<std::pair<std::string, std::string>> keys_;
  // Who holds a slot: (worker, incarnation, slot) -> (job, attempt, rank).
  std::map<std::tuple<std::string, std::string, uint32_t>, std::tuple<uint64_t, uint32_t, uint32_t>>
      held_;
};

}  // namespace

std::vector<std::string> LedgerFaults(const controller::Job& job) {
  std::vector<std::string> faults;
  AuditLedger(job, faults);
  return faults;
}

std::vector<std::string> ModelFaults(const controller::Snapshot& snapshot) {
  return Audit(snapshot).Run();
}

std::string DescribeModel(const controller::Snapshot& snapshot) {
  std::string view = absl::StrCat("events ", snapshot.last_event, "\n");
  snapshot.outbox.ForEach([&view](const mc::OutboxRow& row) {
    absl::StrAppend(&view, "outbox ", row.seq, " for ", row.worker, " kind ",
                    static_cast<int>(row.kind), "\n");
  });
  snapshot.jobs.ForEach([&](const mc::Job& job) {
    absl::StrAppend(&view, "job ", job.id, " ", mc::JobStateName(job.state), " attempt ",
                    job.attempt, " restarts ", job.restarts, " in a row ", job.restarts_in_row,
                    " key ", job.idempotency_key, " events ", job.events.size(), " results ",
                    job.results.size(), "\n");
    if (job.current == nullptr) return;
    for (const mc::Rank& rank : job.current->ranks) {
      absl::StrAppend(&view, "  rank ", rank.rank, " on ", rank.worker, " ",
                      mc::RankStateName(rank.state), rank.holds_slots ? " holds" : "", "\n");
    }
  });
  snapshot.workers.ForEach([&](const mc::Worker& worker) {
    absl::StrAppend(&view, "worker ", worker.id, " ", worker.name, " holds ",
                    worker.pulse.holders.size(), " seq ", worker.event_seq, "\n");
  });
  snapshot.checkpoints.ForEach([&](const mc::Checkpoint& checkpoint) {
    absl::StrAppend(&view, "checkpoint ", checkpoint.id, " of ", checkpoint.job_id, " ",
                    mc::CheckpointStateName(checkpoint.state), " ", checkpoint.path,
                    checkpoint.pinned_by, checkpoint.removed_by, "\n");
  });
  return view;
}

}  // namespace muster::testing
