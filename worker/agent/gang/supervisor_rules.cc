#include "worker/agent/gang/supervisor_rules.h"

#include <string.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/base/utf8.h"
#include "common/protocol/value_name.h"
#include "nlohmann/json.hpp"

namespace muster::worker {
namespace {

using nlohmann::json;

constexpr uint32_t kMostPerRank = 4096;

const json* Member(const json& object, const char* outer, const char* inner) {
  const auto section = object.find(outer);
  if (section == object.end() || !section->is_object()) return nullptr;
  const auto value = section->find(inner);
  return value == section->end() ? nullptr : &*value;
}

absl::Status BadSpec(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("resolved spec: ", what));
}

int Harshness(v1::StopRanks::Mode mode) {
  switch (mode) {
    case v1::StopRanks::KILL:
      return 3;
    case v1::StopRanks::TERM:
      return 2;
    default:
      return 1;
  }
}

std::string DescribeEnd(const ExitFacts& facts) {
  if (facts.signal != 0) {
    return absl::StrCat("killed by signal ", facts.signal, " (", ::strsignal(facts.signal), ")");
  }
  return absl::StrCat("exited with code ", facts.exit_code);
}

v1::FailureClass ClassOf(const ResultLine& result) {
  v1::FailureClass named = v1::FAILURE_CLASS_UNSPECIFIED;
  const bool known = v1::FailureClass_Parse(result.failure_class, &named);
  return known && named != v1::FAILURE_CLASS_UNSPECIFIED ? named : v1::APPLICATION;
}

void SetFailure(v1::RankEvent& event, v1::FailureClass failure_class, std::string message) {
  event.set_failure_class(failure_class);
  event.set_message(std::move(message));
}

// Each is optional: a spec of an older controller has none of them.
absl::Status ReadPerRank(const json& spec, SpecSettings& settings) {
  const std::pair<const char*, uint32_t*> kCounts[] = {{"gpus", &settings.gpus},
                                                       {"cpus", &settings.cpus}};
  for (const auto& [name, out] : kCounts) {
    const json* value = Member(spec, "per_rank", name);
    if (value == nullptr) continue;
    if (!value->is_number_unsigned() || value->get<uint64_t>() > kMostPerRank) {
      return BadSpec(absl::StrCat("per_rank.", name, " is not a number up to ", kMostPerRank));
    }
    *out = static_cast<uint32_t>(value->get<uint64_t>());
  }
  if (const json* type = Member(spec, "per_rank", "gpu_type"); type != nullptr) {
    if (!type->is_string()) return BadSpec("per_rank.gpu_type is not a text");
    settings.gpu_type = type->get<std::string>();
  }
  const json* memory = Member(spec, "per_rank", "memory");
  if (memory == nullptr) return absl::OkStatus();
  const auto bytes = memory->is_string()
                         ? ParseBytes(memory->get_ref<const std::string&>())
                         : absl::StatusOr<uint64_t>(absl::InvalidArgumentError("not a text"));
  if (!bytes.ok()) return BadSpec(absl::StrCat("per_rank.memory: ", bytes.status().message()));
  settings.memory_bytes = *bytes;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SpecSettings> ReadSpecSettings(absl::string_view spec_json) {
  const json spec = json::parse(spec_json.begin(), spec_json.end(), nullptr, false);
  if (spec.is_discarded() || !spec.is_object()) return BadSpec("not a JSON object");
  SpecSettings settings;
  MUSTER_ASSIGN_OR_RETURN(settings.command, ReadCommandSettings(spec));
  if (!settings.command.has_value()) {
    const json* threads = Member(spec, "train", "threads_per_rank");
    if (threads == nullptr || !threads->is_number_unsigned() || threads->get<uint64_t>() == 0 ||
        threads->get<uint64_t>() > 4096) {
      return BadSpec("train.threads_per_rank is missing or not between 1 and 4096");
    }
    settings.threads_per_rank = static_cast<uint32_t>(threads->get<uint64_t>());
  }
  const json* timeout = Member(spec, "restart", "controller_lost_timeout");
  if (timeout == nullptr || !timeout->is_string()) {
    return BadSpec("restart.controller_lost_timeout is missing or not a text");
  }
  const auto duration = ParseDuration(timeout->get_ref<const std::string&>());
  if (!duration.ok()) {
    return BadSpec(absl::StrCat("restart.controller_lost_timeout: ", duration.status().message()));
  }
  settings.controller_lost_timeout = *duration;
  MUSTER_RETURN_IF_ERROR(ReadPerRank(spec, settings));
  return settings;
}

const absl::StatusOr<SpecSettings>& SpecReader::Read(const std::string& spec_json) {
  if (spec_json.empty() || spec_json != spec_json_) {
    settings_ = ReadSpecSettings(spec_json);
    spec_json_ = spec_json;
  }
  return settings_;
}

void AttemptFences::RaiseTo(uint64_t job_id, uint32_t attempt) {
  uint32_t& lowest = lowest_[job_id];
  lowest = std::max(lowest, attempt);
  if (lowest_.size() > kMaxJobs) lowest_.erase(lowest_.begin());
}

bool AttemptFences::Allows(uint64_t job_id, uint32_t attempt) const {
  const auto it = lowest_.find(job_id);
  return it == lowest_.end() || attempt >= it->second;
}

absl::StatusOr<SpecSettings> CheckStart(const v1::StartRanks& start, const StartContext& context,
                                        const AttemptFences& fences, SpecReader& specs) {
  const v1::Fence& fence = start.fence();
  const std::string job = absl::StrCat("job ", fence.job_id(), " attempt ", fence.attempt());
  if (context.draining)
    return absl::UnavailableError(
        absl::StrCat(job, ": this worker is stopping, or its machine goes away"));
  if (fence.job_id() == 0 || fence.attempt() == 0 || start.ranks().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(job, ": the assignment names no job or no ranks"));
  }
  if (fence.term() > context.session_term) {
    return absl::InvalidArgumentError(absl::StrCat(job, ": issued in term ", fence.term(),
                                                   ", but this controller's is ",
                                                   context.session_term));
  }
  if (!fences.Allows(fence.job_id(), fence.attempt())) {
    return absl::AbortedError(
        absl::StrCat(job, ": a newer attempt was here, or this one was stopped"));
  }
  std::set<uint32_t> wanted;
  std::set<uint32_t> ranks;
  for (const v1::StartRanks::Rank& rank : start.ranks()) {
    if (rank.rank() >= start.world_size() || !ranks.insert(rank.rank()).second ||
        rank.slots().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(job, ": rank ", rank.rank(),
                       " is there twice, has no slot, or is outside of ", start.world_size()));
    }
    for (const uint32_t slot : rank.slots()) {
      if (!context.slots.contains(slot)) {
        return absl::FailedPreconditionError(absl::StrCat(job, ": this worker has no slot ", slot));
      }
      if (context.busy_slots.contains(slot) || !wanted.insert(slot).second) {
        return absl::FailedPreconditionError(
            absl::StrCat(job, ": slot ", slot, " is held by another rank"));
      }
    }
  }
  MUSTER_ASSIGN_OR_RETURN(SpecSettings settings, specs.Read(start.spec_json()));
  if (settings.command.has_value() && !context.allow_commands) {
    return absl::PermissionDeniedError(absl::StrCat(
        job, ": this worker runs no commands; it was started without --allow-commands"));
  }
  if (settings.command.has_value() && !settings.command->image.empty() &&
      !context.runtimes.Runs(settings.command->image)) {
    return absl::FailedPreconditionError(
        absl::StrCat(job, ": this worker has no container runtime for ", settings.command->image));
  }
  return settings;
}

