#include "worker/data/images/picture_files.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/data/pictures/picture_makers.h"
#include "worker/data/batch_queue.h"
#include "worker/data/index/data_indexes.h"
#include "worker/data/loader.h"
#include "worker/data/model_inputs.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::EncodeJpeg;
using ::muster::testing::MakePhoto;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::HasSubstr;

constexpr int kTrain = 23, kHeldOut = 5;
constexpr int kClasses = 3;

// Pictures of three classes and many sizes, in a folder or in shards.
class PictureFilesTest : public ::testing::Test {
 protected:
  static std::string Jpeg(int i) {
    return EncodeJpeg(
        MakePhoto(40 + 7 * (i % 5), 33 + 5 * (i % 7), i % 6 == 0 ? 1 : 3, static_cast<uint64_t>(i)),
        {.progressive = i % 4 == 3});
  }
  static std::string KeyOf(int i) { return absl::StrCat("class-", i % kClasses, "/", i); }
  static void Write(const std::string& path, const std::string& bytes) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }

  std::string MakeFolder() {
    const std::string folder = dir_ / "folder";
    for (int i = 0; i < kTrain + kHeldOut; ++i)
      Write(absl::StrCat(folder, i < kTrain ? "/train/" : "/val/", KeyOf(i), ".jpg"), Jpeg(i));
    return folder;
  }
  // Two shards for training, one for validation.
  std::string MakeShards() {
    const std::string members = dir_ / "members", shards = dir_ / "shards";
    std::filesystem::create_directories(shards);
    for (int i = 0; i < kTrain + kHeldOut; ++i) {
      const std::string shard = absl::StrCat(members, "/",
                                             i >= kTrain  ? "val-0"
                                             : i % 2 == 0 ? "train-0"
                                                          : "train-1");
      Write(absl::StrCat(shard, "/", KeyOf(i), ".jpg"), Jpeg(i));
      Write(absl::StrCat(shard, "/", KeyOf(i), ".cls"), absl::StrCat(i % kClasses));
    }
    for (const char* shard : {"train-0", "train-1", "val-0"}) {
      const std::string command = absl::StrCat(
          "cd ", members, "/", shard, " && tar --sort=name -cf ", shards, "/", shard, ".tar *");
      EXPECT_EQ(::system(command.c_str()), 0);
    }
    return shards;
  }

  absl::StatusOr<std::unique_ptr<Dataset>> Open(const std::string& path, int64_t classes = 0,
                                                bool storage_order = false) {
    IndexOptions options;
    options.path = path;
    options.folder = dir_ / "index";
    const auto files = std::make_shared<AnyFileSystem>(fs_);
    auto indexes = OpenOrMakeIndexes(*files, fs_, options);
    if (!indexes.ok()) return indexes.status();
    PictureFilesConfig config;
    config.size = 16;
    config.decoding.center_crop = 0.875;
    config.pixels = {{0.4f, 0.5f, 0.6f}, {0.2f, 0.3f, 0.4f}};
    config.classes = classes;
    config.storage_order = storage_order;
    return PictureFiles::Create(files, std::move(indexes->splits), config);
  }

  FileSystem& fs_ = PosixFileSystem();
  TempDir dir_;
};

AugmentConfig CropFlipAndMix() {
  AugmentConfig config;
  config.crop_min_area = 0.3;
  config.flip = 0.5;
  config.trivial_augment = true;
  config.erase = 0.3;
  config.mixup = 0.5;
  config.cutmix = 0.5;
  return config;
}

// The batches of steps [first, end), each of all ranks one after the other.
std::vector<Batch> GlobalBatches(const Loader& loader, uint64_t first, uint64_t end,
                                 uint32_t world) {
  std::vector<std::vector<at::Tensor>> inputs(end), targets(end);
  for (uint32_t rank = 0; rank < world; ++rank) {
    BatchQueue queue([&](uint64_t step) { return loader.BeginTrainBatch(step, rank, world); },
                     first, end, loader.ahead());
    for (uint64_t step = first; step < end; ++step) {
      const absl::StatusOr<Batch> batch = queue.Next();
      EXPECT_OK(batch);
      if (!batch.ok() || batch->count == 0) continue;
      inputs[step].push_back(batch->inputs);
      targets[step].push_back(batch->targets);
    }
  }
  std::vector<Batch> batches(end);
  for (uint64_t step = first; step < end; ++step)
    batches[step] = {.inputs = at::cat(inputs[step]), .targets = at::cat(targets[step])};
  return batches;
}

