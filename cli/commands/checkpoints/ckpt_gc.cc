// `muster ckpt gc`: deletes what jobs that have ended need no more. The choice is made here, job by
// job; the controller has each one deleted as `ckpt rm` would.
#include "cli/commands/checkpoints/ckpt_gc.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cli/commands/checkpoints/checkpoint_ref.h"
#include "cli/commands/checkpoints/ckpt_control.h"
#include "cli/grammar/past_time.h"
#include "cli/output/text.h"
#include "cli/output/views/views.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

struct GcFlags {
  uint32_t keep = 1;
  std::optional<std::string> older_than;
  std::string project, owner;
  bool dry_run = false, yes = false;
};

struct Garbage {
  Table table{{{"ID", true},
               {"JOB", false, true},
               {"STEP", true},
               {"STATE"},
               {"SIZE", true},
               {"AGE", true}}};
  Checkpoints checkpoints;
  uint64_t bytes = 0;
};

// Those of an ended job that nothing keeps: older than the newest `keep` verified ones and made
// before that time, neither pinned nor the best.
Checkpoints GarbageOf(Checkpoints checkpoints, uint32_t keep, int64_t made_before_ms) {
  std::sort(checkpoints.begin(), checkpoints.end(), [](const auto& a, const auto& b) {
    return a.step() != b.step() ? a.step() > b.step() : a.id() > b.id();
  });
  Checkpoints garbage;
  uint32_t verified = 0;
  bool has_best = false;  // and it is verified
  for (v1::CheckpointInfo& c : checkpoints) {
    const bool whole = c.state() == v1::COMMITTED || c.state() == v1::VERIFIED;
    if ((!whole && c.state() != v1::CORRUPT) || !c.removed_by().empty()) continue;
    const bool best = whole && c.best() && !has_best;
    const bool kept = verified < keep || best || !c.pinned_by().empty();
    if (c.state() == v1::VERIFIED) {
      ++verified;
      has_best |= best;
    }
    if (!kept && c.created_ms() < made_before_ms) garbage.push_back(std::move(c));
  }
  return garbage;
}

absl::StatusOr<Garbage> FindGarbage(const GcFlags& flags, Session& session) {
  const absl::Time now = WallNow();
  MUSTER_ASSIGN_OR_RETURN(int64_t made_before_ms,
                          PastMillis("--older-than", flags.older_than, now));
  if (!flags.older_than.has_value()) made_before_ms = std::numeric_limits<int64_t>::max();
  Garbage garbage;
  MUSTER_RETURN_IF_ERROR(ForEachJobsCheckpoints(
      {{v1::SUCCEEDED, v1::FAILED, v1::CANCELLED}, flags.project, flags.owner}, session,
      [&](const v1::JobSummary& job, Checkpoints all) {
        for (v1::CheckpointInfo& c : GarbageOf(std::move(all), flags.keep, made_before_ms)) {
          garbage.table.Add({absl::StrCat(c.id()), JobName(job), absl::StrCat(c.step()),
                             CheckpointStateText(c), Bytes(static_cast<double>(c.bytes())),
                             Age(now, c.created_ms())});
          garbage.bytes += c.bytes();
          garbage.checkpoints.push_back(std::move(c));
        }
      }));
  return garbage;
}

absl::Status Confirm(const std::string& sum, Session& session) {
  session.host().err << "delete " << sum << "? Answer `yes`: " << std::flush;
  std::string answer;
  std::getline(session.host().in, answer);
  if (absl::StripAsciiWhitespace(answer) == "yes") return absl::OkStatus();
  return WithHint(absl::InvalidArgumentError("nothing was deleted: the answer was not `yes`"),
                  "--yes deletes without the question, --dry-run only lists");
}

absl::StatusOr<ExitCode> RunGc(const GcFlags& flags, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(const Garbage garbage, FindGarbage(flags, session));
  const std::string sum =
      absl::StrCat(garbage.checkpoints.size(),
                   garbage.checkpoints.size() == 1 ? " checkpoint, " : " checkpoints, ",
                   Bytes(static_cast<double>(garbage.bytes)));
  session.PrintList(garbage.table, ToJsonList(garbage.checkpoints), "id");
  if (flags.dry_run) session.Say(absl::StrCat("would delete ", sum));
  if (garbage.checkpoints.empty()) session.Say("there is nothing to delete");
  if (flags.dry_run || garbage.checkpoints.empty()) return ExitCode::kDone;
  if (!flags.yes) MUSTER_RETURN_IF_ERROR(Confirm(sum, session));
  size_t going = 0;
  for (const v1::CheckpointInfo& c : garbage.checkpoints) {
    const absl::Status removed =
        ControlCheckpoint(c.id(), v1::ControlCheckpointRequest::REMOVE, /*force=*/false, session)
            .status();
    if (absl::IsNotFound(removed)) {
      session.Say(absl::StrCat("checkpoint ", c.id(), " is gone already"));
      continue;
    }
    // Somebody has pinned it meanwhile, say, or a job is to begin from it; or it is another's.
    if (absl::IsFailedPrecondition(removed) || absl::IsPermissionDenied(removed)) {
      session.Say(absl::StrCat("checkpoint ", c.id(), " stays: ", removed.message()));
      continue;
    }
    MUSTER_RETURN_IF_ERROR(removed);
    ++going;
  }
  session.Say(
      absl::StrCat(going, going == 1 ? " checkpoint is" : " checkpoints are", " being deleted"));
  return ExitCode::kDone;
}

}  // namespace

void AddCkptGc(CLI::App& ckpt, Session& session, Verb& verb) {
  CLI::App* command = ckpt.add_subcommand(
      "gc", "delete old checkpoints of jobs that have ended; the best and pinned ones stay");
  const auto flags = std::make_shared<GcFlags>();
  command->add_flag("--dry-run", flags->dry_run, "only list what would go");
  command->add_option("--keep", flags->keep, "verified ones that each job keeps, the newest")
      ->capture_default_str()
      ->check(CLI::Range(1u, 1'000'000u));
  command->add_option("--older-than", flags->older_than,
                      "only those made before: a time, or how long ago (720h)");
  command->add_option("--project", flags->project, "only of jobs of this project");
  command->add_option("--owner", flags->owner, "only of jobs of this user");
  command->add_flag("--yes", flags->yes, "delete without a question");
  command->callback(
      [flags, &session, &verb] { verb = [flags, &session] { return RunGc(*flags, session); }; });
}

}  // namespace muster::cli
