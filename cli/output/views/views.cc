#include "cli/output/views/views.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/output/text.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

template <typename Message>
std::optional<double> If(bool has, const Message& message, double (Message::*get)() const) {
  return has ? std::optional<double>((message.*get)()) : std::nullopt;
}

std::string Lower(const std::string& name, bool specified) { return specified ? name : ""; }

std::string FailureText(v1::FailureClass failure) {
  return Lower(v1::FailureClass_Name(failure), failure != v1::FAILURE_CLASS_UNSPECIFIED);
}

std::string Joined(const google::protobuf::RepeatedPtrField<std::string>& names) {
  return absl::StrJoin(names, ",");
}

bool IsOver(v1::JobState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED || state == v1::CANCELLED;
}

std::optional<double> Loss(const v1::JobSummary& job) {
  return If(job.has_loss(), job, &v1::JobSummary::loss);
}

std::optional<double> Rate(const v1::JobSummary& job) {
  return If(job.has_samples_per_second(), job, &v1::JobSummary::samples_per_second);
}

// How the model did on the validation set: its accuracy, or its loss where it has none.
std::string ValidationText(std::optional<double> accuracy, std::optional<double> loss) {
  if (accuracy.has_value() || !loss.has_value()) return Percent(accuracy);
  return absl::StrCat("loss ", Number(loss));
}

// "name:   value" lines; a line without a value is left out.
void Field(absl::string_view name, absl::string_view value, std::string* page) {
  constexpr size_t kNameWidth = 14;
  if (value.empty() || value == kNothing) return;
  const std::string blanks(kNameWidth > name.size() + 1 ? kNameWidth - name.size() - 1 : 1, ' ');
  absl::StrAppend(page, name, ":", blanks, Plain(value), "\n");
}

void Section(absl::string_view title, absl::string_view body, std::string* page) {
  if (body.empty()) return;
  absl::StrAppend(page, "\n", title, "\n");
  for (const absl::string_view line : absl::StrSplit(body, '\n', absl::SkipEmpty())) {
    absl::StrAppend(page, "  ", line, "\n");
  }
}

std::string Rendered(const Table& table) {
  return table.empty() ? "" : table.Render(true, kTableWidth - 2);
}

std::string AttemptEnd(const v1::Attempt& attempt) {
  if (attempt.ended_ms() == 0) return "live";
  return attempt.failure_class() == v1::FAILURE_CLASS_UNSPECIFIED
             ? "done"
             : FailureText(attempt.failure_class());
}

// How often it is still tried again: "3 of 3; OUT_OF_MEMORY 0, APPLICATION 1 of 2", of which the
// first is what all classes share that have no number of their own.
std::string BudgetsText(const v1::GetJobResponse& job) {
  if (IsOver(job.summary().state())) return "";
  std::string shared;
  std::vector<std::string> own;
  for (const v1::RestartBudget& budget : job.budgets()) {
    const std::string left =
        budget.budget() == 0 ? "0" : absl::StrCat(budget.left(), " of ", budget.budget());
    if (budget.shared()) {
      shared = left;
    } else {
      own.push_back(absl::StrCat(FailureText(budget.failure_class()), " ", left));
    }
  }
  if (shared.empty()) return absl::StrJoin(own, ", ");
  return own.empty() ? shared : absl::StrCat(shared, "; ", absl::StrJoin(own, ", "));
}

Table AttemptTable(const v1::GetJobResponse& job) {
  Table table({{"ATTEMPT", true},
               {"STARTED"},
               {"LASTED", true},
               {"STEPS", true},
               {"LOST", true},
               {"END"},
               {"CAUSE", false, false, true}});
  for (const v1::Attempt& attempt : job.attempts()) {
    const bool ended = attempt.ended_ms() != 0;
    table.Add({absl::StrCat(attempt.number()), TimeText(attempt.started_ms()),
               ended ? Age(absl::FromUnixMillis(attempt.ended_ms()), attempt.started_ms()) : "",
               absl::StrCat(attempt.first_step(), "..", attempt.last_step()),
               absl::StrCat(attempt.steps_lost()), AttemptEnd(attempt), attempt.cause()});
  }
  return table;
}

