#include "worker/train/recipe/transfer.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/ckpt/safetensors.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/train/training_run.h"
#include "worker/checkpoint/restore.h"
#include "worker/models/mlp.h"
#include "worker/train/run/failure.h"
#include "worker/train/run/run_state.h"

namespace muster::worker {
namespace {

using muster::testing::ExpectSameBits;
using muster::testing::RunOutcome;
using muster::testing::RunTraining;
using muster::testing::StatusIs;
using muster::testing::TempDir;
using muster::testing::TrainingRun;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<TransferTensor> kModel = {
    {"0.weight", {8, 4}}, {"0.bias", {8}}, {"2.weight", {3, 8}}, {"2.bias", {3}}};

TEST(PlanTransfer, NamesAreMappedByTheFirstRuleThatFits) {
  const auto plan =
      PlanTransfer({.map = {{"backbone.*", "*"}, {"head.w", "2.weight"}, {"head.*", "2.*"}}},
                   {{"backbone.0.weight", {8, 4}},
                    {"backbone.0.bias", {8}},
                    {"head.w", {3, 8}},
                    {"head.bias", {3}},
                    {"other", {1}}},
                   kModel, "2.");
  ASSERT_OK(plan);
  ASSERT_EQ(plan->copies.size(), 4u);
  EXPECT_EQ(plan->copies[2].source, 2u);
  EXPECT_EQ(plan->copies[2].target, 2u);
  EXPECT_THAT(plan->unused, ElementsAre("other"));
}

TEST(PlanTransfer, AHeadOfAnotherShapeStartsFreshAndIsListed) {
  const std::vector<TransferTensor> file = {
      {"0.weight", {8, 4}}, {"0.bias", {8}}, {"2.weight", {7, 8}}, {"2.bias", {7}}};
  const auto plan = PlanTransfer({}, file, kModel, "2.");
  ASSERT_OK(plan);
  EXPECT_EQ(plan->copies.size(), 2u);
  EXPECT_THAT(plan->reshaped, ElementsAre("2.weight [7, 8], want [3, 8]", "2.bias [7], want [3]"));
  EXPECT_THAT(PlanTransfer({.strict = true}, file, kModel, "2."),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("2.weight [7, 8]")));
}

TEST(PlanTransfer, AnotherShapeElsewhereIsAnErrorUnlessItIsIgnored) {
  const std::vector<TransferTensor> file = {
      {"0.weight", {9, 4}}, {"0.bias", {9}}, {"2.weight", {3, 8}}, {"2.bias", {3}}};
  EXPECT_THAT(PlanTransfer({}, file, kModel, "2."),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("0.weight [9, 4], want [8, 4]"), HasSubstr("ignore"))));
  const auto plan = PlanTransfer({.ignore = {"0.*"}}, file, kModel, "2.");
  ASSERT_OK(plan);
  EXPECT_EQ(plan->copies.size(), 2u);
  EXPECT_THAT(plan->ignored, ElementsAre("0.weight", "0.bias"));
}

TEST(PlanTransfer, StrictWantsEverythingToMatch) {
  EXPECT_OK(PlanTransfer({.strict = true}, kModel, kModel, "2."));
  std::vector<TransferTensor> less = kModel, more = kModel;
  less.pop_back();
  more.push_back({"extra", {1}});
  EXPECT_THAT(PlanTransfer({.strict = true}, less, kModel, "2."),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("lacks: 2.bias")));
  EXPECT_THAT(PlanTransfer({.strict = true}, more, kModel, "2."),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no place for: extra")));
  EXPECT_OK(PlanTransfer({.ignore = {"2.bias"}, .strict = true}, less, kModel, "2."));
  const auto loose = PlanTransfer({}, less, kModel, "2.");
  ASSERT_OK(loose);
  EXPECT_THAT(loose->missing, ElementsAre("2.bias"));
}

TEST(PlanTransfer, RefusesWhatIsCertainlyAMistake) {
  EXPECT_THAT(PlanTransfer({}, {{"x", {1}}}, kModel, "2."),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("no tensor of the file"), HasSubstr("x"))));
  EXPECT_THAT(
      PlanTransfer({.map = {{"a.*", "*"}}}, {{"a.0.bias", {8}}, {"0.bias", {8}}}, kModel, "2."),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("of both")));
  std::vector<TransferTensor> frozen = kModel;
  frozen[0].frozen = true;
  EXPECT_THAT(PlanTransfer({}, {{"0.bias", {8}}}, frozen, "2."),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("frozen: 0.weight")));
  EXPECT_OK(PlanTransfer({.ignore = {"0.weight"}}, {{"0.bias", {8}}}, frozen, "2."));
}

TrainingRun SmallRun(const std::string& root) {
  TrainingRun run;
  run.world_size = 2;
  run.root = root;
  run.recipe.total_steps = 4;
  run.recipe.schedule = {ScheduleName::kConstant, 0.01, 0, 0, 4};
  run.recipe.report_every_steps = 1;
  run.recipe.evaluation_batch_size = 3;
  run.recipe.save_every_steps = 2;
  run.recipe.commit_timeout = absl::Minutes(1);
  return run;
}

