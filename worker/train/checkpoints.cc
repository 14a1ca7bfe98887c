#include "worker/train/checkpoints.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/deadline.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/ckpt/manifest.h"
#include "worker/checkpoint/restore.h"
#include "worker/train/rank_zero_work.h"
#include "worker/train/recipe/ema.h"
#include "worker/train/recipe/prune.h"
#include "worker/train/run/failure.h"
#include "worker/train/step/evaluate.h"
#include "worker/train/step/torch_guard.h"

namespace muster::worker {
namespace {

// How rank 0 tells the others what it found: a letter, then a text.
constexpr char kFresh = 'f';   // nothing to resume from
constexpr char kLoaded = 'l';  // state.json
constexpr char kOthers = 'o';  // likewise, of another job's checkpoint

// Of Settle.
constexpr char kHurried[] = "hurried";

// Bytes were read that do not match. What is not there, or cannot be read, may be so on this
// machine alone.
bool IsBroken(const absl::Status& status) { return absl::IsDataLoss(status); }

// What is there is not what this run can load, whatever the machine.
bool IsUnfit(const absl::Status& status) {
  return IsBroken(status) || absl::IsNotFound(status) || absl::IsFailedPrecondition(status);
}

absl::string_view ReadingFailureClass(const absl::Status& status) {
  return IsBroken(status) ? kCorruption : kCheckpointFailed;
}

NamedTensors OptimizerTensors(const Trainer& trainer) {
  NamedTensors tensors;
  const auto add = [&tensors](const auto& state) {
    for (const auto& entry : state) tensors.push_back({entry.name, entry.tensor});
  };
  add(trainer.optimizer->state());
  if (trainer.pruner != nullptr) add(trainer.pruner->state());
  return tensors;
}

VerifyProgress Telling(const OnProgress& on_progress) {
  return [&on_progress](uint64_t, uint64_t) {
    on_progress();
    return true;
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoints>> Checkpoints::Create(
    const Trainer& trainer, const CheckpointsServices& services, CheckpointsOptions options) {
  MUSTER_RETURN_IF_ERROR(Classify(CheckRoot(services.fs, options.holder), kStorageUnavailable));
  auto checkpoints =
      std::unique_ptr<Checkpoints>(new Checkpoints(trainer, services, std::move(options)));
  if (!checkpoints->model_state_.own.empty() || !checkpoints->optimizer_state_.own.empty()) {
    const CheckpointsOptions& own = checkpoints->options_;
    auto saver = Saver::Create(services.fs, services.publisher,
                               {own.root, own.job_id, own.job_name, own.attempt, own.generation,
                                own.nonce_seed, own.holder});
    if (!saver.ok()) {
      return checkpoints->ClassifyHere(saver.status(), kCheckpointFailed,
                                       absl::StrCat("checkpoint folder ", own.root));
    }
    checkpoints->saver_ = *std::move(saver);
  }
  return checkpoints;
}

Checkpoints::Checkpoints(const Trainer& trainer, const CheckpointsServices& services,
                         CheckpointsOptions options)
    : fs_(services.fs),
      publisher_(services.publisher),
      host_(services.host),
      gang_(trainer.gang),
      strategy_(*trainer.strategy),
      model_(trainer.model),
      options_(std::move(options)),
      model_state_(ToState(SavedTensors(trainer.model, trainer.ema))),
      optimizer_state_(ToState(OptimizerTensors(trainer))) {}

Checkpoints::State Checkpoints::ToState(NamedTensors tensors) const {
  State state;
  for (NamedTensor& entry : tensors) {
    state.all.push_back(entry.tensor);
    if (strategy_.Saves(entry.tensor)) state.own.push_back(std::move(entry));
  }
  return state;
}

absl::StatusOr<RunState> Checkpoints::Restore() {
  return TorchGuardOr([this] { return RestoreTogether(); });
}

absl::StatusOr<RunState> Checkpoints::RestoreTogether() {
  const absl::StatusOr<std::string> verdict = OnRankZero(
      gang_, [this](const OnProgress& on_progress) { return FindAndLoad(on_progress); },
      [this] { KeepAlive(); });
  if (!verdict.ok()) return verdict.status();
  const char found = verdict->front();
  if (found == kFresh) return RunState();

  auto decoded = DecodeRunState(absl::string_view(*verdict).substr(1));
  if (!decoded.ok()) return Classify(decoded.status(), kCorruption);
  const bool own = found != kOthers;
  if (!own) WarnOfOtherJob(decoded->identity);
  if (own && decoded->identity.data_fingerprint != options_.identity.data_fingerprint) {
    return Classify(
        absl::FailedPreconditionError(absl::StrCat(
            "the data changed since the checkpoint of step ", decoded->state.step,
            " was saved (was ", decoded->identity.data_fingerprint, ", is ",
            options_.identity.data_fingerprint, "): put the old data back, or submit a new job")),
        kDataError);
  }
  if (own && decoded->identity.teacher_fingerprint != options_.identity.teacher_fingerprint) {
    return Classify(
        absl::FailedPreconditionError(absl::StrCat(
            "train.distill.teacher: the file changed since the checkpoint of step ",
            decoded->state.step, " was saved: put the old one back, or submit a new job")),
        kDataError);
  }
  WarnOfChanges(decoded->identity);
  options_.identity.weights_fingerprint = decoded->identity.weights_fingerprint;
  strategy_.Restored(model_state_.all);
  strategy_.Restored(optimizer_state_.all);
  return decoded->state;
}

// What is read or written while the root is not to be seen says nothing of the checkpoints.
absl::Status Checkpoints::ClassifyHere(const absl::Status& status, absl::string_view failure_class,
                                       absl::string_view context) const {
  if (status.ok()) return status;
  const absl::Status seen = CheckRoot(fs_, options_.holder);
  if (!seen.ok()) return Classify(seen, kStorageUnavailable);
  return Classify(status, failure_class, context);
}

// Rank 0's part of Restore: the verdict in words.
absl::StatusOr<std::string> Checkpoints::FindAndLoad(const OnProgress& on_progress) {
  MUSTER_RETURN_IF_ERROR(Classify(CheckRoot(fs_, options_.holder), kStorageUnavailable));
  FindRequest request;
  request.root = options_.root;
  request.job_id = options_.job_id;
  request.job_name = options_.job_name;
  request.attempt = options_.attempt;
  request.registered = options_.candidates;
  request.on_bad = [this](const CheckpointCandidate& candidate, const absl::Status& status) {
    PassOver(candidate, status);
  };
  std::string state_json;
  request.progress = Telling(on_progress);
  request.usable = [this, &state_json, &on_progress](const FoundCheckpoint& found) {
    absl::Status loaded = Load(found, state_json, on_progress);
    if (absl::IsDataLoss(loaded)) {
      Log(LogLevel::kWarning, "checkpoint_unreadable",
          {{"path", found.path}, {"error", loaded.ToString()}});
    }
    return loaded;
  };
  auto found = FindCheckpoint(fs_, request);
  if (!found.ok()) {
    if (HasFailureClass(found.status())) return found.status();  // of one that is whole
    return ClassifyHere(found.status(), ReadingFailureClass(found.status()),
                        IsBroken(found.status()) ? "no checkpoint to resume from is whole"
                                                 : "no checkpoint to resume from can be read");
  }
  if (!found->has_value()) return std::string(1, kFresh);
  const FoundCheckpoint& checkpoint = **found;
  if (checkpoint.adopted) MUSTER_RETURN_IF_ERROR(Register(checkpoint, on_progress));
  const Manifest& manifest = checkpoint.checkpoint.manifest;
  Log(LogLevel::kInfo, "resumed",
      {{"path", checkpoint.path}, {"step", manifest.step}, {"job", manifest.job_id}});
  if (checkpoint.of_other_job) {
    MUSTER_ASSIGN_OR_RETURN(const std::string state, StateOfOtherJob(state_json));
    return std::string(1, kOthers) + state;
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string state, StateOfOwnJob(state_json, on_progress));
  return std::string(1, kLoaded) + state;
}

// Tells of one that was offered and cannot be used, unless that is the root's fault.
void Checkpoints::PassOver(const CheckpointCandidate& candidate, const absl::Status& status) {
  Log(LogLevel::kWarning, "checkpoint_passed_over",
      {{"path", candidate.path}, {"error", status.ToString()}});
  if (!CheckRoot(fs_, options_.holder).ok()) return;
  const std::string why(status.message());
  if (IsBroken(status)) {
    host_.CorruptCheckpoint(candidate.path, candidate.step, why);
  } else {
    host_.UnreadCheckpoint(candidate.path, candidate.step, why);
  }
}

// DATA_LOSS: another one may be readable. All else is what this run ends with, and has its class.
absl::Status Checkpoints::Load(const FoundCheckpoint& found, std::string& state_json,
                               const OnProgress& on_progress) {
  const auto load = [&]() -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(state_json, LoadStateJson(fs_, found.path));
    MUSTER_RETURN_IF_ERROR(DecodeRunState(state_json).status());
    MUSTER_RETURN_IF_ERROR(
        LoadTensors(fs_, found.path + "/" + kModelFile, model_state_.own, on_progress));
    return LoadTensors(fs_, found.path + "/" + kOptimizerFile, optimizer_state_.own, on_progress);
  };
  const absl::Status loaded = load();
  return loaded.ok() || absl::IsDataLoss(loaded) ? loaded : CannotLoad(found, loaded);
}

// The files are whole, but not what this run can go on from.
absl::Status Checkpoints::CannotLoad(const FoundCheckpoint& found,
                                     const absl::Status& status) const {
  if (!found.of_other_job) {
    return ClassifyHere(status, IsUnfit(status) ? kCorruption : kCheckpointFailed, found.path);
  }
  const Manifest& manifest = found.checkpoint.manifest;
  return Classify(status, IsUnfit(status) ? kDataError : kCheckpointFailed,
                  absl::StrCat("job ", options_.job_id, " (", options_.job_name,
                               ") cannot go on from the checkpoint of job ", manifest.job_id, " (",
                               manifest.job_name, ") of step ", manifest.step, ", ", found.path));
}

// What validation said there was said of another job, perhaps of other data, and its best
// checkpoint is not this job's to keep: this one chooses among its own.
absl::StatusOr<std::string> Checkpoints::StateOfOtherJob(const std::string& state_json) {
  MUSTER_ASSIGN_OR_RETURN(DecodedRunState decoded, DecodeRunState(state_json));
  const RunState fresh;
  RunState& state = decoded.state;
  state.validation_step = fresh.validation_step;
  state.validation_accuracy = fresh.validation_accuracy;
  state.validation_loss = fresh.validation_loss;
  state.validation_owed = fresh.validation_owed;
  state.best_step = fresh.best_step;
  state.best_accuracy = fresh.best_accuracy;
  state.best_loss = fresh.best_loss;
  state.rehearsed = fresh.rehearsed;
  return EncodeRunState(state, decoded.identity);
}

// Rank 0 decides for all whether what was rehearsed holds, for a rehearsal is a collective.
//
// The run's end loads the best checkpoint. When that one is broken, the run must choose again among
// what comes, or it would fail at its end each time: the best is then this state, if it was
// validated, else none yet. The controller hears of the broken one; it may be good elsewhere.
absl::StatusOr<std::string> Checkpoints::StateOfOwnJob(const std::string& state_json,
                                                       const OnProgress& on_progress) {
  auto decoded = DecodeRunState(state_json);
  if (!decoded.ok()) return Classify(decoded.status(), kCorruption);
  RunState& state = decoded->state;
  if (!SameMemory(decoded->identity, options_.identity)) state.rehearsed = {};
  const std::string as_it_is = EncodeRunState(state, decoded->identity);
  if (state.best_step < 0 || state.best_step == state.step) return as_it_is;
  const absl::Status usable = BestPath(state.best_step, on_progress).status();
  if (!IsUnfit(usable)) return as_it_is;
  // If the root itself cannot be seen, the best checkpoint is not lost: fail as
  // STORAGE_UNAVAILABLE.
  MUSTER_RETURN_IF_ERROR(Classify(CheckRoot(fs_, options_.holder), kStorageUnavailable));
  const CheckpointCandidate* offered = OwnCandidate(state.best_step);
  if (offered != nullptr) PassOver(*offered, usable);
  Log(LogLevel::kWarning, "best_checkpoint_lost",
      {{"step", state.best_step}, {"error", usable.ToString()}});
  const bool validated = state.validation_step == state.step && !std::isnan(state.validation_loss);
  state.best_step = validated ? state.step : -1;
  state.best_accuracy = validated ? state.validation_accuracy : 0;
  state.best_loss = validated ? state.validation_loss : 0;
  return EncodeRunState(state, decoded->identity);
}

// A whole checkpoint whose writer died before the controller knew of it.
absl::Status Checkpoints::Register(const FoundCheckpoint& found, const OnProgress& on_progress) {
  const Manifest& manifest = found.checkpoint.manifest;
  CheckpointNews news;
  news.step = manifest.step;
  news.epoch = manifest.epoch;
  news.path = found.path;
  news.manifest_sha256 = found.checkpoint.manifest_sha256;
  news.bytes = manifest.TotalBytes();
  news.best = manifest.best;
  news.metrics = manifest.metrics;
  // The controller may have no room on its disk for minutes.
  const absl::Status committed =
      WaitAlive(on_progress, [&] { return publisher_.AwaitCommitted(news); });
  MUSTER_RETURN_IF_ERROR(
      Classify(committed, kCheckpointFailed, absl::StrCat("registering ", found.path)));
  published_.push_back(std::move(news));
  return absl::OkStatus();
}

absl::Status Checkpoints::Save(const RunState& state, bool best, bool urgent) {
  return TorchGuard([&] {
    ShareBuffers(model_, gang_);
    if (saver_ != nullptr) saver_->Save(RequestOf(state, best, urgent));
    Poll();
    return absl::OkStatus();
  });
}

SaveRequest Checkpoints::RequestOf(const RunState& state, bool best, bool urgent) const {
  SaveRequest request;
  request.step = state.step;
  request.epoch = state.epoch;
  request.best = best;
  request.urgent = urgent;
  if (state.validation_step == state.step) {
    request.metrics = {{"validation_loss", state.validation_loss}};
    if (options_.has_accuracy) request.metrics["validation_accuracy"] = state.validation_accuracy;
  }
  request.model = &model_state_.own;
  request.optimizer = &optimizer_state_.own;
  request.state_json = EncodeRunState(state, options_.identity);
  request.check = [this] { gang_.Check(); };
  return request;
}

void Checkpoints::Poll() {
  if (saver_ == nullptr) return;
  for (SaveOutcome& outcome : saver_->TakeOutcomes()) {
    newest_outcome_ = outcome.status;
    if (outcome.status.ok()) {
      Log(LogLevel::kInfo, "checkpoint_committed",
          {{"step", outcome.news.step},
           {"path", outcome.news.path},
           {"bytes", outcome.news.bytes},
           {"copy_seconds", absl::ToDoubleSeconds(outcome.copy_time)},
           {"write_seconds", absl::ToDoubleSeconds(outcome.write_time)}});
      published_.push_back(std::move(outcome.news));
    } else if (absl::IsAborted(outcome.status)) {
      Log(LogLevel::kInfo, "checkpoint_given_up",
          {{"step", outcome.news.step}, {"reason", outcome.status.message()}});
    } else {
      Log(LogLevel::kError, "checkpoint_failed",
          {{"step", outcome.news.step}, {"error", outcome.status.ToString()}});
    }
  }
}

absl::StatusOr<bool> Checkpoints::Drain(absl::Duration timeout) {
  return TorchGuardOr([&]() -> absl::StatusOr<bool> {
    // What is not settled by then, or failed, is Finish's to judge.
    const absl::StatusOr<std::string> settled = Settle(timeout, /*may_hurry=*/true);
    return !settled.ok() || *settled != kHurried;
  });
}

absl::Status Checkpoints::Finish(absl::Duration timeout) {
  return TorchGuard([&] { return Settle(timeout, /*may_hurry=*/false).status(); });
}

// The same on every rank: how the newest save ended, or that rank 0 was asked to leave.
absl::StatusOr<std::string> Checkpoints::Settle(absl::Duration timeout, bool may_hurry) {
  const Deadline deadline(timeout);
  const auto look = [&](absl::Duration turn) -> std::optional<absl::StatusOr<std::string>> {
    MUSTER_CHECK(saver_ != nullptr, "rank 0 of these checkpoints is not that which made them");
    const absl::Status flushed = saver_->Flush(std::min(turn, deadline.left()));
    Poll();
    if (flushed.ok() && newest_outcome_.ok()) return "";
    if (flushed.ok()) {
      return ClassifyHere(newest_outcome_, kCheckpointFailed,
                          "the last checkpoint could not be saved");
    }
    if (may_hurry && host_.requested_stop().stop) return kHurried;
    if (!deadline.over()) return std::nullopt;
    return ClassifyHere(flushed, kCheckpointFailed,
                        "the last checkpoint was not committed in time");
  };
  return DoInTurns(gang_, look, [this] { KeepAlive(); });
}

void Checkpoints::KeepAlive() { host_.KeepAlive(); }

absl::Status Checkpoints::LoadBest(const RunState& state) {
  const auto load = [&](const OnProgress& on_progress) -> absl::StatusOr<std::string> {
    const auto path = BestPath(state.best_step, on_progress);
    const absl::Status loaded =
        path.ok() ? LoadTensors(fs_, *path + "/" + kModelFile, model_state_.own, on_progress)
                  : path.status();
    MUSTER_RETURN_IF_ERROR(ClassifyHere(
        loaded, kCheckpointFailed, absl::StrCat("the best checkpoint, of step ", state.best_step)));
    return "";
  };
  return TorchGuard([&]() -> absl::Status {
    MUSTER_RETURN_IF_ERROR(OnRankZero(gang_, load, [this] { KeepAlive(); }).status());
    strategy_.Restored(model_state_.all);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::string> Checkpoints::BestPath(int64_t step,
                                                  const OnProgress& on_progress) const {
  const auto own = std::find_if(published_.rbegin(), published_.rend(),
                                [step](const CheckpointNews& news) { return news.step == step; });
  if (own != published_.rend()) return own->path;
  const CheckpointCandidate* offered = OwnCandidate(step);
  if (offered == nullptr) return absl::NotFoundError("is not among the committed ones");
  // Of an earlier attempt: reread it before its weights are believed.
  MUSTER_RETURN_IF_ERROR(
      VerifyCheckpoint(fs_, offered->path, offered->manifest_sha256, Telling(on_progress)));
  return offered->path;
}

// Null: the controller offered none of that step.
const CheckpointCandidate* Checkpoints::OwnCandidate(int64_t step) const {
  for (const CheckpointCandidate& candidate : options_.candidates) {
    if (candidate.step == step && candidate.job_id == 0) return &candidate;
  }
  return nullptr;
}

void Checkpoints::WarnOfChanges(const RunIdentity& saved) const {
  const RunIdentity& now = options_.identity;
  const std::vector<std::string> changes = ChangesOfBits(saved, now);
  if (changes.empty()) return;
  Log(LogLevel::kWarning, "resume_not_bit_exact",
      {{"changed", absl::StrJoin(changes, ",")},
       {"saved_over", saved.transport},
       {"resumed_over", now.transport}});
}

void Checkpoints::WarnOfOtherJob(const RunIdentity& saved) const {
  const RunIdentity& now = options_.identity;
  std::vector<std::string> changes = ChangedRecipe(saved.spec_json, now.spec_json);
  if (saved.data_fingerprint != now.data_fingerprint) changes.push_back("data_fingerprint");
  if (saved.teacher_fingerprint != now.teacher_fingerprint)
    changes.push_back("teacher_fingerprint");
  if (changes.empty()) return;
  Log(LogLevel::kWarning, "other_jobs_recipe_differs", {{"changed", absl::StrJoin(changes, ",")}});
}

}  // namespace muster::worker