void ExpectEqual(const std::vector<Batch>& got, const std::vector<Batch>& want, uint64_t first) {
  for (uint64_t step = first; step < want.size(); ++step) {
    EXPECT_TRUE(at::equal(got[step].inputs, want[step].inputs)) << step;
    EXPECT_TRUE(at::equal(got[step].targets, want[step].targets)) << step;
  }
}

TEST_F(PictureFilesTest, TellsSizesClassesAndItsSplits) {
  const auto data = Open(MakeFolder());
  ASSERT_OK(data);
  EXPECT_EQ((*data)->size(Split::kTrain), kTrain);
  EXPECT_EQ((*data)->size(Split::kValidation), kHeldOut);
  EXPECT_EQ((*data)->size(Split::kTest), kHeldOut);  // the same pictures
  EXPECT_EQ((*data)->shape(), (std::vector<int64_t>{3, 16, 16}));
  EXPECT_EQ((*data)->classes(), kClasses);
  EXPECT_EQ((*data)->class_names(), (std::vector<std::string>{"class-0", "class-1", "class-2"}));
}

// Ranks that share batches unequally, any number of threads, and a resume with other ranks.
TEST_F(PictureFilesTest, BatchesHaveTheSameBitsForAnyRanksThreadsFormatAndResume) {
  const auto folder = Open(MakeFolder()), shards = Open(MakeShards());
  ASSERT_OK(folder);
  ASSERT_OK(shards);
  // The class names are all that a folder tells more.
  EXPECT_EQ((*folder)->fingerprint(), (*shards)->fingerprint());
  Sampler sampler(kTrain, 10, 3);
  sampler.LimitToEpochs(2);
  const uint64_t steps = sampler.StepsFor(2);
  const Augmenter augmenter(CropFlipAndMix(), 4);
  const auto batches = [&](const Dataset& data, int threads, uint32_t world, uint64_t first) {
    const Loader loader(data, sampler, &augmenter, {.threads = threads});
    return GlobalBatches(loader, first, steps, world);
  };
  const std::vector<Batch> want = batches(**folder, 1, 1, 0);
  for (const uint32_t world : {1u, 2u, 3u, 5u, 7u}) {
    for (const int threads : {1, 2, 3, 8}) {
      SCOPED_TRACE(absl::StrCat(world, " ranks, ", threads, " threads"));
      ExpectEqual(batches(world % 2 == 0 ? **folder : **shards, threads, world, 0), want, 0);
    }
    for (uint64_t first = 1; first < steps; ++first) {
      SCOPED_TRACE(absl::StrCat(world, " ranks from step ", first));
      ExpectEqual(batches(**shards, 2, world, first), want, first);
    }
  }
}

