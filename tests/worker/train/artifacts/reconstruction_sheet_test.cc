#include "worker/train/artifacts/reconstruction_sheet.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/data/base/dataset.h"
#include "worker/models/mae.h"
#include "worker/train/artifacts/png.h"

namespace muster::worker {
namespace {

using muster::testing::StatusIs;
using ::testing::HasSubstr;

// The colour of the pixel (x, y) of picture `column` in `row` of a sheet of 64 x 64 pictures.
std::vector<int64_t> PixelOf(const at::Tensor& sheet, int64_t row, int64_t column, int64_t y,
                             int64_t x) {
  const int64_t cell = 64 + 2 * kSheetMargin;
  const at::Tensor pixel =
      sheet[row * cell + kSheetMargin + y][column * cell + kSheetMargin + x].to(at::kLong);
  return {pixel[0].item<int64_t>(), pixel[1].item<int64_t>(), pixel[2].item<int64_t>()};
}

TEST(DrawSheet, ShowsOriginalWhatWasShownAndReconstructionBelowEachOther) {
  const at::NoGradGuard no_grad;
  at::Tensor originals = at::full({2, 1, 8, 8}, -1.0);  // enlarged eightfold
  originals[1].fill_(1);
  at::Tensor hidden = at::zeros({2, 1, 8, 8}, at::kBool);
  hidden[0][0][0][0] = true;
  at::Tensor reconstructions = originals.clone();
  reconstructions[0][0][0][0] = 0.0;
  const at::Tensor sheet = DrawSheet(originals, hidden, reconstructions);
  EXPECT_EQ(sheet.sizes(), at::IntArrayRef({3 * 68, 2 * 68, 3}));
  using Colour = std::vector<int64_t>;
  const Colour kBlack = {0, 0, 0}, kWhite = {255, 255, 255};
  EXPECT_EQ(PixelOf(sheet, 0, 0, 0, 0), kBlack);
  EXPECT_EQ(PixelOf(sheet, 0, 0, -1, 0), kWhite);  // the margin
  EXPECT_EQ(PixelOf(sheet, 0, 1, 5, 5), kWhite);
  EXPECT_EQ(PixelOf(sheet, 1, 0, 7, 7), (Colour{128, 128, 128}));
  EXPECT_EQ(PixelOf(sheet, 1, 0, 8, 8), kBlack);
  const Colour middle = PixelOf(sheet, 2, 0, 7, 7);
  EXPECT_NEAR(static_cast<double>(middle[0]), 127.5, 0.5);
  EXPECT_EQ(PixelOf(sheet, 2, 0, 8, 8), kBlack);
}

TEST(DrawSheet, ThreeChannelsAreColoursAndOfOthersTheFirstIsShown) {
  at::Tensor colours = at::zeros({1, 3, 64, 64});
  colours[0][1].fill_(1);
  const at::Tensor none = at::zeros({1, 3, 64, 64}, at::kBool);
  EXPECT_EQ(PixelOf(DrawSheet(colours, none, colours), 0, 0, 3, 3),
            (std::vector<int64_t>{0, 255, 0}));
  const at::Tensor two = colours.narrow(1, 1, 2);
  EXPECT_EQ(PixelOf(DrawSheet(two, none.narrow(1, 0, 2), two), 0, 0, 3, 3),
            (std::vector<int64_t>{255, 255, 255}));
}

TEST(EncodePng, RefusesWhatIsNoPicture) {
  ASSERT_OK(EncodePng(std::string(12, 'a'), 2, 2));
  EXPECT_THAT(EncodePng("abc", 2, 2).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 bytes")));
  EXPECT_THAT(EncodePng("", 0, 0).status(), StatusIs(absl::StatusCode::kInvalidArgument));
}

class Sheets : public ::testing::Test {
 protected:
  Sheets() {
    auto dataset = MakeSynthetic({40, {1, 8, 8}, 3, /*seed=*/1});
    EXPECT_OK(dataset);
    dataset_ = *std::move(dataset);
    auto model = MakeMae({.patch_size = 4,
                          .layers = 1,
                          .heads = 2,
                          .width = 8,
                          .mlp_width = 16,
                          .decoder_layers = 1,
                          .decoder_heads = 1,
                          .decoder_width = 4,
                          .decoder_mlp_width = 8},
                         {{1, 8, 8}, 3, /*seed=*/2});
    EXPECT_OK(model);
    model_ = *std::move(model);
  }

  muster::testing::TempDir folder_;
  std::unique_ptr<Dataset> dataset_;
  std::unique_ptr<Model> model_;
};

TEST_F(Sheets, AreWrittenEverySoManyStepsAndLeaveTheRunAsItWas) {
  const Loader loader(*dataset_, Sampler(40, 4, 1));
  const std::string place = folder_ / "artifacts";
  const auto sheets = *MakeReconstructionSheets(PosixFileSystem(), *model_, loader, at::kCPU,
                                                {place, 3, {.patch_size = 4}});
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_current_seed(9);
  const at::Tensor without = at::rand({4});
  generator.set_current_seed(9);
  for (int64_t done = 1; done <= 7; ++done) sheets->AfterStep(done);
  EXPECT_TRUE(at::equal(at::rand({4}), without));
  EXPECT_TRUE(model_->training());
  const auto files = PosixFileSystem().List(place);
  ASSERT_OK(files);
  std::vector<std::string> names;
  for (const FileInfo& file : *files) names.push_back(file.name);
  EXPECT_THAT(names, ::testing::ElementsAre("reconstructions-00000003.png",
                                            "reconstructions-00000006.png"));
}

TEST_F(Sheets, LetTheRunGoOnWhenTheyCannotBeWritten) {
  const Loader loader(*dataset_, Sampler(40, 4, 1));
  const std::string blocked = folder_ / "artifacts";
  ASSERT_OK(WriteFileAtomically(PosixFileSystem(), blocked, "a file where the folder should be"));
  const auto sheets = *MakeReconstructionSheets(PosixFileSystem(), *model_, loader, at::kCPU,
                                                {blocked, 1, {.patch_size = 4}});
  sheets->AfterStep(1);
  EXPECT_TRUE(model_->training());
}

}  // namespace
}  // namespace muster::worker