const v1::Slot* FindSlot(const std::vector<v1::Slot>& slots, uint32_t index) {
  for (const v1::Slot& slot : slots) {
    if (slot.index() == index) return &slot;
  }
  return nullptr;
}

absl::Status CheckDevices(const v1::StartRanks& start, const SpecSettings& settings,
                          const std::vector<v1::Slot>& slots) {
  if (settings.gpus == 0) return absl::OkStatus();
  const std::string wanted = absl::AsciiStrToLower(settings.gpu_type);
  for (const v1::StartRanks::Rank& rank : start.ranks()) {
    uint32_t gpus = 0;
    for (const v1::Slot& slot : slots) {
      const bool given =
          std::find(rank.slots().begin(), rank.slots().end(), slot.index()) != rank.slots().end();
      if (!given || slot.kind() != v1::GPU) continue;
      ++gpus;
      if (!absl::StrContains(absl::AsciiStrToLower(slot.device()), wanted)) {
        return absl::FailedPreconditionError(
            absl::StrCat("job ", start.fence().job_id(), ": rank ", rank.rank(), " wants a GPU `",
                         settings.gpu_type, "`, but slot ", slot.index(), " is ", slot.device()));
      }
    }
    if (gpus != settings.gpus) {
      return absl::FailedPreconditionError(absl::StrCat("job ", start.fence().job_id(), ": rank ",
                                                        rank.rank(), " wants ", settings.gpus,
                                                        " GPUs, but was given ", gpus, " here"));
    }
  }
  return absl::OkStatus();
}