TEST(Transfer, ARunBeginsWithTheAveragesOfAnEarlierRunsCheckpoint) {
  TempDir root, next_root, fresh_root;
  TrainingRun run = SmallRun(root.path());
  run.ema = EmaConfig{.decay = 0.5, .every_steps = 1, .warmup = false};
  const RunOutcome earlier = RunTraining(run);
  ASSERT_OK(earlier.ranks[0].result);
  const std::string folder = earlier.committed.back().path;
  const auto saved = ReadTensors(PosixFileSystem(), folder + "/model.safetensors");
  ASSERT_OK(saved);

  TrainingRun next = SmallRun(next_root.path());
  next.recipe.schedule.peak = 0;  // nothing moves: the result is what the run began with
  next.seed = 77;
  next.transfer = TransferConfig{.path = folder, .rules = {.strict = true}};
  const RunOutcome begun = RunTraining(next);
  ASSERT_OK(begun.ranks[0].result);
  for (const NamedTensor& entry : *saved) {
    if (!entry.name.starts_with("ema.")) continue;
    for (const auto& rank : begun.ranks)
      EXPECT_TRUE(rank.weights.at(entry.name.substr(4)).equal(entry.tensor)) << entry.name;
  }
  const auto& metrics = begun.ranks[0].host.metrics;
  EXPECT_EQ(metrics.at("transfer_loaded_tensors").at(0), 4);
  EXPECT_EQ(metrics.at("transfer_fresh_tensors").at(0), 0);
  const auto state = LoadStateJson(PosixFileSystem(), begun.committed.back().path);
  ASSERT_OK(state);
  const auto decoded = DecodeRunState(*state);
  ASSERT_OK(decoded);
  EXPECT_THAT(decoded->identity.weights_fingerprint, HasSubstr("xxh3:"));
}

TEST(Transfer, AResumeKeepsItsOwnWeightsAndTheRecordOfTheFile) {
  TempDir root, first_root;
  const RunOutcome source = RunTraining(SmallRun(root.path()));
  ASSERT_OK(source.ranks[0].result);
  TrainingRun run = SmallRun(first_root.path());
  run.transfer = TransferConfig{.path = source.committed.back().path};
  const RunOutcome whole = RunTraining(run);
  ASSERT_OK(whole.ranks[0].result);
  ASSERT_GE(whole.committed.size(), 2u);
  const auto& half = whole.committed.front();
  run.candidates = {{half.path, half.step, half.manifest_sha256}};
  run.attempt = 2;
  std::filesystem::remove_all(whole.committed.back().path);
  run.transfer->path = "/nowhere";  // not read any more
  const RunOutcome resumed = RunTraining(run);
  ASSERT_OK(resumed.ranks[0].result);
  ExpectSameBits(whole, resumed);
  const auto state = LoadStateJson(PosixFileSystem(), resumed.committed.back().path);
  ASSERT_OK(state);
  EXPECT_THAT(*state, HasSubstr("xxh3:"));
}

TEST(Transfer, AFileThatDoesNotFitFailsTheStartOnAllRanks) {
  TempDir root;
  TrainingRun run = SmallRun(root.path());
  run.transfer = TransferConfig{.path = root / "missing.safetensors"};
  RunOutcome outcome = RunTraining(run);
  for (const auto& rank : outcome.ranks) {
    EXPECT_THAT(rank.result,
                StatusIs(absl::StatusCode::kNotFound, HasSubstr("missing.safetensors")));
    EXPECT_EQ(FailureClassOf(rank.result.status()), kStartFailed);
  }
  EXPECT_TRUE(outcome.committed.empty());

  std::ofstream(root / "broken.safetensors") << "not a tensor";
  run.transfer->path = root / "broken.safetensors";
  outcome = RunTraining(run);
  for (const auto& rank : outcome.ranks)
    EXPECT_EQ(FailureClassOf(rank.result.status()), kStartFailed);
}

TEST(Transfer, ALayoutIsAppliedBeforeNamesAndNumbersAreConverted) {
  TempDir root;
  const auto model = MakeMlp({{}}, {{2}, 2, 7});  // one layer: 0.weight [2, 2], 0.bias [2]
  const std::vector<double> numbers = {1, 2, 3, 4};
  const std::string file = root / "double.safetensors";
  std::ofstream out(file, std::ios::binary);
  ASSERT_OK(WriteSafetensors({{"theirs",
                               TensorType::kF64,
                               {4},
                               absl::string_view(reinterpret_cast<const char*>(numbers.data()),
                                                 numbers.size() * sizeof(double))}},
                             [&out](absl::string_view bytes) {
                               out << bytes;
                               return absl::OkStatus();
                             }));
  out.close();
  TransferConfig config;
  config.path = file;
  config.rules.map = {{"reshaped", "0.weight"}};
  config.layout = [](NamedTensors tensors) -> absl::StatusOr<NamedTensors> {
    return NamedTensors{{"reshaped", tensors[0].tensor.view({2, 2})}};
  };
  const auto gang = Gang::OfOne();
  const auto summary = Transfer(PosixFileSystem(), config).Load(*model, *gang);
  ASSERT_OK(summary);
  EXPECT_EQ(summary->loaded, 1);
  EXPECT_EQ(summary->fresh, 1);
  EXPECT_EQ(model->parameters()[0].tensor.detach()[1][0].item<float>(), 3.0f);
}

}  // namespace
}  // namespace muster::worker
