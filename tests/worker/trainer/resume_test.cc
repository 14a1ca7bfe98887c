// A run that was stopped and resumed ends with the bits of one that never was, whatever its recipe
// says: through the whole loop, with the trainer's own set-up, each rank a process.
#include <fstream>
#include <functional>
#include <sstream>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/trainer/forked_run.h"
#include "tests/worker/trainer/numpy_pictures.h"

namespace muster::testing {
namespace {

using ::testing::Each;
using trainer_spec::Train;

constexpr int64_t kSteps = 12, kStopAfter = 5;

const std::vector<std::string> kOneHost = {"127.0.0.1", "127.0.0.1"};
const std::vector<std::string> kTwoHosts = {"127.0.0.1", "127.0.0.1", "127.0.0.2"};

// What the option does to the weights in the end.
enum class Effect { kOtherBits, kSameBits, kAny };

struct Recipe {
  std::string name;
  std::function<void(Train&)> network;
  std::function<void(Train&)> option;
  Effect effect = Effect::kOtherBits;
  std::vector<std::string> addresses = kOneHost;
  std::string transport = "shared_memory";
};

void PrintTo(const Recipe& recipe, std::ostream* out) { *out << recipe.name; }

void ResNet(Train& train) {
  train.model.resnet18 = {.width = 4, .stem = trainer_spec::Stem::kSmall};
}

void Vit(Train& train) {
  train.model.vit = {.patch_size = 4, .layers = 2, .heads = 2, .width = 16, .mlp_width = 32};
}

void Mae(Train& train) {
  train.model.mae = {.patch_size = 4,
                     .layers = 2,
                     .heads = 2,
                     .width = 16,
                     .mlp_width = 32,
                     .decoder_layers = 1,
                     .decoder_heads = 2,
                     .decoder_width = 8,
                     .decoder_mlp_width = 16,
                     .mask_ratio = 0.75,
                     .norm_pix_loss = true};
}

// The text's path is filled in by the test.
void Gpt2(Train& train) {
  train.data.numpy.reset();
  train.data.text = {.context = 8};
  train.model.gpt2 = {.layers = 2, .heads = 2, .width = 16, .context = 8, .vocabulary = 256};
}

void Nothing(Train&) {}

std::function<void(Train&)> Compressed(trainer_spec::Compression compression) {
  return [compression](Train& train) { train.parallel.compression = compression; };
}

void Gloo(Train& train) { train.parallel.transport = trainer_spec::Transport::kGloo; }

void StaticGraph(Train& train) { train.parallel.static_graph = true; }

void Fp16(Train& train) {
  train.precision = trainer_spec::Precision::kFp16;
  train.loss_scale = {.initial = 1 << 20, .growth_interval = 3, .max_skips = 25};
}

void Augmented(Train& train) {
  train.augment = {.crop_min_area = 0.5,
                   .crop_padding = 2,
                   .flip = 0.5,
                   .vertical_flip = 0.5,
                   .rand_augment_operations = 2,
                   .rand_augment_magnitude = 9,
                   .color_jitter = {.brightness = 0.4,
                                    .contrast = 0.4,
                                    .saturation = 0.4,
                                    .hue = 0.1,
                                    .chance = 0.8},
                   .grey = 0.2,
                   .blur = 0.5,
                   .erase = 0.3,
                   .erase_fill = trainer_spec::EraseFill::kNoise,
                   .mixup = 0.2,
                   .cutmix = 1};
}

// One after the other.
std::function<void(Train&)> Both(std::function<void(Train&)> first,
                                 std::function<void(Train&)> second) {
  return [first, second](Train& train) {
    first(train);
    second(train);
  };
}

std::vector<Recipe> Recipes() {
  const auto bf16 = Compressed(trainer_spec::Compression::kBf16);
  const auto fp16 = Compressed(trainer_spec::Compression::kFp16);
  return {
      {"bf16_gradients", ResNet, bf16},
      {"fp16_gradients_over_gloo", Both(ResNet, Gloo), fp16, Effect::kOtherBits, kOneHost, "gloo"},
      {"fp16_gradients_of_fp16", Both(ResNet, Fp16), fp16},
      {"bf16_gradients_over_two_levels", ResNet, bf16, Effect::kOtherBits, kTwoHosts,
       "two_level 0-1,2"},
      {"static_graph", ResNet, StaticGraph, Effect::kSameBits},
      {"static_graph_over_gloo", Both(ResNet, Gloo), StaticGraph, Effect::kSameBits, kOneHost,
       "gloo"},
      {"static_graph_over_two_levels", ResNet, StaticGraph, Effect::kSameBits, kTwoHosts,
       "two_level 0-1,2"},
      {"synchronized_batch_norm", ResNet,
       [](Train& train) { train.parallel.sync_batch_norm = true; }},
      {"augmented_and_mixed", ResNet, Augmented},
      {"dropout_on_two_ranks", Vit,
       [](Train& train) { train.model.vit->dropout = train.model.vit->attention_dropout = 0.1; }},
      {"recomputed_accumulated_bf16", Vit,
       [](Train& train) {
         train.memory.checkpoint_blocks = true;
         train.accumulate = 2;
         train.precision = trainer_spec::Precision::kBf16;
       }},
      {"masked_autoencoder", Mae, Nothing, Effect::kSameBits},
      {"masked_autoencoder_recomputed_fp16", Mae,
       Both(Fp16, [](Train& train) { train.memory.checkpoint_blocks = true; })},
      {"gpt2", Gpt2, [](Train& train) { train.model.gpt2->dropout = 0.1; }},
      {"deterministic", ResNet, [](Train& train) { train.deterministic = true; }, Effect::kAny},
      {"bce_with_layer_decay_and_frozen_groups", ResNet,
       [](Train& train) {
         train.loss = trainer_spec::LossName::kBce;
         train.optimizer.layer_decay = 0.75;
         train.optimizer.groups = {{.pattern = "conv1.*", .frozen = true},
                                   {.pattern = "fc.*", .lr_scale = 5, .weight_decay = 0}};
       }},
  };
}

class Resume : public ::testing::TestWithParam<Recipe> {
 protected:
  ForkedRun RunOf(const std::string& root) const {
    ForkedRun run;
    run.root = root;
    run.addresses = GetParam().addresses;
    run.spec.ranks = {.min = static_cast<uint32_t>(run.addresses.size())};
    run.spec.restart.controller_lost_timeout = absl::Minutes(1);
    Train& train = run.spec.train;
    train.data.numpy = {.path = data_.path(), .mean = {0.5, 0.5, 0.5}, .std = {0.3, 0.3, 0.3}};
    train.batch_size = 20;  // 103 samples: divides by nothing
    train.steps = kSteps;
    train.accumulate = 1;
    train.threads_per_rank = 1;
    train.seed = 5;
    train.clip_norm = 1;
    train.report_every_steps = 1;
    train.optimizer = {.name = trainer_spec::OptimizerName::kAdamw,
                       .lr = 0.01,
                       .weight_decay = 0.01,
                       .beta1 = 0.9,
                       .beta2 = 0.999,
                       .eps = 1e-8,
                       .layer_decay = 1,
                       .decay_norms_and_biases = true};
    train.schedule = {.name = trainer_spec::ScheduleName::kCosine, .warmup_steps = 3};
    train.ema = {.decay = 0.9, .every_steps = 1};
    GetParam().network(train);
    if (train.data.text.has_value()) train.data.text->path = data_ / "text.txt";
    return run;
  }

