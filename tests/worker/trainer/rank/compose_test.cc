#include "worker/trainer/rank/compose.h"

#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/object_store/cache/forwarding_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/trainer/numpy_pictures.h"
#include "worker/train/run/failure.h"
#include "worker/trainer/rank/rank_program.h"

namespace muster::worker {
namespace {

using muster::testing::StatusIs;
using ::testing::HasSubstr;

trainer_spec::JobSpec SyntheticSpec(std::vector<uint32_t> shape) {
  trainer_spec::JobSpec spec;
  spec.train.data.synthetic = {.samples = 100, .shape = std::move(shape), .classes = 4};
  spec.train.batch_size = 30;
  spec.train.optimizer.lr = 0.5;
  spec.train.optimizer.layer_decay = 1;
  spec.train.optimizer.decay_norms_and_biases = true;
  return spec;
}

TEST(Compose, BuildsDataModelAndOptimizerOfTheSpec) {
  trainer_spec::JobSpec spec = SyntheticSpec({1, 8, 8});
  spec.train.model.resnet18 = {.width = 4, .stem = trainer_spec::Stem::kSmall};
  spec.train.optimizer.name = trainer_spec::OptimizerName::kSgd;
  spec.train.optimizer.momentum = 0.9;
  const auto dataset = BuildDataset(spec, PosixFileSystem());
  ASSERT_OK(dataset);
  const auto model = BuildModel(spec, **dataset, at::kCPU);
  ASSERT_OK(model);
  EXPECT_EQ((*model)->parameters().back().name, "fc.bias");
  const auto optimizer = BuildOptimizer(spec.train.optimizer, **model);
  ASSERT_OK(optimizer);
  EXPECT_EQ((*optimizer)->state().front().name, "momentum.conv1.weight");
}

TEST(Compose, FrozenGroupsAreOutOfTheOptimizerAndNeedNoGradient) {
  trainer_spec::JobSpec spec = SyntheticSpec({1, 8, 8});
  spec.train.model.resnet18 = {.width = 4, .stem = trainer_spec::Stem::kSmall};
  spec.train.optimizer.name = trainer_spec::OptimizerName::kSgd;
  spec.train.optimizer.momentum = 0.9;
  spec.train.optimizer.groups = {{.pattern = "fc.*", .lr_scale = 2, .weight_decay = 0},
                                 {.pattern = "*", .frozen = true}};
  const auto dataset = BuildDataset(spec, PosixFileSystem());
  ASSERT_OK(dataset);
  const auto model = BuildModel(spec, **dataset, at::kCPU);
  ASSERT_OK(model);
  const auto optimizer = BuildOptimizer(spec.train.optimizer, **model);
  ASSERT_OK(optimizer);
  ASSERT_EQ((*optimizer)->state().size(), 2u);
  EXPECT_EQ((*optimizer)->state().front().name, "momentum.fc.weight");
  for (const ModelTensor& entry : (*model)->parameters())
    EXPECT_EQ(entry.tensor.requires_grad(), entry.name.starts_with("fc.")) << entry.name;
}

TEST(Compose, TheAugmenterIsTheSpecs) {
  trainer_spec::JobSpec spec = SyntheticSpec({3, 8, 8});
  const auto dataset = BuildDataset(spec, PosixFileSystem());
  ASSERT_OK(dataset);
  const auto none = BuildAugmenter(spec.train, **dataset);
  ASSERT_OK(none);
  EXPECT_EQ(*none, nullptr);
  spec.train.augment = {.crop_min_area = 0.1,
                        .crop_padding = 2,
                        .flip = 0.3,
                        .vertical_flip = 0.4,
                        .auto_augment = trainer_spec::AutoAugment::kSvhn,
                        .color_jitter = {.brightness = 0.5,
                                         .contrast = 0.6,
                                         .saturation = 0.7,
                                         .hue = 0.08,
                                         .chance = 0.9},
                        .grey = 0.11,
                        .blur = 0.12,
                        .erase = 0.13,
                        .erase_fill = trainer_spec::EraseFill::kMean,
                        .mixup = 0.14,
                        .cutmix = 0.15};
  const auto augmenter = BuildAugmenter(spec.train, **dataset);
  ASSERT_OK(augmenter);
  const AugmentConfig& config = (*augmenter)->config();
  EXPECT_EQ(config.crop_min_area, 0.1);
  EXPECT_EQ(config.crop_padding, 2);
  EXPECT_EQ(config.flip, 0.3);
  EXPECT_EQ(config.vertical_flip, 0.4);
  EXPECT_FALSE(config.trivial_augment);
  EXPECT_EQ(config.auto_augment, AutoAugmentPolicy::kSvhn);
  EXPECT_EQ(config.color_jitter.brightness, 0.5);
  EXPECT_EQ(config.color_jitter.contrast, 0.6);
  EXPECT_EQ(config.color_jitter.saturation, 0.7);
  EXPECT_EQ(config.color_jitter.hue, 0.08);
  EXPECT_EQ(config.color_jitter.chance, 0.9);
  EXPECT_EQ(config.grey, 0.11);
  EXPECT_EQ(config.blur, 0.12);
  EXPECT_EQ(config.erase, 0.13);
  EXPECT_EQ(config.erase_fill, EraseFill::kValues);
  EXPECT_EQ(config.erase_values, (*dataset)->pixels().mean);
  EXPECT_EQ(config.mixup, 0.14);
  EXPECT_EQ(config.cutmix, 0.15);
}

TEST(Compose, PoliciesAndFillsGoByTheirNames) {
  trainer_spec::JobSpec spec = SyntheticSpec({3, 8, 8});
  const auto dataset = BuildDataset(spec, PosixFileSystem());
  ASSERT_OK(dataset);
  const auto config = [&] {
    const auto augmenter = BuildAugmenter(spec.train, **dataset);
    return augmenter.ok() && *augmenter != nullptr ? (*augmenter)->config() : AugmentConfig();
  };
  spec.train.augment.trivial_augment = true;
  EXPECT_TRUE(config().trivial_augment);
  spec.train.augment = {.rand_augment_operations = 3, .rand_augment_magnitude = 7};
  EXPECT_EQ(config().rand_augment_ops, 3);
  EXPECT_EQ(config().rand_augment_magnitude, 7);
  spec.train.augment = {.auto_augment = trainer_spec::AutoAugment::kImagenet};
  EXPECT_EQ(config().auto_augment, AutoAugmentPolicy::kImageNet);
  spec.train.augment = {.auto_augment = trainer_spec::AutoAugment::kCifar10};
  EXPECT_EQ(config().auto_augment, AutoAugmentPolicy::kCifar10);
  // A spec that was stored before there was a fill says none.
  spec.train.augment = {.erase = 1};
  EXPECT_EQ(config().erase_values, std::vector<float>{0.5f});
  spec.train.augment.erase_fill = trainer_spec::EraseFill::kBlack;
  EXPECT_EQ(config().erase_values, std::vector<float>{0.0f});
  spec.train.augment.erase_fill = trainer_spec::EraseFill::kNoise;
  EXPECT_EQ(config().erase_fill, EraseFill::kNoise);
}

TEST(Compose, AugmentationThatDoesNotFitTheDataFailsTheStart) {
  trainer_spec::JobSpec spec = SyntheticSpec({6});
  const auto dataset = BuildDataset(spec, PosixFileSystem());
  ASSERT_OK(dataset);
  spec.train.augment = {.color_jitter = {.hue = 0.1, .chance = 1}};
  EXPECT_THAT(BuildAugmenter(spec.train, **dataset),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the data are none")));
  spec.train.augment = {.cutmix = 1};
  EXPECT_THAT(BuildAugmenter(spec.train, **dataset),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cutmix pictures")));
}

TEST(Compose, APatternThatMatchesNothingFailsTheStart) {
  trainer_spec::JobSpec spec = SyntheticSpec({6});
  spec.train.model.mlp = {.hidden = {5}};
  spec.train.optimizer.groups = {{.pattern = "encoder.*", .frozen = true}};
  const auto dataset = BuildDataset(spec, PosixFileSystem());
  ASSERT_OK(dataset);
  const auto model = BuildModel(spec, **dataset, at::kCPU);
  ASSERT_OK(model);
  const auto optimizer = BuildOptimizer(spec.train.optimizer, **model);
  EXPECT_THAT(optimizer, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("encoder.*")));
  EXPECT_EQ(FailureClassOf(optimizer.status()), kStartFailed);
}

TEST(Compose, TheLinearScalingRuleMultipliesTheBaseRateByTheBatch) {
  trainer_spec::JobSpec spec = SyntheticSpec({6});
  spec.train.optimizer.lr = 0;
  spec.train.optimizer.base_lr = 0.1;
  spec.train.optimizer.base_batch = 256;
  spec.train.batch_size = 1024;
  EXPECT_DOUBLE_EQ(BuildSchedule(spec.train, 10).peak, 0.4);
}

TEST(Compose, CountsStepsByEpochsOrTakesThem) {
  trainer_spec::JobSpec spec = SyntheticSpec({6});
  const auto dataset = BuildDataset(spec, PosixFileSystem());
  ASSERT_OK(dataset);
  spec.train.epochs = 1.5;
  spec.train.schedule.name = trainer_spec::ScheduleName::kConstant;
  Recipe recipe = BuildRecipe(spec, BuildSampler(spec.train, **dataset), 2);
  EXPECT_EQ(recipe.total_steps, 5);
  EXPECT_EQ(recipe.schedule.total_steps, 5);
  EXPECT_EQ(recipe.schedule.name, ScheduleName::kConstant);
  EXPECT_EQ(recipe.schedule.peak, 0.5);
  EXPECT_EQ(recipe.evaluation_batch_size, 15);
  spec.train.accumulate = 4;
  EXPECT_EQ(BuildRecipe(spec, BuildSampler(spec.train, **dataset), 2).evaluation_batch_size, 4)
      << "as much as a training step takes at once";
  spec.train.accumulate = 1;
  spec.train.epochs = 0;
  spec.train.steps = 77;
  recipe = BuildRecipe(spec, BuildSampler(spec.train, **dataset), 2);
  EXPECT_EQ(recipe.total_steps, 77);
}

TEST(Compose, AGangWaitsLongerThanTheProgressTimeoutOrWithoutOneForYears) {
  trainer_spec::JobSpec spec = SyntheticSpec({6});
  spec.restart.progress_timeout = absl::Minutes(3);
  EXPECT_EQ(GangOptions(spec).timeout, absl::Seconds(180 + 45 + 10))
      << "the controller is to notice the hang first, which hears of steps by heartbeats";
  spec.restart.progress_timeout = absl::ZeroDuration();
  EXPECT_GT(GangOptions(spec).timeout, absl::Hours(24 * 365));
}

TEST(Compose, DataAreGivenUpBeforeAGangIsTakenForHung) {
  trainer_spec::JobSpec spec = SyntheticSpec({6});
  spec.restart.progress_timeout = absl::Minutes(4);
  EXPECT_EQ(DataTimeoutOf(spec), absl::Minutes(3));
  EXPECT_EQ(BuildRecipe(spec, Sampler(10, 2, 1), 1).data_timeout, absl::Minutes(3));
  spec.restart.progress_timeout = absl::ZeroDuration();
  EXPECT_EQ(DataTimeoutOf(spec), absl::InfiniteDuration());
}

TEST(Compose, MissingDigitsAreADataErrorThatNamesTheWayOut) {
  muster::testing::TempDir folder;
  trainer_spec::JobSpec spec;
  spec.train.data.digits = {.path = folder / "nowhere", .image_size = 16};
  const auto dataset = BuildDataset(spec, PosixFileSystem());
  EXPECT_THAT(dataset, StatusIs(absl::StatusCode::kNotFound, HasSubstr("scripts/fetch-digits")));
  EXPECT_EQ(FailureClassOf(dataset.status()), kDataError);
}

// A disk of which one call does not come back before a count has gone on by so many.
class SlowDisk final : public ForwardingFileSystem {
 public:
  SlowDisk(int slow_call, const std::atomic<int>& count, int by = 1)
      : slow_call_(slow_call), count_(count), by_(by) {}
  int calls() const { return calls_; }

 private:
  absl::StatusOr<FileSystem*> Of(const std::string&) override {
    if (++calls_ == slow_call_)
      for (const int before = count_; count_ < before + by_;) std::this_thread::yield();
    return &PosixFileSystem();
  }

  const int slow_call_;
  const std::atomic<int>& count_;
  const int by_;
  std::atomic<int> calls_ = 0;
};

// Data of each kind that is read when a rank starts.
class LoadTest : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("MUSTER_INDEX_DIR", (dir_ / "index").c_str(), 1); }

