#include "tests/worker/train/training_run.h"

#include "common/base/check.h"
#include "common/fs/file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/dist/gang.h"
#include "worker/data/base/dataset.h"
#include "worker/models/mlp.h"
#include "worker/models/resnet.h"
#include "worker/train/objective/objective.h"
#include "worker/train/step/agreement.h"

namespace muster::testing {
namespace {

using namespace worker;  // NOLINT: a test helper about nothing else

std::unique_ptr<Optimizer> OptimizerFor(const TrainingRun& run, const Model& model) {
  std::vector<OptimizedParameter> parameters;
  for (const ModelTensor& entry : model.parameters()) {
    if (entry.tensor.requires_grad()) parameters.push_back({entry.name, entry.tensor});
  }
  if (run.make_optimizer) return run.make_optimizer(parameters);
  return run.adamw ? MakeAdamW({}, parameters)
                   : MakeSgd({.momentum = 0.9, .nesterov = true}, parameters);
}

std::unique_ptr<Model> MakeModel(const TrainingRun& run, const ModelContext& context) {
  if (run.make_model) return run.make_model(context);
  if (run.resnet) return *MakeResNet({.width = 4}, context);
  return MakeMlp({{16}}, context);
}

void RunRank(const TrainingRun& run, const std::function<void(Model&)>& at_start,
             Publisher& publisher, Gang& gang, RankOutcome& outcome) {
  const std::vector<int64_t> shape =
      run.resnet ? std::vector<int64_t>{1, 8, 8} : std::vector<int64_t>{12};
  auto made = MakeSynthetic({run.samples, shape, 4, run.seed});
  MUSTER_CHECK(made.ok(), made.status().message());
  std::unique_ptr<Dataset> dataset = *std::move(made);
  if (run.wrap_data) dataset = run.wrap_data(gang.rank(), std::move(dataset));
  const Loader loader(*dataset,
                      Sampler(static_cast<uint64_t>(run.samples), run.batch_size, run.seed));
  const ModelContext context = {.input_shape = shape,
                                .classes = 4,
                                .seed = run.seed,
                                .checkpoint_blocks = run.checkpoint_blocks};
  std::unique_ptr<Model> model = MakeModel(run, context);
  if (at_start) at_start(*model);
  if (run.sync_batch_norm) model->SynchronizeBatchNorm(gang);
  const auto optimizer = OptimizerFor(run, *model);
  const auto ema = run.ema.has_value() ? std::make_unique<Ema>(*run.ema, *model) : nullptr;
  const auto transfer = run.transfer.has_value()
                            ? std::make_unique<Transfer>(PosixFileSystem(), *run.transfer)
                            : nullptr;
  std::unique_ptr<Pruner> pruner;
  if (run.prune.has_value()) {
    auto built = Pruner::Create(*run.prune, *model, ema.get());
    MUSTER_CHECK(built.ok(), built.status().message());
    pruner = *std::move(built);
  }
  CheckpointsOptions options = TestCheckpoints(run.root, run.attempt, run.candidates);
  options.holder = run.holder;
  options.identity.data_fingerprint = dataset->fingerprint();
  options.identity.teacher_fingerprint = run.teacher_fingerprint;
  auto objective = MakeCrossEntropy(run.label_smoothing);
  if (run.wrap_objective) objective = run.wrap_objective(std::move(objective));
  const auto strategy =
      gang.MakeStrategy(model->TrainedParameters(), {.control_size = Agreement::kControlNumbers});
  const Trainer trainer = {run.recipe, loader,       *model,         *objective,
                           gang,       at::kCPU,     strategy.get(), optimizer.get(),
                           ema.get(),  pruner.get(), transfer.get()};
  auto checkpoints =
      Checkpoints::Create(trainer, {PosixFileSystem(), publisher, outcome.host}, options);
  if (!checkpoints.ok()) {
    outcome.result = checkpoints.status();
    return;
  }
  const int rank = gang.rank();
  if (run.on_beat) {
    outcome.host.on_beat = [&run, rank](const std::string& phase) { run.on_beat(rank, phase); };
  }
  if (run.ask) outcome.host.ask = [&run, rank] { return run.ask(rank); };
  if (gang.rank() == gang.world_size() - 1) {
    outcome.host.requested = run.requested;
    outcome.host.requested_after_step = run.requested_after_step;
    outcome.host.requested_in_evaluation = run.requested_in_evaluation;
  }
  outcome.result = Train(trainer, **checkpoints, outcome.host);
  if (pruner != nullptr) {
    for (const ModelTensor& entry : pruner->state())
      outcome.weights[entry.name] = entry.tensor.clone();
  }
  if (ema != nullptr) {
    for (const ModelTensor& entry : ema->state())
      outcome.weights[entry.name] = entry.tensor.clone();
  }
  for (const ModelTensor& entry : model->state())
    outcome.weights[entry.name] = entry.tensor.detach().clone();
}

}  // namespace

RunOutcome RunTraining(const TrainingRun& run, const std::function<void(Model&)>& at_start) {
  RunOutcome outcome;
  outcome.ranks.resize(static_cast<size_t>(run.world_size));
  FakePublisher publisher(run.before_commit, run.commit_when_superseded);
  const auto body = [&](std::unique_ptr<Gang> gang) {
    RunRank(run, at_start, publisher, *gang, outcome.ranks[static_cast<size_t>(gang->rank())]);
  };
  const auto errors = RunGang(run.world_size, body, {.transport = run.transport});
  for (const std::string& error : errors) MUSTER_CHECK(error.empty(), error);
  outcome.committed = publisher.committed();
  return outcome;
}

void StopAfter(int64_t step, TrainingRun& run) {
  run.requested = {.stop = true, .save = true};
  run.requested_after_step = step;
  const RunOutcome outcome = RunTraining(run);
  ASSERT_OK(outcome.ranks[0].result);
  ASSERT_TRUE(outcome.ranks[0].result->stopped);
  for (const CheckpointNews& news : outcome.committed)
    run.candidates.insert(run.candidates.begin(), {news.path, news.step, news.manifest_sha256});
  ASSERT_FALSE(run.candidates.empty());
  ASSERT_LT(run.candidates[0].step, run.recipe.total_steps);
  run.requested_after_step = -1;
  run.requested_in_evaluation = false;
  run.attempt += 1;
}

void ExpectSameBits(const RunOutcome& a, const RunOutcome& b) {
  for (const auto& [name, tensor] : a.ranks[0].weights)
    EXPECT_TRUE(tensor.equal(b.ranks[0].weights.at(name))) << name;
}

void ExpectSameBitsOnAllRanks(const RunOutcome& run) {
  for (const auto& [name, tensor] : run.ranks[0].weights) {
    for (const RankOutcome& rank : run.ranks)
      EXPECT_TRUE(tensor.equal(rank.weights.at(name))) << name << " differs between ranks";
  }
}

}  // namespace muster::testing
