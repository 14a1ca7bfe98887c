// CIFAR's binary files and NumPy's arrays, made here as their writers make them.
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/unlistable_files.h"
#include "worker/data/loader.h"
#include "worker/data/subset.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::muster::testing::UnlistableFiles;
using ::testing::AllOf;
using ::testing::HasSubstr;

class FileSourcesTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& bytes) {
    EXPECT_OK(WriteFileAtomically(PosixFileSystem(), dir_ / name, bytes));
  }

  // What numpy.save writes: the header padded so that the data begin at a multiple of 64.
  void WriteNpy(const std::string& name, const std::string& descr, const std::string& shape,
                const std::string& data, const char* order = "False") {
    std::string header = absl::StrCat("{'descr': '", descr, "', 'fortran_order': ", order,
                                      ", 'shape': (", shape, "), }");
    while ((10 + header.size() + 1) % 64 != 0) header += ' ';
    header += '\n';
    std::string bytes("\x93NUMPY\x01\x00", 8);
    bytes += static_cast<char>(header.size() & 0xff);
    bytes += static_cast<char>(header.size() >> 8);
    Write(name, bytes + header + data);
  }

  template <typename T>
  static std::string Bytes(const std::vector<T>& values) {
    std::string bytes(values.size() * sizeof(T), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }

  absl::StatusOr<std::unique_ptr<Dataset>> Numpy(std::vector<float> mean = {},
                                                 std::vector<float> std = {}) {
    return ReadNumpy(PosixFileSystem(), {dir_.path(), std::move(mean), std::move(std)});
  }
  absl::StatusOr<std::unique_ptr<Dataset>> Cifar() {
    return ReadCifar(PosixFileSystem(), {dir_.path()});
  }

  TempDir dir_;
};

std::string CifarRecords(int count, int label_bytes, int first) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    if (label_bytes == 2) bytes += '\x07';
    bytes += static_cast<char>((first + i) % 10);
    bytes += std::string(3072, static_cast<char>(first + i));
  }
  return bytes;
}

TEST_F(FileSourcesTest, Cifar10HoldsATenthOfTheTrainingFilesBack) {
  for (int i = 1; i <= 5; ++i)
    Write(absl::StrCat("data_batch_", i, ".bin"), CifarRecords(20, 1, 20 * i));
  Write("test_batch.bin", CifarRecords(5, 1, 0));
  ASSERT_OK_AND_ASSIGN(const auto cifar, Cifar());
  EXPECT_EQ(cifar->size(Split::kTrain) + cifar->size(Split::kValidation), 100);
  EXPECT_GT(cifar->size(Split::kValidation), 3);
  EXPECT_EQ(cifar->size(Split::kTest), 5);
  EXPECT_EQ(cifar->classes(), 10);
  const Loader loader(*cifar, Sampler(90, 4, 1));
  const Batch batch = *loader.EvalBatch(Split::kTest, 5, 0, 0, 1);
  EXPECT_EQ(batch.targets[3].item<int64_t>(), 3);
  EXPECT_NEAR(batch.inputs[3][1][0][0].item<float>(), (3 / 255.0 - 0.4822) / 0.2435, 1e-5);
}

TEST_F(FileSourcesTest, Cifar100TakesTheFineClass) {
  Write("train.bin", CifarRecords(60, 2, 0));
  Write("test.bin", CifarRecords(4, 2, 1));
  ASSERT_OK_AND_ASSIGN(const auto cifar, Cifar());
  EXPECT_EQ(cifar->classes(), 100);
  EXPECT_EQ(cifar->Range(Split::kTest, 0, 1).targets[0].item<int64_t>(), 1);
}

TEST_F(FileSourcesTest, CifarsClassesHaveTheNamesOfTheFileBesideThem) {
  for (int i = 1; i <= 5; ++i)
    Write(absl::StrCat("data_batch_", i, ".bin"), CifarRecords(20, 1, 0));
  Write("test_batch.bin", CifarRecords(5, 1, 0));
  ASSERT_OK_AND_ASSIGN(const auto nameless, Cifar());
  EXPECT_THAT(nameless->class_names(), ::testing::IsEmpty());
  Write("batches.meta.txt", "a\nb\nc\nd\ne\r\nf\ng\nh\ni\nj\n\n");
  ASSERT_OK_AND_ASSIGN(const auto named, Cifar());
  EXPECT_THAT(named->class_names(),
              ::testing::ElementsAre("a", "b", "c", "d", "e", "f", "g", "h", "i", "j"));
  Write("batches.meta.txt", "a\nb\n");
  EXPECT_THAT(Cifar().status(), StatusIs(StatusCode::kInvalidArgument,
                                         HasSubstr("batches.meta.txt names 2 classes, want 10")));
}