Table RankTable(const v1::Attempt& attempt) {
  Table table({{"RANK", true},
               {"WORKER", false, true},
               {"SLOT", true},
               {"STATE"},
               {"PID", true},
               {"EXIT"}});
  for (const v1::Attempt::Rank& rank : attempt.ranks()) {
    const std::string exit = rank.signal() != 0         ? absl::StrCat("signal ", rank.signal())
                             : rank.state() == "exited" ? absl::StrCat(rank.exit_code())
                                                        : "";
    table.Add({absl::StrCat(rank.rank()), rank.worker(), absl::StrJoin(rank.slots(), ","),
               rank.state(), rank.pid() == 0 ? "" : absl::StrCat(rank.pid()), exit});
  }
  return table;
}

Table EventTable(const v1::GetJobResponse& job) {
  Table table({{"TIME (UTC)"}, {"STATE"}, {"REASON"}, {"BY"}, {"MESSAGE", false, false, true}});
  for (const v1::JobEvent& event : job.events()) {
    table.Add({TimeText(event.time_ms()), v1::JobState_Name(event.to()),
               Lower(v1::Reason_Name(event.reason()), event.reason() != v1::REASON_UNSPECIFIED),
               event.actor(), event.message()});
  }
  return table;
}

std::string SlotText(const v1::WorkerInfo& worker) {
  return absl::StrCat(worker.slots_used(), "/", worker.slots_size());
}

// What stands against the worker; empty: nothing.
std::string EvidenceText(const v1::WorkerInfo& worker, absl::Time now) {
  if (worker.quarantined_until_ms() != 0) {
    return absl::StrCat("quarantined until ", TimeText(worker.quarantined_until_ms()),
                        " UTC: ", worker.quarantine_reason());
  }
  if (worker.unseen_roots_size() > 0) {
    const v1::WorkerInfo::UnseenRoot& first = worker.unseen_roots(0);
    // The agent's sentence names the root.
    const std::string text = first.message().empty()
                                 ? absl::StrCat("checkpoint root ", first.path(), ": not seen")
                                 : first.message();
    const int more = worker.unseen_roots_size() - 1;
    return more == 0 ? text : absl::StrCat(text, " (and ", more, " more)");
  }
  if (worker.failures().empty()) return "";
  const v1::WorkerInfo::WorkerFailure& last = *worker.failures().rbegin();
  if (absl::StartsWith(worker.quarantine_reason(), "not quarantined")) {
    return worker.quarantine_reason();
  }
  return absl::StrCat(worker.failures_size(),
                      worker.failures_size() == 1 ? " failure" : " failures",
                      " began here, the last ", Age(now, last.time_ms()), " ago: job ",
                      last.job_id(), ", ", last.cause());
}

}  // namespace

std::string StepText(const v1::JobSummary& job) {
  if (job.step() <= 0 && job.total_steps() == 0) return kNothing;
  return job.total_steps() == 0 ? absl::StrCat(job.step())
                                : absl::StrCat(job.step(), "/", job.total_steps());
}

std::string JobIdText(uint64_t id, uint64_t array_id, uint32_t array_index) {
  return array_id == 0 ? absl::StrCat(id) : absl::StrCat(array_id, "_", array_index);
}

std::string JobIdText(const v1::JobSummary& job) {
  return JobIdText(job.id(), job.array_id(), job.array_index());
}

std::string JobName(const v1::JobSummary& job) {
  return absl::StrCat(JobIdText(job), " ", job.name());
}

Table JobTable(const std::vector<v1::JobSummary>& jobs, absl::Time now, bool wide) {
  std::vector<Column> columns = {{"ID", true},    {"NAME", false, true}, {"STATE"},
                                 {"RANKS", true}, {"STEP", true},        {"LOSS", true},
                                 {"RATE", true},  {"GOODPUT", true},     {"AGE", true}};
  if (wide) {
    const std::vector<Column> more = {{"PROJECT"},        {"OWNER"},          {"PRIO", true},
                                      {"RESTARTS", true}, {"ACCURACY", true}, {"WORKERS"}};
    columns.insert(columns.end(), more.begin(), more.end());
  }
  columns.push_back({"REASON", false, true});
  Table table(std::move(columns));
  for (const v1::JobSummary& job : jobs) {
    const std::optional<double> rate = Rate(job);
    std::vector<std::string> cells = {JobIdText(job),
                                      job.name(),
                                      v1::JobState_Name(job.state()),
                                      absl::StrCat(job.ranks()),
                                      StepText(job),
                                      Number(Loss(job)),
                                      rate.has_value() ? absl::StrCat(Number(rate), "/s") : "",
                                      Percent(If(job.has_goodput(), job, &v1::JobSummary::goodput)),
                                      Age(now, job.submitted_ms())};
    if (wide) {
      const bool tested = job.has_test_accuracy();
      const std::optional<double> accuracy = tested ? job.test_accuracy()
                                                    : If(job.has_best_validation_accuracy(), job,
                                                         &v1::JobSummary::best_validation_accuracy);
      for (std::string cell :
           {job.project(), job.owner(), absl::StrCat(job.priority()), absl::StrCat(job.restarts()),
            Percent(accuracy), Joined(job.workers())}) {
        cells.push_back(std::move(cell));
      }
    }
    cells.push_back(job.message());
    table.Add(std::move(cells));
  }
  return table;
}