// As a GPU gets them, which scales them by the same arithmetic.
TEST_F(PictureFilesTest, PixelsThatAreLeftComeToTheSameBitsWhereTheyAreScaled) {
  const auto data = Open(MakeShards());
  ASSERT_OK(data);
  const Sampler sampler(kTrain, 7, 3);
  AugmentConfig config;
  config.crop_min_area = 0.3;
  config.flip = 0.5;
  const Augmenter augmenter(config, 4);
  const Loader floats(**data, sampler, &augmenter, {.threads = 2});
  const Loader pixels(**data, sampler, &augmenter, {.threads = 2, .leave_pixels = true});
  const auto made = [](const Loader& loader, PendingBatch& batch) {
    SampleScratch scratch;
    EXPECT_OK(batch.Make(0, batch.samples(), scratch));
    Batch whole = batch.Finish();
    EXPECT_EQ(whole.inputs.nbytes() + whole.targets.nbytes(),
              static_cast<size_t>(batch.samples() * loader.sample_bytes()));
    return whole;
  };
  for (uint64_t step = 0; step < 4; ++step) {
    const Batch want = made(floats, *floats.BeginTrainBatch(step, 1, 2));
    const Batch left = made(pixels, *pixels.BeginTrainBatch(step, 1, 2));
    EXPECT_EQ(want.pixels, nullptr);
    ASSERT_NE(left.pixels, nullptr);
    EXPECT_EQ(left.inputs.scalar_type(), at::kByte);
    EXPECT_EQ(left.inputs.sizes(), want.inputs.sizes());
    const Batch scaled = WithModelInputs(left);
    EXPECT_EQ(scaled.pixels, nullptr);
    EXPECT_TRUE(scaled.inputs.is_contiguous());
    EXPECT_TRUE(at::equal(scaled.inputs, want.inputs)) << step;
    EXPECT_TRUE(at::equal(scaled.targets, want.targets)) << step;
    // A part of a batch, as an accumulated step takes it, is scaled like the whole.
    Batch part = left;
    part.inputs = left.inputs.narrow(0, 1, 2);
    EXPECT_TRUE(at::equal(WithModelInputs(part).inputs, want.inputs.narrow(0, 1, 2)));
  }
  const Batch want = made(floats, *floats.BeginEvalBatch(Split::kTest, 3, 0, 0, 1));
  const Batch left = made(pixels, *pixels.BeginEvalBatch(Split::kTest, 3, 0, 0, 1));
  EXPECT_TRUE(at::equal(WithModelInputs(left).inputs, want.inputs));
  const Batch stand_ins = pixels.StandIns(0, 1);
  EXPECT_EQ(stand_ins.pixels, nullptr);
  EXPECT_EQ(stand_ins.inputs.scalar_type(), at::kFloat);
  EXPECT_EQ(pixels.sample_bytes() - 8, (floats.sample_bytes() - 8) / 4);
  EXPECT_EQ(pixels.scaled_sample_bytes(), floats.sample_bytes() - 8);
  EXPECT_EQ(floats.scaled_sample_bytes(), 0);
}

// Other changes are made to floats, and mixed samples are floats: nothing of that is left to
// others.
TEST_F(PictureFilesTest, PixelsThatAreChangedOrMixedAreNotLeft) {
  const auto data = Open(MakeFolder());
  ASSERT_OK(data);
  const Sampler sampler(kTrain, 7, 3);
  const auto leaves = [&](void (*change)(AugmentConfig&)) {
    AugmentConfig config;
    config.crop_min_area = 0.3;
    change(config);
    const Augmenter augmenter(config, 4);
    const Loader pixels(**data, sampler, &augmenter, {.leave_pixels = true});
    const Loader floats(**data, sampler, &augmenter);
    const auto begun = pixels.BeginTrainBatch(0, 0, 1);
    SampleScratch scratch;
    EXPECT_OK(begun->Make(0, begun->samples(), scratch));
    const Batch batch = begun->Finish();
    EXPECT_TRUE(at::equal(WithModelInputs(batch).inputs, floats.TrainBatch(0, 0, 1)->inputs));
    return batch.pixels != nullptr;
  };
  EXPECT_TRUE(leaves([](AugmentConfig&) {}));
  EXPECT_TRUE(leaves([](AugmentConfig& config) { config.flip = 1; }));
  EXPECT_FALSE(leaves([](AugmentConfig& config) { config.vertical_flip = 1; }));
  EXPECT_FALSE(leaves([](AugmentConfig& config) { config.crop_padding = 2; }));
  EXPECT_FALSE(leaves([](AugmentConfig& config) { config.trivial_augment = true; }));
  EXPECT_FALSE(leaves([](AugmentConfig& config) { config.rand_augment_ops = 1; }));
  EXPECT_FALSE(leaves([](AugmentConfig& config) { config.color_jitter.hue = 0.1; }));
  EXPECT_FALSE(leaves([](AugmentConfig& config) { config.grey = 1; }));
  EXPECT_FALSE(leaves([](AugmentConfig& config) { config.blur = 1; }));
  EXPECT_FALSE(leaves([](AugmentConfig& config) { config.erase = 1; }));
  EXPECT_FALSE(leaves([](AugmentConfig& config) { config.mixup = 0.5; }));
  EXPECT_FALSE(leaves([](AugmentConfig& config) { config.cutmix = 0.5; }));
}