  // Of a run without the option.
  ForkedRun WithOption(ForkedRun run) const {
    GetParam().option(run.spec.train);
    return run;
  }

  void SetUp() override {
    WriteNumpyPictures(data_.path(), /*size=*/8, /*classes=*/4);
    std::ofstream text(data_ / "text.txt");
    for (int line = 0; line < 200; ++line) text << line * line << " is a square number.\n";
  }

  TempDir data_;
};

// All that a checkpoint has of weights, averages, buffers and the optimizer's state.
std::string TensorsOf(const CheckpointCandidate& checkpoint) {
  std::stringstream bytes;
  for (const char* name : {"/model.safetensors", "/optimizer.safetensors"})
    bytes << std::ifstream(checkpoint.path + name, std::ios::binary).rdbuf();
  return bytes.str();
}

TEST_P(Resume, EqualsNeverHavingStoppedBitForBit) {
  TempDir plain_root, whole_root, broken_root;
  const ForkedOutcome whole = RunForked(WithOption(RunOf(whole_root.path())));
  ASSERT_THAT(whole.codes, Each(absl::StatusCode::kOk));
  EXPECT_EQ(whole.transport, GetParam().transport);
  ASSERT_EQ(whole.committed.at(0).step, kSteps);
  const std::string expected = TensorsOf(whole.committed[0]);
  ASSERT_GT(expected.size(), 1000u);

  ForkedRun run = WithOption(RunOf(broken_root.path()));
  run.stop_after = kStopAfter;
  const ForkedOutcome first = RunForked(run);
  ASSERT_THAT(first.codes, Each(absl::StatusCode::kCancelled));
  ASSERT_EQ(first.committed.at(0).step, kStopAfter + 1);
  EXPECT_NE(TensorsOf(first.committed[0]), expected) << "there is something left to learn";
  run.stop_after = -1;
  run.attempt = 2;
  run.candidates = first.committed;
  const ForkedOutcome second = RunForked(run);
  ASSERT_THAT(second.codes, Each(absl::StatusCode::kOk));
  ASSERT_EQ(second.committed.at(0).step, kSteps);
  EXPECT_TRUE(TensorsOf(second.committed[0]) == expected) << "not bit for bit";
  EXPECT_EQ(second.results, whole.results);

  // The option is really at work.
  if (GetParam().effect == Effect::kAny) return;
  const ForkedOutcome plain = RunForked(RunOf(plain_root.path()));
  ASSERT_THAT(plain.codes, Each(absl::StatusCode::kOk));
  EXPECT_EQ(TensorsOf(plain.committed.at(0)) == expected, GetParam().effect == Effect::kSameBits);
}

INSTANTIATE_TEST_SUITE_P(Recipes, Resume, ::testing::ValuesIn(Recipes()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace muster::testing