Table HistoryTable(const std::vector<v1::JobSummary>& jobs, bool wide) {
  std::vector<Column> columns = {{"ID", true},      {"NAME", false, true}, {"OWNER"},
                                 {"STATE"},         {"ENDED (UTC)"},       {"WAITED", true},
                                 {"ELAPSED", true}, {"RAN", true},         {"SLOT-HOURS", true},
                                 {"RESTARTS", true}};
  if (wide) {
    const std::vector<Column> more = {
        {"PROJECT"}, {"RANKS", true}, {"STEP", true}, {"REASON", false, true}};
    columns.insert(columns.end(), more.begin(), more.end());
  }
  Table table(std::move(columns));
  constexpr double kSecondsPerHour = 3600;
  for (const v1::JobSummary& job : jobs) {
    const absl::Time ended = absl::FromUnixMillis(job.finished_ms());
    const absl::Time began = job.started_ms() == 0 ? ended : absl::FromUnixMillis(job.started_ms());
    std::vector<std::string> cells = {
        JobIdText(job),
        job.name(),
        job.owner(),
        v1::JobState_Name(job.state()),
        TimeText(job.finished_ms()),
        Age(began, job.submitted_ms()),
        Age(ended, job.submitted_ms()),
        HumanDuration(absl::Floor(absl::Milliseconds(job.ran_ms()), absl::Seconds(1))),
        absl::StrFormat("%.2f", job.slot_seconds() / kSecondsPerHour),
        absl::StrCat(job.restarts())};
    if (wide) {
      for (std::string cell :
           {job.project(), absl::StrCat(job.ranks()), StepText(job), job.message()}) {
        cells.push_back(std::move(cell));
      }
    }
    table.Add(std::move(cells));
  }
  return table;
}

std::string CheckpointStateText(const v1::CheckpointInfo& c) {
  std::string text = v1::CheckpointState_Name(c.state());
  if (c.state() == v1::DELETED) return text;
  if (!c.pinned_by().empty()) absl::StrAppend(&text, " (pinned)");
  if (!c.removed_by().empty()) absl::StrAppend(&text, " (being deleted)");
  return text;
}

Table CheckpointTable(const std::vector<v1::CheckpointInfo>& checkpoints, absl::Time now, bool wide,
                      const std::map<uint64_t, std::string>* job_names) {
  std::vector<Column> columns = {{"ID", true}, {"STEP", true}, {"EPOCH", true},      {"STATE"},
                                 {"BEST"},     {"SIZE", true}, {"VALIDATION", true}, {"AGE", true}};
  if (job_names != nullptr) columns.insert(columns.begin() + 1, {"JOB", false, true});
  if (wide) columns.push_back({"ATTEMPT", true});
  columns.push_back({wide ? "PATH" : "NOTE", false, true});
  Table table(std::move(columns));
  // Each was flagged when it was the best so far; what counts is the last of them.
  std::map<uint64_t, int64_t> best_steps;  // by job
  for (const v1::CheckpointInfo& c : checkpoints) {
    if (!c.best() || c.state() == v1::CORRUPT) continue;
    int64_t& best = best_steps.try_emplace(c.job_id(), c.step()).first->second;
    best = std::max(best, c.step());
  }
  const auto is_best = [&](const v1::CheckpointInfo& c) {
    const auto best = best_steps.find(c.job_id());
    return c.best() && best != best_steps.end() && best->second == c.step();
  };
  for (const v1::CheckpointInfo& c : checkpoints) {
    std::vector<std::string> cells = {
        absl::StrCat(c.id()),
        absl::StrCat(c.step()),
        Number(c.epoch()),
        CheckpointStateText(c),
        is_best(c) ? "best" : "",
        Bytes(static_cast<double>(c.bytes())),
        ValidationText(If(c.has_validation_accuracy(), c, &v1::CheckpointInfo::validation_accuracy),
                       If(c.has_validation_loss(), c, &v1::CheckpointInfo::validation_loss)),
        Age(now, c.created_ms())};
    if (job_names != nullptr) {
      const auto name = job_names->find(c.job_id());
      cells.insert(cells.begin() + 1, name == job_names->end() ? "" : name->second);
    }
    if (wide) cells.push_back(absl::StrCat(c.attempt()));
    cells.push_back(wide ? c.path() : c.message());
    table.Add(std::move(cells));
  }
  return table;
}