TEST_F(FileSourcesTest, CifarNamesTheFileThatIsMissingOrCut) {
  EXPECT_THAT(Cifar().status(), StatusIs(StatusCode::kNotFound, HasSubstr("data_batch_1.bin")));
  Write("train.bin", CifarRecords(60, 2, 0));
  EXPECT_THAT(Cifar().status(), StatusIs(StatusCode::kNotFound, HasSubstr("test.bin")));
  Write("test.bin", CifarRecords(4, 2, 1).substr(1));
  EXPECT_THAT(Cifar().status(),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("test.bin"), HasSubstr("records of 3074"))));
}

TEST_F(FileSourcesTest, NumpyBytesArePixelsAndMissingSetsAreSplitOff) {
  std::vector<uint8_t> pixels(100 * 2 * 1 * 1);
  std::vector<int64_t> classes(100);
  for (size_t i = 0; i < 100; ++i) {
    pixels[2 * i] = pixels[2 * i + 1] = static_cast<uint8_t>(i);
    classes[i] = static_cast<int64_t>(i % 3);
  }
  WriteNpy("train_inputs.npy", "|u1", "100, 2, 1, 1", Bytes(pixels));
  WriteNpy("train_targets.npy", "<i8", "100,", Bytes(classes));
  ASSERT_OK_AND_ASSIGN(const auto numpy, Numpy());
  EXPECT_EQ(numpy->classes(), 3);
  int64_t total = 0;
  std::vector<bool> seen(100);
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    const Dataset::Part part = numpy->Range(split, 0, numpy->size(split));
    total += numpy->size(split);
    for (int64_t i = 0; i < numpy->size(split); ++i) {
      const int value = part.inputs[i][0][0][0].item<uint8_t>();
      EXPECT_EQ(part.targets[i].item<int64_t>(), value % 3);
      seen[static_cast<size_t>(value)] = true;
    }
  }
  EXPECT_EQ(total, 100);
  EXPECT_THAT(seen, ::testing::Each(true));
  const Loader loader(*numpy, Sampler(10, 4, 1));
  const int first = numpy->Range(Split::kTest, 0, 1).inputs[0][0][0][0].item<uint8_t>();
  EXPECT_NEAR(loader.EvalBatch(Split::kTest, 1, 0, 0, 1)->inputs[0][1][0][0].item<float>(),
              (first / 255.0 - 0.5) / 0.5, 1e-6);
}

TEST_F(FileSourcesTest, WhatNeedNotBeThereMayBeDenied) {
  UnlistableFiles files;
  EXPECT_THAT(ReadNumpy(files, {dir_.path(), {}, {}}), StatusIs(StatusCode::kPermissionDenied));
  EXPECT_THAT(ReadCifar(files, {dir_.path()}), StatusIs(StatusCode::kPermissionDenied));
  WriteNpy("train_inputs.npy", "|u1", "40, 2, 1, 1", std::string(80, '\1'));
  WriteNpy("train_targets.npy", "|u1", "40,", std::string(40, '\1'));
  ASSERT_OK_AND_ASSIGN(const auto arrays, ReadNumpy(files, {dir_.path(), {}, {}}));
  EXPECT_GT(arrays->size(Split::kValidation), 0);
  Write("train.bin", CifarRecords(60, 2, 0));
  Write("test.bin", CifarRecords(4, 2, 1));
  EXPECT_OK(ReadCifar(files, {dir_.path()}));
}

TEST_F(FileSourcesTest, NumpyFloatsAreTakenAsTheyAreAndMayBeRegressed) {
  const std::vector<double> inputs = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> targets = {0.5f, 1.5f, 2.5f, 3.5f};
  for (const char* split : {"train", "validation", "test"}) {
    WriteNpy(absl::StrCat(split, "_inputs.npy"), "<f8", "4, 2", Bytes(inputs));
    WriteNpy(absl::StrCat(split, "_targets.npy"), "<f4", "4,", Bytes(targets));
  }
  ASSERT_OK_AND_ASSIGN(const auto numpy, Numpy());
  EXPECT_EQ(numpy->classes(), 1);
  EXPECT_EQ(numpy->Range(Split::kTrain, 0, 4).targets.sizes(), at::IntArrayRef({4, 1}));
  EXPECT_EQ(numpy->Range(Split::kTest, 3, 1).inputs[0][1].item<float>(), 8.0f);
}