namespace {

// The step, or number of steps, that the line names and that is furthest out of range; 0: none.
int64_t StepOf(const RankLine& line) {
  if (const auto* metrics = std::get_if<MetricsLine>(&line)) return metrics->step;
  if (const auto* checkpoint = std::get_if<CheckpointLine>(&line)) return checkpoint->step;
  if (const auto* progress = std::get_if<ProgressLine>(&line)) {
    return progress->total_steps < 0 || progress->total_steps > kMaxStep ? progress->total_steps
                                                                         : progress->step;
  }
  return 0;
}

absl::Status CheckValues(const std::map<std::string, double>& values, absl::string_view line) {
  if (values.size() > kMaxValuesPerLine) {
    return absl::InvalidArgumentError(absl::StrCat(line, ": too many values: ", values.size(),
                                                   " of at most ", kMaxValuesPerLine));
  }
  for (const auto& [name, value] : values) {
    if (IsValueName(name)) continue;
    const std::string shown = absl::CEscape(CutUtf8(name, kMaxValueNameBytes));
    return absl::InvalidArgumentError(
        absl::StrCat(line, ": '", shown, "' is no name of a value: 1 to ", kMaxValueNameBytes,
                     " bytes of UTF-8 without control characters"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRankLine(const RankLine& line) {
  const auto bad = [](absl::string_view what) { return absl::InvalidArgumentError(what); };
  const int64_t step = StepOf(line);
  if (step < 0 || step > kMaxStep) {
    return bad(absl::StrCat("'step': ", step, " is not from 0 to ", kMaxStep));
  }
  if (const auto* metrics = std::get_if<MetricsLine>(&line)) {
    if (metrics->seq == 0) return bad("metrics line: 'seq' is missing or 0; it starts at 1");
    if (metrics->lost >= metrics->seq)
      return bad("metrics line: 'lost': more lines are said to be lost than there were");
    MUSTER_RETURN_IF_ERROR(CheckValues(metrics->values, "metrics line"));
  } else if (const auto* progress = std::get_if<ProgressLine>(&line)) {
    if (progress->phase.size() > kMaxPhaseBytes) return bad("progress line: the phase is too long");
    if (std::any_of(progress->phase.begin(), progress->phase.end(), absl::ascii_iscntrl))
      return bad("progress line: the phase holds a control character");
  } else if (const auto* checkpoint = std::get_if<CheckpointLine>(&line)) {
    if (checkpoint->path.size() > kMaxPathBytes)
      return bad("checkpoint line: the path is too long");
    if (checkpoint->manifest_sha256.size() > 64) return bad("checkpoint line: not a SHA-256");
    MUSTER_RETURN_IF_ERROR(CheckValues(checkpoint->metrics, "checkpoint line"));
  } else if (const auto* store = std::get_if<StoreLine>(&line)) {
    if (store->keys.size() > kMaxStoreKeys) return bad("store line: too many keys");
  } else if (const auto* memory = std::get_if<MemoryLine>(&line)) {
    if (memory->need.size() > kMaxMemoryNeedBytes) return bad("memory line: the text is too long");
  } else if (const auto* result = std::get_if<ResultLine>(&line)) {
    MUSTER_RETURN_IF_ERROR(CheckValues(result->results, "result line"));
  }
  return absl::OkStatus();
}

StopStep NextStopStep(const StopRequest& request, absl::Duration elapsed, StopAction last_taken) {
  const bool save = request.mode == v1::StopRanks::SAVE;
  const bool kill = request.mode == v1::StopRanks::KILL;
  const absl::Duration term_at = save ? request.grace : absl::ZeroDuration();
  const absl::Duration kill_at = kill   ? absl::ZeroDuration()
                                 : save ? request.grace + kTermGraceAfterSave
                                        : request.grace;
  if (elapsed >= kill_at) return {StopAction::kKill, absl::InfiniteDuration()};
  if (elapsed >= term_at) {
    const bool taken = last_taken == StopAction::kTerminate;
    return {taken ? StopAction::kWait : StopAction::kTerminate, kill_at - elapsed};
  }
  const bool asked = last_taken != StopAction::kWait;
  return {asked ? StopAction::kWait : StopAction::kAskToSave, term_at - elapsed};
}

bool IsHarsher(const StopRequest& next, const StopRequest& current) {
  return Harshness(next.mode) > Harshness(current.mode);
}

namespace {

// A program that knows nothing of Muster says by its exit code how it went; one that reported a
// failure says more.
void ClassifyCommand(const ExitFacts& facts, v1::RankEvent& event) {
  const bool exited_well = facts.signal == 0 && facts.exit_code == 0;
  const bool said_failed = facts.result.has_value() && !facts.result->succeeded &&
                           !facts.result->stopped && !facts.result->failure_class.empty();
  const bool said_succeeded = facts.result.has_value() && facts.result->succeeded;
  if (exited_well && !said_failed && (said_succeeded || !facts.stop.has_value())) {
    event.set_succeeded(true);
    return;
  }
  if (facts.stop.has_value() && !(said_failed && facts.result_before_stop)) {
    event.set_stopped(true);
    event.set_message(facts.stop->reason);
    return;
  }
  if (said_failed) {
    const std::string& said = facts.result->message;
    return SetFailure(event, ClassOf(*facts.result), said.empty() ? DescribeEnd(facts) : said);
  }
  SetFailure(event, facts.signal != 0 ? v1::RANK_KILLED : v1::APPLICATION, DescribeEnd(facts));
}

}  // namespace

void ClassifyExit(const ExitFacts& facts, v1::RankEvent& event) {
  event.set_exit_code(facts.exit_code);
  event.set_signal(facts.signal);
  if (facts.result.has_value()) {
    for (const auto& [name, value] : facts.result->results)
      (*event.mutable_results())[name] = value;
  }
  if (!facts.start_error.ok()) {
    event.set_missing(MissingOf(facts.start_error));
    const bool storage = IsStorageUnavailable(facts.start_error);
    return SetFailure(event, storage ? v1::STORAGE_UNAVAILABLE : v1::START_FAILED,
                      std::string(facts.start_error.message()));
  }
  if (!facts.over_memory.empty() && (facts.signal != 0 || facts.exit_code != 0)) {
    return SetFailure(event, v1::OUT_OF_MEMORY, facts.over_memory);
  }
  if (facts.is_command) return ClassifyCommand(facts, event);
  const bool exited_well = facts.signal == 0 && facts.exit_code == 0;
  if (facts.result.has_value() && facts.result->succeeded && exited_well) {
    event.set_succeeded(true);
    return;
  }
  if (!facts.broken_link.empty()) return SetFailure(event, v1::APPLICATION, facts.broken_link);
  const bool failed_on_its_own =
      facts.result.has_value() && !facts.result->succeeded && !facts.result->stopped;
  if (facts.stop.has_value() && !(failed_on_its_own && facts.result_before_stop)) {
    const bool saved = facts.result.has_value() && facts.result->stopped && exited_well;
    event.set_stopped(facts.stop->mode != v1::StopRanks::SAVE || saved);
    if (event.stopped()) {
      event.set_message(facts.stop->reason);
      return;
    }
    return SetFailure(
        event, v1::PREEMPTED,
        absl::StrCat("left without saving (", DescribeEnd(facts), "): ", facts.stop->reason));
  }
  if (failed_on_its_own) {
    const std::string& said = facts.result->message;
    return SetFailure(event, ClassOf(*facts.result), said.empty() ? DescribeEnd(facts) : said);
  }
  if (facts.result.has_value() && exited_well) {
    return SetFailure(event, v1::PREEMPTED, "it was told to stop by someone outside of Muster");
  }
  if (facts.signal != 0) return SetFailure(event, v1::RANK_KILLED, DescribeEnd(facts));
  SetFailure(event, v1::APPLICATION,
             absl::StrCat(DescribeEnd(facts), " without reporting a result"));
}

bool FirstStep::Seen(const RankLine& line) {
  if (std::holds_alternative<MetricsLine>(line)) seen_ = true;
  if (const auto* progress = std::get_if<ProgressLine>(&line)) {
    if (progress->phase == "train") {
      if (!first_train_step_.has_value()) first_train_step_ = progress->step;
      if (progress->step > *first_train_step_) seen_ = true;
    } else if (progress->phase == "evaluate" || progress->phase == "done") {
      seen_ = true;
    }
  }
  return seen_;
}

}  // namespace muster::worker