Table WorkerTable(const std::vector<v1::WorkerInfo>& workers, absl::Time now, bool wide) {
  std::vector<Column> columns = {{"NAME", false, true}, {"STATE"},      {"POOL"},
                                 {"USED", true},        {"DEVICE"},     {"CPUS", true},
                                 {"MEMORY", true},      {"SEEN", true}, {"JOBS"}};
  if (wide) {
    const std::vector<Column> more = {{"COMMANDS"}, {"IMAGES"},  {"ADDRESS"},
                                      {"METRICS"},  {"VERSION"}, {"LABELS", false, true}};
    columns.insert(columns.end(), more.begin(), more.end());
  }
  const bool evidence = std::any_of(workers.begin(), workers.end(), [&](const auto& worker) {
    return !EvidenceText(worker, now).empty();
  });
  if (evidence) columns.push_back({"EVIDENCE", false, false, /*wrap=*/true});
  Table table(std::move(columns));
  for (const v1::WorkerInfo& worker : workers) {
    std::vector<std::string> cells = {worker.name(),
                                      worker.state(),
                                      worker.pool(),
                                      SlotText(worker),
                                      worker.slots_size() > 0 ? worker.slots(0).device() : "",
                                      absl::StrCat(worker.cpus()),
                                      Bytes(static_cast<double>(worker.memory_bytes())),
                                      Age(now, worker.last_heartbeat_ms()),
                                      absl::StrJoin(worker.job_ids(), ",")};
    if (wide) {
      std::vector<std::string> labels;
      for (const auto& [key, value] : worker.labels())
        labels.push_back(absl::StrCat(key, "=", value));
      std::sort(labels.begin(), labels.end());
      for (std::string cell :
           {std::string(worker.allows_commands() ? "yes" : "no"),
            absl::StrJoin(worker.container_runtimes(), ","), worker.advertise_address(),
            worker.metrics_address(), worker.version(), absl::StrJoin(labels, ",")}) {
        cells.push_back(std::move(cell));
      }
    }
    if (evidence) cells.push_back(EvidenceText(worker, now));
    table.Add(std::move(cells));
  }
  return table;
}

std::string ResumeSourceText(const v1::ResumeSource& source) {
  std::string text = absl::StrCat("job ", source.job_id(), " (", source.job_name(), ")");
  for (int i = 0; i < source.steps_size(); ++i) {
    absl::StrAppend(&text, i == 0 ? ", step " : i == 1 ? ", else " : ", ", source.steps(i));
  }
  return text;
}

