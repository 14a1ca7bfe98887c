#include "cli/submission/submit_flags.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/submission/command_job.h"
#include "cli/submission/priority.h"
#include "cli/submission/when.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

class Overrides {
 public:
  explicit Overrides(std::vector<std::string> first) : all_(std::move(first)) {}

  // The value as YAML reads it.
  void Add(absl::string_view path, absl::string_view value) {
    all_.push_back(absl::StrCat(path, "=", value));
  }
  void AddIf(absl::string_view path, const std::optional<std::string>& value) {
    if (value.has_value()) Add(path, *value);
  }
  void AddText(absl::string_view path, absl::string_view text) { Add(path, QuoteText(text)); }
  void AddTexts(absl::string_view path, const std::vector<std::string>& texts) {
    const auto quote = [](std::string* out, const std::string& text) {
      absl::StrAppend(out, QuoteText(absl::StripAsciiWhitespace(text)));
    };
    Add(path, absl::StrCat("[", absl::StrJoin(texts, ", ", quote), "]"));
  }
  // NAME=VALUE texts into a mapping.
  void AddPairs(absl::string_view path, const std::vector<std::string>& pairs) {
    for (const std::string& pair : pairs) {
      const size_t equals = pair.find('=');
      AddText(absl::StrCat(path, ".", pair.substr(0, equals)), pair.substr(equals + 1));
    }
  }

  std::vector<std::string> Take() { return std::move(all_); }

 private:
  std::vector<std::string> all_;
};

// One pool is `placement.pool`, several are `placement.pools`; either replaces the other.
void AddPools(const std::string& pools, Overrides& out) {
  const bool one = pools.find(',') == std::string::npos && !absl::StrContains(pools, " after ");
  out.Add(one ? "placement.pools" : "placement.pool", "null");
  if (one) {
    out.AddText("placement.pool", pools);
  } else {
    out.AddTexts("placement.pools", absl::StrSplit(pools, ','));
  }
}

// N or MIN:MAX, as the spec has it.
std::string RanksValue(absl::string_view ranks) {
  const size_t colon = ranks.find(':');
  if (colon == absl::string_view::npos) return std::string(ranks);
  return absl::StrCat("{min: ", ranks.substr(0, colon), ", max: ", ranks.substr(colon + 1), "}");
}

// `--set ranks=1:3` is taken as `--ranks 1:3` is. What is YAML of its own is left as it is.
std::vector<std::string> WithRanksAsSpec(std::vector<std::string> sets) {
  constexpr absl::string_view kRanks = "ranks=";
  for (std::string& set : sets) {
    absl::string_view value = set;
    if (!absl::ConsumePrefix(&value, kRanks) || absl::StrContains(value, "{")) continue;
    set = absl::StrCat(kRanks, RanksValue(value));
  }
  return sets;
}

absl::Status AddPriority(const std::string& text, Overrides& out) {
  MUSTER_ASSIGN_OR_RETURN(const PriorityText priority, ParsePriority(text));
  if (!priority.priority_class.empty()) {
    out.Add("scheduling.priority_class", priority.priority_class);
  }
  if (priority.number.has_value()) {
    out.Add("scheduling.priority", absl::StrCat(*priority.number));
  }
  return absl::OkStatus();
}

// `500steps`, `2epochs` or `5m`; the other ways of counting are off then.
absl::Status AddCheckpointEvery(absl::string_view text, Overrides& out) {
  absl::string_view number = text;
  const bool steps = absl::ConsumeSuffix(&number, "steps");
  const bool epochs = !steps && absl::ConsumeSuffix(&number, "epochs");
  const bool counted = steps || epochs;
  uint64_t count = 0;
  if (counted ? !absl::SimpleAtoi(number, &count) : !ParseDuration(text).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ckpt-every: must be such as 500steps, 2epochs or 5m; got '", text, "'"));
  }
  out.Add("checkpoint.every_steps", absl::StrCat(steps ? count : 0));
  out.Add("checkpoint.every_epochs", absl::StrCat(epochs ? count : 0));
  out.Add("checkpoint.every", counted ? "0s" : text);
  return absl::OkStatus();
}

absl::Status AddTime(const char* path, const std::optional<std::string>& text, absl::Time now,
                     Overrides& out) {
  if (!text.has_value()) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(const std::string time, ParseWhen(*text, now));
  out.AddText(path, time);
  return absl::OkStatus();
}

std::string CheckPair(const std::string& text) {
  const bool pair = text.find('=') != std::string::npos && text.front() != '=';
  return pair ? std::string() : "must be NAME=VALUE";
}

std::string CheckKey(const std::string& key) {
  constexpr size_t kMaxKeyBytes = 128;
  return key.empty() || key.size() > kMaxKeyBytes ? "must have 1 to 128 bytes" : std::string();
}

void AddPlacementFlags(CLI::App& command, SubmitFlags& flags) {
  command.add_option("--pool", flags.pool,
                     "where to run, in order of preference: spot,'ondemand after 10m'");
  command.add_option("--exclude", flags.exclude, "workers that it must not run on")
      ->allow_extra_args(false)
      ->delimiter(',');
  command.add_option("--ranks", flags.ranks, "N or MIN:MAX, short for --set ranks=");
  command.add_option("--gpus", flags.gpus, "GPUs of each rank");
  command.add_option("--gpu-type", flags.gpu_type, "only GPUs of this model, such as H100");
  command.add_option("--cpus", flags.cpus, "CPUs of each rank");
  command.add_option("--memory", flags.memory, "memory of each rank, such as 16GiB");
}