TEST_F(PictureFilesTest, KnowsWhichSamplesLieSideBySide) {
  const auto data = Open(MakeShards(), 0, /*storage_order=*/true);
  ASSERT_OK(data);
  EXPECT_EQ((*data)->bytes(), kTrain * 4);
  std::vector<std::pair<std::string, uint64_t>> places;  // file and offset
  std::set<int64_t> ids;
  for (int64_t place = 0; place < kTrain; ++place) {
    const int64_t id = (*data)->IdInStorage(place);
    ids.insert(id);
    const std::string name = (*data)->NameOf(Split::kTrain, id);
    const size_t file = name.find("in /") + 3, offset = name.find(" from byte ") + 11;
    places.emplace_back(name.substr(file, name.find(" from byte") - file),
                        std::stoull(name.substr(offset)));
  }
  EXPECT_EQ(ids.size(), kTrain);
  EXPECT_TRUE(std::is_sorted(places.begin(), places.end()));
  EXPECT_NE(places.front().first, places.back().first);
}

// Else machines with other shards of the same samples would take other samples for a step.
TEST_F(PictureFilesTest, WithWindowsTheFingerprintTellsTheOrderInStorage) {
  const std::string folder = MakeFolder(), shards = MakeShards();
  const auto a = Open(folder), b = Open(shards);
  const auto in_folder = Open(folder, 0, /*storage_order=*/true);
  const auto in_shards = Open(shards, 0, /*storage_order=*/true);
  ASSERT_OK(in_folder);
  ASSERT_OK(in_shards);
  EXPECT_EQ((*a)->fingerprint(), (*b)->fingerprint());
  EXPECT_NE((*in_folder)->fingerprint(), (*in_shards)->fingerprint());
  EXPECT_NE((*in_shards)->fingerprint(), (*b)->fingerprint());
}

TEST_F(PictureFilesTest, BatchesOfWindowsHaveTheSameBitsForAnyRanksAndResume) {
  const auto data = Open(MakeShards(), 0, /*storage_order=*/true);
  ASSERT_OK(data);
  const Sampler sampler(kTrain, 6, 3, {.window = 9});
  const Augmenter augmenter(CropFlipAndMix(), 4);
  const Loader loader(**data, sampler, &augmenter, {.threads = 2});
  constexpr uint64_t kSteps = 12;
  const std::vector<Batch> want = GlobalBatches(loader, 0, kSteps, 1);
  for (const uint32_t world : {2u, 3u, 5u, 7u}) {
    SCOPED_TRACE(world);
    ExpectEqual(GlobalBatches(loader, 0, kSteps, world), want, 0);
    ExpectEqual(GlobalBatches(loader, 7, kSteps, world), want, 7);
  }
}

TEST_F(PictureFilesTest, EvaluationTakesTheMiddleOfEachPictureOnce) {
  const auto data = Open(MakeFolder());
  ASSERT_OK(data);
  const Loader loader(**data, Sampler(kTrain, 4, 1));
  int64_t samples = 0;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    for (int64_t i = 0; i < loader.EvalBatches(Split::kTest, 2, rank, 3); ++i) {
      const auto batch = loader.EvalBatch(Split::kTest, 2, i, rank, 3);
      ASSERT_OK(batch);
      samples += batch->count;
    }
  }
  EXPECT_EQ(samples, kHeldOut);
  // By hand: the number of the first validation picture in byte order is that of its key.
  std::vector<std::pair<std::string, int>> keys;
  for (int i = kTrain; i < kTrain + kHeldOut; ++i) keys.push_back({KeyOf(i), i});
  std::sort(keys.begin(), keys.end());
  const int first = keys[0].second;
  const std::string jpeg = Jpeg(first);
  const PictureHeader header = *ReadPictureHeader(jpeg);
  const int side = static_cast<int>(std::lround(std::min(header.width, header.height) * 0.875));
  std::vector<uint8_t> pixels(16 * 16 * 3);
  PictureDecoder decoder;
  ASSERT_OK(decoder.Decode(jpeg, header,
                           {(header.width - side) / 2, (header.height - side) / 2, side, side},
                           {.width = 16, .height = 16, .pixels = pixels.data()}));
  const at::Tensor got = loader.EvalBatch(Split::kTest, 1, 0, 0, 1)->inputs[0];
  const float green = (static_cast<float>(pixels[(5 * 16 + 7) * 3 + 1]) / 255.0f - 0.5f) / 0.3f;
  EXPECT_EQ(got[1][5][7].item<float>(), green);
}

