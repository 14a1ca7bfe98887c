// The same samples in every format give the same list: keys, bytes and labels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/data/formats/support/format_bytes.h"
#include "tests/worker/data/formats/support/lmdb_writer.h"
#include "tests/worker/data/formats/support/sample_list.h"
#include "worker/data/formats/image_folder.h"
#include "worker/data/formats/lmdb.h"
#include "worker/data/formats/record_io.h"
#include "worker/data/formats/tf_record.h"
#include "worker/data/formats/web_dataset.h"

namespace muster::worker {
namespace {

using ::muster::testing::BytesFeature;
using ::muster::testing::DatumBytes;
using ::muster::testing::ImageRecord;
using ::muster::testing::IntegerFeature;
using ::muster::testing::LmdbWriter;
using ::muster::testing::RecordIoBytes;
using ::muster::testing::TarEnd;
using ::muster::testing::TarFile;
using ::muster::testing::TempDir;
using ::muster::testing::TfExampleBytes;
using ::muster::testing::TfRecordBytes;

void WriteFile(const std::string& path, const std::string& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

// Sizes from nothing to more than a window; names whose order is not that of their folders.
std::vector<WholeSample> SomeSamples() {
  const std::string classes[] = {"a", "a-b", "c"};
  std::vector<WholeSample> samples;
  for (int i = 0; i < 40; ++i) {
    std::string bytes = absl::StrCat("\xff\xd8\xff", i);
    bytes.resize(5 + static_cast<size_t>(i * i * 37 % 3001) + (i == 7 ? 100'000 : 0), 'x');
    samples.push_back(
        {absl::StrCat(classes[i % 3], "/", absl::StrFormat("%03d", i)), bytes, i % 3});
  }
  std::sort(samples.begin(), samples.end());
  return samples;
}

class FormatsEqual : public ::testing::Test {
 protected:
  template <typename Index>
  void ExpectSame(const Index& index) {
    SampleList list;
    ASSERT_OK(index(list));
    ASSERT_OK_AND_ASSIGN(const std::vector<WholeSample> whole, list.Read(PosixFileSystem()));
    EXPECT_EQ(whole, samples_);
  }

  TempDir dir_;
  const std::vector<WholeSample> samples_ = SomeSamples();
  FileSystem& fs_ = PosixFileSystem();
};

TEST_F(FormatsEqual, ImageFolder) {
  for (const WholeSample& sample : samples_) WriteFile(dir_ / sample.key + ".jpg", sample.bytes);
  ExpectSame([&](SampleSink& sink) { return IndexImageFolder(fs_, dir_.path(), {}, sink); });
}

TEST_F(FormatsEqual, WebDataset) {
  std::string tar;
  for (const WholeSample& sample : samples_) {
    tar += TarFile(sample.key + ".cls", absl::StrCat(sample.label));
    tar += TarFile(sample.key + ".jpg", sample.bytes);
  }
  WriteFile(dir_ / "t.tar", tar + TarEnd());
  ExpectSame([&](SampleSink& sink) { return IndexWebDataset(fs_, dir_ / "t.tar", {}, sink); });
}

TEST_F(FormatsEqual, TfRecord) {
  std::string records;
  for (const WholeSample& sample : samples_) {
    records +=
        TfRecordBytes(TfExampleBytes({{"image/class/label", IntegerFeature(sample.label)},
                                      {"image/encoded", BytesFeature(sample.bytes)},
                                      {"image/filename", BytesFeature(sample.key + ".jpg")}}));
  }
  WriteFile(dir_ / "t.tfrecord", records);
  ExpectSame([&](SampleSink& sink) { return IndexTfRecords(fs_, dir_ / "t.tfrecord", {}, sink); });
}

TEST_F(FormatsEqual, RecordIo) {
  std::string records, idx;
  for (const WholeSample& sample : samples_) {
    absl::StrAppend(&idx, sample.key, "\t", records.size(), "\n");
    records += RecordIoBytes(ImageRecord({static_cast<float>(sample.label)}, sample.bytes));
  }
  WriteFile(dir_ / "t.rec", records);
  WriteFile(dir_ / "t.idx", idx);
  ExpectSame([&](SampleSink& sink) { return IndexRecordIo(fs_, dir_ / "t.rec", {}, sink); });
}

TEST_F(FormatsEqual, LmdbOfDatums) {
  LmdbWriter::Items items;
  for (const WholeSample& sample : samples_) {
    items.emplace_back(sample.key + ".jpg",
                       DatumBytes(static_cast<int32_t>(sample.label), sample.bytes));
  }
  LmdbWriter(dir_.path()).Put(items);
  ExpectSame([&](SampleSink& sink) { return IndexLmdb(fs_, dir_ / "data.mdb", {}, sink); });
}

TEST_F(FormatsEqual, LmdbOfPictures) {
  LmdbWriter::Items items;
  for (const WholeSample& sample : samples_) items.emplace_back(sample.key + ".jpg", sample.bytes);
  LmdbWriter(dir_.path()).Put(items);
  ExpectSame([&](SampleSink& sink) { return IndexLmdb(fs_, dir_ / "data.mdb", {}, sink); });
}

}  // namespace
}  // namespace muster::worker
