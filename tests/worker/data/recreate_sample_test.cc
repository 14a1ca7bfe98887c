// What `muster data show` makes of a sample is what the trainer's loader gives the model, bit for
// bit.
#include "worker/data_tool/show/recreate_sample.h"

#include <gtest/gtest.h>
#include <string.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/object_store/cache/any_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/data/pictures/picture_makers.h"
#include "worker/data/images/picture_files.h"
#include "worker/data/index/data_indexes.h"
#include "worker/data/loader.h"
#include "worker/data/mixture.h"
#include "worker/data/subset.h"
#include "worker/trainer/data/data_recipe.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::EncodeJpeg;
using ::muster::testing::MakePhoto;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;

constexpr int kPictures = 27;

class RecreateSampleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < kPictures + 4; ++i) {
      const std::string path = absl::StrCat(dir_.path(), "/data/", i < kPictures ? "train" : "val",
                                            "/class-", i % 3, "/", i, ".jpg");
      std::filesystem::create_directories(std::filesystem::path(path).parent_path());
      std::ofstream(path, std::ios::binary)
          << EncodeJpeg(MakePhoto(40 + 7 * (i % 5), 33 + 5 * (i % 7), i % 6 == 0 ? 1 : 3,
                                  static_cast<uint64_t>(i)),
                        {.progressive = i % 4 == 3, .orientation = i % 3 == 0 ? 6 : 0});
    }
    spec_.seed = 11;
    spec_.batch_size = 7;  // odd: the last of a batch has no partner; 27 is no multiple of it
    spec_.epochs = 3;
    trainer_spec::Images images;
    images.path = dir_ / "data";
    images.size = 24;
    images.channels = 3;
    images.mean = {0.4, 0.5, 0.6};
    images.std = {0.2, 0.3, 0.4};
    images.center_crop = 0.875;
    spec_.data.images = images;
  }

  // The pictures, and a few others of the same classes.
  void MixWithOthers() {
    for (int i = 0; i < 12; ++i) {
      const std::string path =
          absl::StrCat(dir_.path(), "/others/train/class-", i % 3, "/", i, ".jpg");
      std::filesystem::create_directories(std::filesystem::path(path).parent_path());
      std::ofstream(path, std::ios::binary)
          << EncodeJpeg(MakePhoto(50, 40, 3, static_cast<uint64_t>(100 + i)));
    }
    std::filesystem::create_symlink(dir_ / "data/val", dir_ / "others/val");
    trainer_spec::Mixture mixture;
    for (const char* folder : {"data", "others"}) {
      trainer_spec::MixtureSource source;
      source.name = folder;
      source.images = *spec_.data.images;
      source.images->path = dir_ / folder;
      mixture.sources.push_back(source);
    }
    spec_.data.images.reset();
    spec_.data.mixture = mixture;
  }

  absl::StatusOr<DataIndexes> Open(const trainer_spec::Images& images) {
    IndexOptions options;
    options.path = images.path;
    options.folder = dir_ / "index";
    return OpenOrMakeIndexes(*files_, fs_, options);
  }

  // Every place of every step, laid beside the loader's batch.
  void ExpectTheLoadersPixels() {
    std::vector<Mixture::Source> sources;
    std::vector<DataIndexes> for_tool;
    std::vector<const SampleIndex*> train;
    for (const trainer_spec::Data& source : SourcesOf(spec_.data)) {
      const trainer_spec::Images& images = *source.images;
      auto for_loader = Open(images), again = Open(images);
      ASSERT_OK(for_loader);
      ASSERT_OK(again);
      for_tool.push_back(*std::move(again));
      PictureFilesConfig config;
      config.size = images.size;
      config.channels = images.channels;
      config.pixels = PixelScaleOf(images);
      config.decoding = DecodingOf(images);
      config.storage_order = spec_.data.shuffle_window > 0;
      auto made = PictureFiles::Create(files_, std::move(for_loader->splits), config);
      ASSERT_OK(made);
      sources.push_back({"", *std::move(made)});
    }
    for (const DataIndexes& indexes : for_tool) train.push_back(&IndexOf(indexes, Split::kTrain));
    std::unique_ptr<Dataset> dataset;
    if (spec_.data.mixture.has_value()) {
      auto mixture = Mixture::Create(std::move(sources));
      ASSERT_OK(mixture);
      dataset = *std::move(mixture);
    } else {
      dataset = std::move(sources.front().dataset);
    }
    if (spec_.data.subset > 0) {
      dataset =
          KeepSubset(std::move(dataset), Split::kTrain, static_cast<int64_t>(spec_.data.subset));
    }
    const Augmenter augmenter = AugmenterOf(spec_, dataset->pixels());
    const bool augments = augmenter.config().changes_pictures() || augmenter.config().mixes();
    const Sampler sampler = SamplerOf(spec_, dataset->source_sizes());
    const Loader loader(*dataset, sampler, augments ? &augmenter : nullptr,
                        {.threads = 1, .broken_limit = BrokenLimitOf(spec_.data)});
    auto recreation = SampleRecreation::Create(fs_, train, spec_);
    ASSERT_OK(recreation);
    const uint64_t steps = sampler.StepsFor(spec_.epochs);
    for (uint64_t step = 0; step < steps; ++step) {
      const auto batch = loader.TrainBatch(step, 0, 1);
      ASSERT_OK(batch);
      const auto* values = batch->inputs.const_data_ptr<float>();
      const int64_t size = batch->inputs.numel() / batch->inputs.size(0);
      for (int64_t place = 0; place < batch->count; ++place) {
        const auto sample = (*recreation)->Recreate(step, static_cast<uint64_t>(place));
        ASSERT_OK(sample);
        ASSERT_EQ(static_cast<int64_t>(sample->inputs.size()), size);
        EXPECT_EQ(::memcmp(sample->inputs.data(), values + place * size,
                           sample->inputs.size() * sizeof(float)),
                  0)
            << "step " << step << " place " << place;
      }
    }
    EXPECT_THAT((*recreation)->Recreate(steps, 0), StatusIs(StatusCode::kOutOfRange));
    EXPECT_THAT((*recreation)->Recreate(0, spec_.batch_size), StatusIs(StatusCode::kOutOfRange));
  }

  FileSystem& fs_ = PosixFileSystem();
  const std::shared_ptr<AnyFileSystem> files_ = std::make_shared<AnyFileSystem>(fs_);
  TempDir dir_;
  trainer_spec::Train spec_;
};