// The third in order is cut off, the fourth is no picture.
TEST_F(PictureFilesTest, OthersStandInForBrokenPicturesOnEveryRankUpToALimit) {
  const std::string folder = MakeFolder();
  const auto whole = Open(folder);
  ASSERT_OK(whole);
  const auto name = [&](int64_t id) {
    const std::string text = (*whole)->NameOf(Split::kTrain, id);
    const size_t begin = text.find("in /") + 3;
    return text.substr(begin, text.find(" from byte") - begin);
  };
  const uint64_t whole_bytes = std::filesystem::file_size(name(2));
  std::filesystem::resize_file(name(2), whole_bytes / 2);
  std::filesystem::resize_file(name(2), whole_bytes);  // zeros
  std::string garbage(std::filesystem::file_size(name(3)), 'x');
  Write(name(3), garbage);

  const Sampler sampler(kTrain, kTrain, 1);
  const auto batch_of = [&](uint64_t limit, uint32_t world) {
    const Loader loader(**whole, sampler, nullptr, {.threads = 2, .broken_limit = limit});
    return GlobalBatches(loader, 0, 1, world)[0].inputs;
  };
  const at::Tensor alone = batch_of(2, 1);
  EXPECT_TRUE(at::equal(batch_of(2, 3), alone));
  const std::vector<int64_t> ids = sampler.Ids(0, 0, 1);
  const auto place = [&](int64_t id) {
    return std::find(ids.begin(), ids.end(), id) - ids.begin();
  };
  EXPECT_TRUE(at::equal(alone[place(2)], alone[place(4)]));
  EXPECT_TRUE(at::equal(alone[place(3)], alone[place(4)]));

  const Loader strict(**whole, sampler, nullptr, {.threads = 2, .broken_limit = 1});
  const auto refused = strict.TrainBatch(0, 0, 1);
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("train.data.images.broken_samples"));
  EXPECT_THAT(refused.status().message(), HasSubstr("class-"));
}

TEST_F(PictureFilesTest, AFileThatIsGoneOrShorterIsNamed) {
  const std::string shards = MakeShards();
  const auto data = Open(shards);
  ASSERT_OK(data);
  std::filesystem::resize_file(shards + "/train-1.tar", 600);
  const Loader loader(**data, Sampler(kTrain, kTrain, 1));
  const auto shorter = loader.TrainBatch(0, 0, 1);
  EXPECT_THAT(shorter, StatusIs(StatusCode::kDataLoss));
  EXPECT_THAT(shorter.status().message(), HasSubstr("train-1.tar"));
  std::filesystem::remove(shards + "/train-1.tar");
  const auto gone = loader.TrainBatch(0, 0, 1);
  EXPECT_THAT(gone, StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(gone.status().message(), HasSubstr("train-1.tar"));
}

TEST_F(PictureFilesTest, DataThatCannotBeTrainedOnAreRefused) {
  const std::string folder = MakeFolder();
  EXPECT_THAT(Open(folder, /*classes=*/2), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_OK(Open(folder, /*classes=*/1000));
  EXPECT_THAT(Open(dir_ / "nowhere"), StatusIs(StatusCode::kNotFound));
  Write(dir_ / "one/train/class-0/a.jpg", Jpeg(1));
  EXPECT_THAT(Open(dir_ / "one"), StatusIs(StatusCode::kInvalidArgument,
                                           HasSubstr("the validation set has no pictures")));
  Write(dir_ / "one/val/class-0/b.jpg", Jpeg(1));
  const auto one = Open(dir_ / "one");
  EXPECT_THAT(one, StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(one.status().message(), HasSubstr("class"));
}

// Where nothing is named for it, parts of the training set are for validation and test: the same
// ones in every format.
TEST_F(PictureFilesTest, ATenthEachIsSplitOffByKey) {
  for (int i = 0; i < 300; ++i)
    Write(absl::StrCat(dir_ / "plain", "/", KeyOf(i), ".jpg"), "never read");
  const auto data = Open(dir_ / "plain");
  ASSERT_OK(data);
  const int64_t train = (*data)->size(Split::kTrain);
  const int64_t validation = (*data)->size(Split::kValidation), test = (*data)->size(Split::kTest);
  EXPECT_EQ(train + validation + test, 300);
  EXPECT_NEAR(static_cast<double>(validation), 30, 20);
  EXPECT_NEAR(static_cast<double>(test), 30, 20);
}

}  // namespace
}  // namespace muster::worker