TEST_F(FileSourcesTest, NumpyNamesFileAndFault) {
  const auto says = [&](StatusCode code, const char* text) {
    EXPECT_THAT(Numpy().status(), StatusIs(code, HasSubstr(text)));
  };
  says(StatusCode::kNotFound, "train_inputs.npy");
  WriteNpy("train_inputs.npy", "<f4", "2, 2", Bytes<float>({1, 2, 3, 4}));
  says(StatusCode::kNotFound, "train_targets.npy is not there");
  WriteNpy("train_targets.npy", "<i8", "3,", Bytes<int64_t>({0, 1, 2}));
  says(StatusCode::kInvalidArgument, "has 3 targets for 2 inputs");
  WriteNpy("train_targets.npy", "<i8", "2,", Bytes<int64_t>({0, -1}));
  says(StatusCode::kInvalidArgument, "class below 0");
  WriteNpy("train_targets.npy", "<i8", "2,", Bytes<int64_t>({0}));
  says(StatusCode::kInvalidArgument, "its header says");
  WriteNpy("train_targets.npy", "|O", "2,", "");
  says(StatusCode::kInvalidArgument, "type '|O'");
  WriteNpy("train_targets.npy", "<i8", "2, 2", Bytes<int64_t>({0, 1, 0, 1}), "True");
  says(StatusCode::kInvalidArgument, "Fortran order");
  Write("train_targets.npy", "not numpy at all");
  says(StatusCode::kInvalidArgument, "is no NumPy file");
  WriteNpy("train_targets.npy", "<i8", "9223372036854775807,", "");
  says(StatusCode::kResourceExhausted, "train_targets.npy");
  WriteNpy("train_targets.npy", "<i8", "2,", Bytes<int64_t>({0, 1}));
  says(StatusCode::kInvalidArgument, "would be empty");
}

TEST_F(FileSourcesTest, ScaleMustHaveANumberForEachChannel) {
  WriteNpy("train_inputs.npy", "|u1", "40, 2, 1, 1", std::string(80, '\1'));
  WriteNpy("train_targets.npy", "|u1", "40,", std::string(40, '\1'));
  EXPECT_THAT(Numpy({0.5f}, {0.5f}).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("2 numbers")));
  EXPECT_OK(Numpy({0.5f, 0.1f}, {0.5f, 0.2f}));
}

TEST(Subset, IsAlwaysTheSameAndNamedInTheFingerprint) {
  const auto make = [] { return *MakeSynthetic({100, {4}, 3, 1}); };
  const auto all = make();
  const auto few = KeepSubset(make(), Split::kTrain, 10);
  const auto again = KeepSubset(make(), Split::kTrain, 10);
  EXPECT_EQ(few->size(Split::kTrain), 10);
  EXPECT_EQ(few->size(Split::kTest), 10);
  const Dataset::Part part = few->Range(Split::kTrain, 0, 10);
  EXPECT_TRUE(at::equal(part.inputs, again->Range(Split::kTrain, 0, 10).inputs));
  EXPECT_FALSE(at::equal(part.inputs, all->Range(Split::kTrain, 0, 10).inputs));
  EXPECT_TRUE(at::equal(few->Gather(Split::kTrain, {7}).inputs[0], part.inputs[7]));
  EXPECT_TRUE(
      at::equal(few->Range(Split::kTest, 2, 3).inputs, all->Range(Split::kTest, 2, 3).inputs));
  EXPECT_EQ(few->fingerprint(), all->fingerprint() + ":train=10");
  EXPECT_EQ(KeepSubset(make(), Split::kTrain, 1000)->fingerprint(), all->fingerprint());
}

TEST_F(FileSourcesTest, NumpyFloatsAreScaledByMeanAndStd) {
  for (const char* split : {"train", "validation", "test"}) {
    WriteNpy(absl::StrCat(split, "_inputs.npy"), "<f4", "2, 1, 1, 2", Bytes<float>({0, 1, 0.5, 1}));
    WriteNpy(absl::StrCat(split, "_targets.npy"), "<i8", "2,", Bytes<int64_t>({0, 1}));
  }
  ASSERT_OK_AND_ASSIGN(const auto numpy, Numpy({0.5f}, {0.25f}));
  const Loader loader(*numpy, Sampler(2, 2, 1));
  const at::Tensor inputs = loader.EvalBatch(Split::kTest, 2, 0, 0, 1)->inputs;
  EXPECT_EQ(inputs[0][0][0][0].item<float>(), -2.0f);
  EXPECT_EQ(inputs[0][0][0][1].item<float>(), 2.0f);
}