  void Write(const std::string& name, const std::string& bytes) {
    const std::filesystem::path path = dir_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  std::map<std::string, trainer_spec::Data> MakeData() {
    std::map<std::string, trainer_spec::Data> all;
    std::filesystem::create_directories(dir_ / "numpy");
    muster::testing::WriteNumpyPictures(dir_ / "numpy", /*size=*/4, /*classes=*/3);
    all["numpy"].numpy = {.path = dir_ / "numpy"};
    Write("text.txt", std::string(1000, 'a'));
    all["text"].text = {.path = dir_ / "text.txt", .context = 8};
    for (const char* name :
         {"tokens/train.bin", "tokens/val.bin", "shards/a_train.bin", "shards/a_val.bin"}) {
      Write(name, std::string(1000, '\0'));
    }
    all["tokens"].tokens = {.path = dir_ / "tokens", .context = 8, .vocabulary = 100};
    all["token shards"].tokens = {.path = dir_ / "shards", .context = 8, .vocabulary = 100};
    for (int i = 1; i <= 5; ++i)
      Write(absl::StrCat("cifar/data_batch_", i, ".bin"), std::string(3073 * 20, '\1'));
    Write("cifar/test_batch.bin", std::string(3073, '\0'));
    all["cifar"].cifar_bin = {.path = dir_ / "cifar"};
    std::string rows = "x,y\n";
    for (int i = 0; i < 100; ++i) absl::StrAppend(&rows, i, ",", i % 2, "\n");
    Write("table.csv", rows);
    all["csv"].csv = {.path = dir_ / "table.csv", .target = "y"};
    for (const char* set : {"train", "val"})
      for (int i = 0; i < 8; ++i)
        Write(absl::StrCat("pictures/", set, "/", i % 2, "/", i, ".jpg"), "picture");
    all["images"].images = {.path = dir_ / "pictures", .size = 8, .channels = 3};
    return all;
  }
  absl::Status Load(const trainer_spec::Data& data, FileSystem& fs, const LoadHost& host) {
    trainer_spec::JobSpec spec;
    spec.train.data = data;
    const absl::Status status = BuildDataset(spec, fs, host).status();
    std::filesystem::remove_all(dir_ / "index");
    return status;
  }

  muster::testing::TempDir dir_;
};

TEST_F(LoadTest, ARankThatReadsIsNotHung) {
  for (const auto& [name, data] : MakeData()) {
    std::atomic<int> signs = 0;
    const LoadHost host = {.sign_of_life = [&] { ++signs; }};
    SlowDisk counted(/*slow_call=*/0, signs);
    ASSERT_OK(Load(data, counted, host)) << name;
    SlowDisk slow(counted.calls(), signs);
    EXPECT_OK(Load(data, slow, host)) << name;
    EXPECT_GT(signs, 0) << name;
  }
}

TEST_F(LoadTest, ARankThatIsToStopLoadsNoFurther) {
  for (const auto& [name, data] : MakeData()) {
    std::atomic<int> asked = 0;
    const LoadHost host = {.goes_on = [&] { return ++asked < 0; }};
    // Who asks once more has taken the answer before.
    SlowDisk slow(/*slow_call=*/2, asked, /*by=*/2);
    EXPECT_THAT(Load(data, slow, host), StatusIs(absl::StatusCode::kCancelled)) << name;
    EXPECT_EQ(slow.calls(), 2) << name;
  }
}

TEST(Compose, RanksOfAMachineShareItsCpusUnlessTheyHaveTheirOwn) {
  EXPECT_EQ(ThreadsFor(/*cpus_seen=*/8, /*cpus_given=*/0, /*ranks_here=*/1), 8);
  EXPECT_EQ(ThreadsFor(8, 0, 2), 4);
  EXPECT_EQ(ThreadsFor(8, 0, 3), 2);
  EXPECT_EQ(ThreadsFor(2, 0, 8), 1);
  EXPECT_EQ(ThreadsFor(128, 0, 2), 16);
  EXPECT_EQ(ThreadsFor(6, 6, 4), 6) << "the agent has given it these";
  EXPECT_EQ(ThreadsFor(64, 6, 4), 6) << "they are shared with other jobs";
  EXPECT_EQ(ThreadsFor(2, 6, 1), 2);
}

TEST(Compose, AModelThatDoesNotFitTheDataFailsTheStart) {
  trainer_spec::JobSpec spec = SyntheticSpec({64});
  spec.train.model.resnet18 = {.width = 4, .stem = trainer_spec::Stem::kSmall};
  const auto dataset = BuildDataset(spec, PosixFileSystem());
  ASSERT_OK(dataset);
  const auto model = BuildModel(spec, **dataset, at::kCPU);
  EXPECT_THAT(model, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("choose `mlp`")));
  EXPECT_EQ(FailureClassOf(model.status()), kStartFailed);
}

}  // namespace
}  // namespace muster::worker