void AddProgramFlags(CLI::App& command, SubmitFlags& flags) {
  command.add_option("--workdir", flags.workdir,
                     "where a program runs, as the worker sees it (default: this folder)");
  command.add_option("--upload", flags.upload,
                     "a folder of this machine, up to 64 MiB, that the program runs in wherever "
                     "that is; --workdir is then a folder in it");
  command.add_option("--image", flags.image,
                     "the container image that the program runs in, on workers with podman or "
                     "apptainer; --workdir is then a folder inside");
  command.add_option("--env", flags.env, "NAME=VALUE for a program (repeatable)")
      ->allow_extra_args(false)
      ->check(CheckPair);
}

}  // namespace

void AddJobFlags(CLI::App& command, SubmitFlags& flags) {
  command
      .add_option("--set", flags.sets,
                  "PATH=VALUE, over what the file says: train.optimizer.lr=0.1 (repeatable)")
      ->allow_extra_args(false);
  command.add_option("--name", flags.name, "short for --set name=");
  command.add_option("--project", flags.project, "short for --set project=");
  command.add_option("--tag", flags.tags, "NAME=VALUE, for `muster ls --tag` (repeatable)")
      ->allow_extra_args(false)
      ->check(CheckPair);
  AddPlacementFlags(command, flags);
  command.add_option("--priority", flags.priority,
                     "-999 to 999, low, normal, high or urgent, or both: high+5");
  command.add_option("--deadline", flags.deadline,
                     "when it must have ended: 2026-11-22T10:00:00Z, or now+2h");
  command.add_option("--max-run-time", flags.max_run_time,
                     "save and end it after so long, over all attempts: 2h30m");
  AddProgramFlags(command, flags);
  command
      .add_option("--idempotency-key", flags.key,
                  "a repeated submit with the same key is the same job (default: random)")
      ->check(CheckKey);
}

void AddSubmitFlags(CLI::App& command, SubmitFlags& flags) {
  command.add_option("-f,--file,FILE", flags.file, "the job in YAML or JSON; - is stdin");
  AddJobFlags(command, flags);
  command.add_option("--begin", flags.begin, "not before: 2026-11-22T10:00:00Z, or now+2h");
  command
      .add_option("--after", flags.after,
                  "wait for JOB (42, 42_7 of an array, or a name) to succeed; JOB:fail to fail, "
                  "JOB:any to end (repeatable)")
      ->allow_extra_args(false)
      ->delimiter(',');
  command.add_option("--array", flags.array, "so many jobs in one: 1-20, or 1-20%4, 4 at a time");
  command.add_flag("--hold", flags.hold, "queue it, but let it start only after `muster release`");
  command.add_option("--ckpt-every", flags.checkpoint_every, "save every 500steps, 2epochs or 5m");
  command.add_option(
      "--resume-from", flags.resume_from,
      "begin from a checkpoint of another job: JOB (its newest), JOB@STEP, JOB@best, "
      "JOB@newest, or auto (the newest job of the same name that has one)");
  command.add_flag("--check", flags.check,
                   "first `muster check` it on this machine, and submit it only if that passes");
  command.add_flag("--dry-run", flags.dry_run,
                   "check all of it, say where it would run, print the resolved spec");
  command.add_flag("--wait", flags.wait, "stay until it has ended; its exit code as of `wait`");
  command.add_flag("--watch", flags.watch, "stay and show it live; its exit code as of `wait`");
}

absl::StatusOr<std::vector<std::string>> SpecOverrides(const SubmitFlags& flags, absl::Time now) {
  Overrides out(WithRanksAsSpec(flags.sets));
  out.AddIf("name", flags.name);
  out.AddIf("project", flags.project);
  out.AddPairs("tags", flags.tags);
  if (flags.pool.has_value()) AddPools(*flags.pool, out);
  if (!flags.exclude.empty()) out.AddTexts("placement.exclude", flags.exclude);
  out.AddIf("per_rank.gpus", flags.gpus);
  if (flags.gpu_type.has_value()) out.AddText("per_rank.gpu_type", *flags.gpu_type);
  out.AddIf("per_rank.cpus", flags.cpus);
  if (flags.memory.has_value()) out.AddText("per_rank.memory", *flags.memory);
  if (flags.ranks.has_value()) out.Add("ranks", RanksValue(*flags.ranks));
  if (flags.priority.has_value()) MUSTER_RETURN_IF_ERROR(AddPriority(*flags.priority, out));
  MUSTER_RETURN_IF_ERROR(AddTime("scheduling.begin", flags.begin, now, out));
  MUSTER_RETURN_IF_ERROR(AddTime("scheduling.deadline", flags.deadline, now, out));
  out.AddIf("scheduling.max_run_time", flags.max_run_time);
  if (!flags.after.empty()) out.AddTexts("scheduling.after", flags.after);
  if (flags.array.has_value()) out.AddText("scheduling.array", *flags.array);
  if (flags.hold) out.Add("scheduling.hold", "true");
  if (flags.checkpoint_every.has_value()) {
    MUSTER_RETURN_IF_ERROR(AddCheckpointEvery(*flags.checkpoint_every, out));
  }
  if (flags.resume_from.has_value()) out.AddText("checkpoint.resume_from", *flags.resume_from);
  if (flags.workdir.has_value()) out.AddText("command.workdir", *flags.workdir);
  if (flags.image.has_value()) out.AddText("command.image", *flags.image);
  out.AddPairs("command.env", flags.env);
  return out.Take();
}

}  // namespace muster::cli