std::string JobPage(const v1::GetJobResponse& job, const JobPageParts& parts, absl::Time now) {
  const v1::JobSummary& summary = job.summary();
  std::string page;
  Field("job", JobName(summary), &page);
  Field("state", v1::JobState_Name(summary.state()), &page);
  Field("reason", summary.message(), &page);
  Field("failure", FailureText(summary.failure_class()), &page);
  if (summary.held()) Field("held", "until `muster release`", &page);
  if (summary.array_id() != 0) {
    Field("array", absl::StrCat(summary.array_id(), ", task ", summary.array_index()), &page);
  }
  if (summary.priority() != 0) Field("priority", absl::StrCat(summary.priority()), &page);
  Field("pools", Joined(summary.pools()), &page);
  Field("project", summary.project(), &page);
  Field("owner", summary.owner(), &page);
  Field("submitted",
        absl::StrCat(TimeText(summary.submitted_ms()), " UTC, ", Age(now, summary.submitted_ms()),
                     " ago"),
        &page);
  if (summary.started_ms() != 0) {
    const absl::Time end =
        summary.finished_ms() == 0 ? now : absl::FromUnixMillis(summary.finished_ms());
    Field(summary.finished_ms() == 0 ? "runs for" : "ran for", Age(end, summary.started_ms()),
          &page);
  }
  if (job.has_resume_from()) Field("began from", ResumeSourceText(job.resume_from()), &page);
  Field("ranks",
        summary.workers_size() == 0
            ? absl::StrCat(summary.ranks())
            : absl::StrCat(summary.ranks(), " on ", absl::StrJoin(summary.workers(), ", ")),
        &page);
  Field("restarts", absl::StrCat(summary.restarts()), &page);
  Field("restarts left", BudgetsText(job), &page);
  Field("phase", summary.phase(), &page);
  Field("step", StepText(summary), &page);
  if (summary.epoch() > 0) Field("epoch", Number(summary.epoch()), &page);
  Field("loss", Number(Loss(summary)), &page);
  Field("samples/s", Number(Rate(summary)), &page);
  Field("memory", Bytes(If(summary.has_memory_bytes(), summary, &v1::JobSummary::memory_bytes)),
        &page);
  Field("memory peak",
        Bytes(If(summary.has_memory_peak_bytes(), summary, &v1::JobSummary::memory_peak_bytes)),
        &page);
  Field("validation",
        ValidationText(
            If(summary.has_validation_accuracy(), summary, &v1::JobSummary::validation_accuracy),
            If(summary.has_validation_loss(), summary, &v1::JobSummary::validation_loss)),
        &page);
  Field("best",
        Percent(If(summary.has_best_validation_accuracy(), summary,
                   &v1::JobSummary::best_validation_accuracy)),
        &page);
  Field("test accuracy",
        Percent(If(summary.has_test_accuracy(), summary, &v1::JobSummary::test_accuracy)), &page);
  Field("artifacts", parts.artifacts, &page);
  if (job.shortened()) {
    Field("note",
          absl::StrCat("older attempts, checkpoints or events are left out: `muster events ",
                       summary.id(), "` and `muster ckpt ls ", summary.id(), "` have all"),
          &page);
  }
  Section("attempts", Rendered(AttemptTable(job)), &page);
  if (job.attempts_size() > 0) {
    const v1::Attempt& newest = job.attempts(job.attempts_size() - 1);
    Section(absl::StrCat("ranks of attempt ", newest.number()), Rendered(RankTable(newest)), &page);
  }
  std::vector<v1::CheckpointInfo> kept;
  for (const v1::CheckpointInfo& checkpoint : job.checkpoints()) {
    if (checkpoint.state() != v1::DELETED) kept.push_back(checkpoint);
  }
  const size_t deleted = static_cast<size_t>(job.checkpoints_size()) - kept.size();
  Section(deleted == 0 ? "checkpoints"
                       : absl::StrCat("checkpoints (", deleted, " older ones were deleted)"),
          Rendered(CheckpointTable(kept, now, false)), &page);
  Section("events", Rendered(EventTable(job)), &page);
  Section(parts.spec_title, parts.spec_yaml, &page);
  return page;
}

std::string CheckpointPage(const v1::CheckpointInfo& c, absl::Time now) {
  std::string page;
  Field("checkpoint", absl::StrCat(c.id(), c.best() ? " (best)" : ""), &page);
  Field("job", absl::StrCat(c.job_id()), &page);
  Field("state", CheckpointStateText(c), &page);
  Field("pinned", c.pinned_by().empty() ? "" : absl::StrCat("by ", c.pinned_by()), &page);
  Field("removed", c.removed_by().empty() ? "" : absl::StrCat("by ", c.removed_by()), &page);
  Field("note", c.message(), &page);
  Field("step", absl::StrCat(c.step()), &page);
  Field("epoch", Number(c.epoch()), &page);
  Field("attempt", absl::StrCat(c.attempt()), &page);
  Field("size", Bytes(static_cast<double>(c.bytes())), &page);
  Field("validation",
        Percent(If(c.has_validation_accuracy(), c, &v1::CheckpointInfo::validation_accuracy)),
        &page);
  Field("loss", Number(If(c.has_validation_loss(), c, &v1::CheckpointInfo::validation_loss)),
        &page);
  Field("made", absl::StrCat(TimeText(c.created_ms()), " UTC, ", Age(now, c.created_ms()), " ago"),
        &page);
  Field("verified", c.verified_ms() == 0 ? "" : absl::StrCat(TimeText(c.verified_ms()), " UTC"),
        &page);
  Field("manifest", c.manifest_sha256(), &page);
  Field("path", c.path(), &page);
  return page;
}

}  // namespace muster::cli