// 100 rows of a number, its half and a constant; the class is whether the number is odd.
std::string CsvText(int first = 0, int count = 100) {
  std::string text = "a,half,one,kind\n";
  for (int i = first; i < first + count; ++i) {
    absl::StrAppend(&text, i, ",", i / 2.0, ",1,", i % 2 == 0 ? "even" : "odd", "\n");
  }
  return text;
}

TEST_F(FileSourcesTest, ACsvFileIsSplitAndNormalised) {
  Write("table.csv", CsvText());
  ASSERT_OK_AND_ASSIGN(const auto csv, ReadCsv(PosixFileSystem(), {dir_ / "table.csv", "kind"}));
  EXPECT_EQ(csv->shape(), (std::vector<int64_t>{3}));
  EXPECT_EQ(csv->classes(), 2);
  EXPECT_EQ(csv->class_names(), (std::vector<std::string>{"even", "odd"}));
  const int64_t train = csv->size(Split::kTrain);
  EXPECT_EQ(train + csv->size(Split::kValidation) + csv->size(Split::kTest), 100);
  const Dataset::Part part = csv->Range(Split::kTrain, 0, train);
  const float* values = part.inputs.const_data_ptr<float>();
  double sum = 0, squares = 0;
  for (int64_t row = 0; row < train; ++row) {
    const float* features = values + 3 * row;
    sum += static_cast<double>(features[0]);
    squares += static_cast<double>(features[0] * features[0]);
    EXPECT_NEAR(features[0], features[1], 1e-5);
    EXPECT_EQ(features[2], 0);
    const double number = static_cast<double>(features[0] * csv->pixels().std[0]) +
                          static_cast<double>(csv->pixels().mean[0]);
    EXPECT_EQ(std::lround(number) % 2, part.targets.const_data_ptr<int64_t>()[row]);
  }
  EXPECT_NEAR(sum / static_cast<double>(train), 0, 1e-5);
  EXPECT_NEAR(squares / static_cast<double>(train), 1, 1e-4);
}

TEST_F(FileSourcesTest, ACsvFolderHasTheTrainingSetsColumnsAndClasses) {
  Write("train.csv", CsvText());
  Write("validation.csv", "kind,one,half,a\nodd,1,2.5,5\n");
  Write("test.csv", CsvText(7, 3));
  const CsvSourceConfig config = {dir_.path(), "kind", {"half", "a"}, false, false};
  ASSERT_OK_AND_ASSIGN(const auto csv, ReadCsv(PosixFileSystem(), config));
  EXPECT_EQ(csv->size(Split::kTrain), 100);
  EXPECT_EQ(csv->size(Split::kTest), 3);
  const Dataset::Part part = csv->Range(Split::kValidation, 0, 1);
  EXPECT_EQ(part.inputs.const_data_ptr<float>()[0], 2.5f);
  EXPECT_EQ(part.inputs.const_data_ptr<float>()[1], 5.0f);
  EXPECT_EQ(part.targets.const_data_ptr<int64_t>()[0], 1);
  Write("test.csv", "a,half,one,kind\n1,2,3,prime\n");
  EXPECT_THAT(
      ReadCsv(PosixFileSystem(), config),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("test.csv:2: column kind is \"prime\"")));
}

TEST_F(FileSourcesTest, ACsvTargetMayBeANumber) {
  Write("train.csv", CsvText());
  ASSERT_OK_AND_ASSIGN(const auto csv,
                       ReadCsv(PosixFileSystem(), {dir_.path(), "half", {"a"}, true, false}));
  EXPECT_EQ(csv->target_type(), at::kFloat);
  EXPECT_EQ(csv->target_shape(), (std::vector<int64_t>{1}));
  const Dataset::Part part = csv->Range(Split::kTrain, 4, 1);
  EXPECT_EQ(part.inputs.const_data_ptr<float>()[0], 2 * part.targets.const_data_ptr<float>()[0]);
  EXPECT_THAT(ReadCsv(PosixFileSystem(), {dir_ / "none.csv", "half"}),
              StatusIs(StatusCode::kNotFound, HasSubstr("none.csv is not there")));
  Write("small.csv", "a,y\n1,0\n");
  EXPECT_THAT(ReadCsv(PosixFileSystem(), {dir_ / "small.csv", "y"}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("set would be empty")));
}

}  // namespace
}  // namespace muster::worker