TEST_F(RecreateSampleTest, WithoutAugmentation) { ExpectTheLoadersPixels(); }

TEST_F(RecreateSampleTest, WithCropFlipAndPolicies) {
  spec_.augment.crop_min_area = 0.3;
  spec_.augment.flip = 0.5;
  spec_.augment.trivial_augment = true;
  spec_.augment.erase = 0.4;
  spec_.data.images->upright = true;
  ExpectTheLoadersPixels();
}

TEST_F(RecreateSampleTest, WithMixupAndCutmix) {
  spec_.augment.crop_min_area = 0.3;
  spec_.augment.mixup = 0.4;
  spec_.augment.cutmix = 1;
  ExpectTheLoadersPixels();
}

TEST_F(RecreateSampleTest, WithMixupAloneOfGreys) {
  spec_.augment.mixup = 0.4;
  spec_.data.images->channels = 1;
  spec_.data.images->mean = {0.5};
  spec_.data.images->std = {0.25};
  ExpectTheLoadersPixels();
}

TEST_F(RecreateSampleTest, OfASubsetWithBrokenSamplesAmongIt) {
  spec_.augment.crop_min_area = 0.3;
  spec_.augment.cutmix = 1;
  spec_.data.subset = 13;
  spec_.data.images->broken_samples = 8;
  for (const int i : {0, 4, 8, 12, 16})
    std::ofstream(absl::StrCat(dir_.path(), "/data/train/class-", i % 3, "/", i, ".jpg")) << "no";
  ExpectTheLoadersPixels();
}

TEST_F(RecreateSampleTest, InWindows) {
  spec_.augment.crop_min_area = 0.3;
  spec_.data.shuffle_window = 10;
  ExpectTheLoadersPixels();
}

TEST_F(RecreateSampleTest, OfAMixtureByWeightsThatChangeAndInWindows) {
  MixWithOthers();
  spec_.augment.mixup = 0.4;
  ExpectTheLoadersPixels();  // as one
  spec_.data.mixture->sources[0].weight = 1;
  spec_.data.mixture->sources[1].weight = 2;
  spec_.data.mixture->phases = {{3, {1, 0}}, {7, {0, 1}}};
  ExpectTheLoadersPixels();
  spec_.data.shuffle_window = 10;
  ExpectTheLoadersPixels();
}

TEST_F(RecreateSampleTest, OfAMixtureWithBrokenSamples) {
  MixWithOthers();
  spec_.data.mixture->sources[0].weight = 1;
  spec_.data.mixture->sources[1].weight = 2;
  spec_.data.mixture->sources[0].images->broken_samples = 5;
  spec_.data.mixture->sources[1].images->broken_samples = 3;
  for (const int i : {0, 4, 8})
    std::ofstream(absl::StrCat(dir_.path(), "/others/train/class-", i % 3, "/", i, ".jpg")) << "no";
  ExpectTheLoadersPixels();
}

TEST_F(RecreateSampleTest, ABrokenSampleIsNamedWhereNoneMayStandIn) {
  for (int i = 0; i < kPictures; ++i)
    std::ofstream(absl::StrCat(dir_.path(), "/data/train/class-", i % 3, "/", i, ".jpg")) << "no";
  const auto indexes = Open(*spec_.data.images);
  ASSERT_OK(indexes);
  const auto recreation = SampleRecreation::Create(fs_, {&IndexOf(*indexes, Split::kTrain)}, spec_);
  ASSERT_OK(recreation);
  EXPECT_THAT((*recreation)->Recreate(0, 0),
              StatusIs(StatusCode::kInvalidArgument, ::testing::HasSubstr("/data/train/class-")));
}

}  // namespace
}  // namespace muster::worker
