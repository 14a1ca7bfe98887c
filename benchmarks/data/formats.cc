// How fast the samples of each format are found, and how fast their bytes are read, with one thread
// and files that are in the page cache, beside a copy of the same bytes in memory.
//
// Writes the files itself, one format after the other, and removes them; only Parquet, which Muster
// does not write, it is given. Prints a line for each.
#include <string.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "tests/support/temp_dir.h"
#include "tests/worker/data/formats/support/format_bytes.h"
#include "tests/worker/data/formats/support/lmdb_writer.h"
#include "tests/worker/data/formats/support/sample_list.h"
#include "worker/data/formats/image_folder.h"
#include "worker/data/formats/lmdb.h"
#include "worker/data/formats/record_io.h"
#include "worker/data/formats/tf_record.h"
#include "worker/data/formats/web_dataset.h"
#include "worker/data/parquet/image_rows.h"
#include "worker/data/parquet/parquet_file.h"
#include "worker/data/text/token_windows.h"

namespace muster::worker {
namespace {

using Clock = std::chrono::steady_clock;
using ::muster::testing::TempDir;

struct Plan {
  int samples = 5000;
  size_t bytes = 103'000;  // of one; an ImageNet picture of 500x375
  int rounds = 3;          // the fastest counts
  std::string parquet = {};
};

std::string KeyOf(int i) { return absl::StrFormat("class%03d/img_%07d", i % 100, i); }

std::string PictureOf(const Plan& plan, int i) {
  std::string bytes(plan.bytes, static_cast<char>(i));
  return bytes.replace(0, 3, "\xff\xd8\xff");
}

double SecondsOf(const std::function<void()>& work) {
  const Clock::time_point start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double FastestOf(const Plan& plan, const std::function<void()>& work) {
  double fastest = SecondsOf(work);
  for (int i = 1; i < plan.rounds; ++i) fastest = std::min(fastest, SecondsOf(work));
  return fastest;
}

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::cerr << status << "\n";
  std::exit(1);
}

using IndexOne = std::function<absl::Status(FileSystem& fs, SampleSink& sink)>;

void Measure(const Plan& plan, const char* name, int members_per_sample, const IndexOne& index) {
  FileSystem& fs = PosixFileSystem();
  SampleList list;
  const double index_seconds = FastestOf(plan, [&] {
    list = SampleList();
    Check(index(fs, list));
  });
  std::vector<ListedSample> samples = list.samples();
  std::shuffle(samples.begin(), samples.end(), std::mt19937(1));
  std::string buffer(plan.bytes, '\0');
  const double read_seconds = FastestOf(plan, [&] {
    for (const ListedSample& sample : samples) {
      Check(ReadSample(fs, list.path(sample.file), sample.offset, sample.size, buffer.data()));
    }
  });
  const double count = static_cast<double>(samples.size());
  absl::PrintF("%-13s %11.0f members/s %11.0f samples/s indexed; %9.0f samples/s %6.2f GB/s read\n",
               name, count * members_per_sample / index_seconds, count / index_seconds,
               count / read_seconds, count * static_cast<double>(plan.bytes) / read_seconds / 1e9);
}

void MeasureTar(const Plan& plan) {
  TempDir dir;
  std::ofstream out(dir / "t.tar", std::ios::binary);
  for (int i = 0; i < plan.samples; ++i) {
    out << testing::TarFile(KeyOf(i) + ".cls", absl::StrFormat("%d", i % 100))
        << testing::TarFile(KeyOf(i) + ".jpg", PictureOf(plan, i));
  }
  out << testing::TarEnd();
  out.close();
  Measure(plan, "web_dataset", 2, [&](FileSystem& fs, SampleSink& sink) {
    return IndexWebDataset(fs, dir / "t.tar", {}, sink).status();
  });
}

void MeasureTfRecord(const Plan& plan) {
  TempDir dir;
  std::ofstream out(dir / "t.tfrecord", std::ios::binary);
  for (int i = 0; i < plan.samples; ++i) {
    out << testing::TfRecordBytes(
        testing::TfExampleBytes({{"image/class/label", testing::IntegerFeature(i % 100)},
                                 {"image/encoded", testing::BytesFeature(PictureOf(plan, i))},
                                 {"image/filename", testing::BytesFeature(KeyOf(i) + ".JPEG")}}));
  }
  out.close();
  TfRecordOptions options;
  const auto index = [&](FileSystem& fs, SampleSink& sink) {
    return IndexTfRecords(fs, dir / "t.tfrecord", options, sink).status();
  };
  Measure(plan, "tf_record", 1, index);
  options.verify = true;
  Measure(plan, " and verified", 1, index);
}

void MeasureRecordIo(const Plan& plan) {
  TempDir dir;
  std::ofstream out(dir / "t.rec", std::ios::binary);
  for (int i = 0; i < plan.samples; ++i) {
    out << testing::RecordIoBytes(
        testing::ImageRecord({static_cast<float>(i % 100)}, PictureOf(plan, i)));
  }
  out.close();
  Measure(plan, "record_io", 1, [&](FileSystem& fs, SampleSink& sink) {
    return IndexRecordIo(fs, dir / "t.rec", {}, sink).status();
  });
}

void MeasureLmdb(const Plan& plan) {
  TempDir dir;
  {
    testing::LmdbWriter writer(dir.path());
    testing::LmdbWriter::Items items;
    for (int i = 0; i < plan.samples; ++i) {
      items.emplace_back(KeyOf(i) + ".jpg", testing::DatumBytes(i % 100, PictureOf(plan, i)));
      if (items.size() < 1000 && i + 1 < plan.samples) continue;
      writer.Put(items);
      items.clear();
    }
  }
  Measure(plan, "lmdb", 1, [&](FileSystem& fs, SampleSink& sink) {
    return IndexLmdb(fs, dir / "data.mdb", {}, sink).status();
  });
}

void MeasureImageFolder(const Plan& plan) {
  TempDir dir;
  for (int i = 0; i < plan.samples; ++i) {
    const std::filesystem::path path = dir / (KeyOf(i) + ".jpg");
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << PictureOf(plan, i);
  }
  Measure(plan, "image_folder", 1, [&](FileSystem& fs, SampleSink& sink) {
    return IndexImageFolder(fs, dir.path(), {}, sink).status();
  });
}

absl::Status IndexParquet(FileSystem& fs, const std::string& path, SampleSink& sink) {
  MUSTER_ASSIGN_OR_RETURN(const ParquetFile parquet, ParquetFile::Open(fs, path));
  MUSTER_ASSIGN_OR_RETURN(const ImageColumns columns, FindImageColumns(parquet));
  MUSTER_ASSIGN_OR_RETURN(const uint64_t size, fs.FileSize(path));
  const uint32_t file = sink.AddFile(path, size);
  return ForEachImage(parquet, columns, [&](const ImageRow& row) {
    return sink.Add({row.path, file, row.file_offset, row.bytes.size(), row.label});
  });
}

void MeasureParquet(const Plan& plan) {
  Measure(plan, "parquet", 1,
          [&](FileSystem& fs, SampleSink& sink) { return IndexParquet(fs, plan.parquet, sink); });
}

// Rows of 1,024 tokens, widened to 64 bits each.
void MeasureTokens(const Plan& plan) {
  constexpr int64_t kContext = 1024;
  TempDir dir;
  const std::string path = dir / "train.bin";
  std::ofstream(path, std::ios::binary)
      << std::string(static_cast<size_t>(plan.samples) * plan.bytes / 2 * 2, '\1');
  auto windows = TokenWindows::Open(PosixFileSystem(), {path}, kContext, /*vocabulary=*/50'257);
  Check(windows.status());
  std::vector<int64_t> row(kContext + 1), order(static_cast<size_t>(windows->rows()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  const double seconds = FastestOf(plan, [&] {
    for (const int64_t number : order) Check(windows->ReadRow(number, row.data()));
  });
  const double rows = static_cast<double>(order.size());
  absl::PrintF("%-13s %9.0f rows of %d tokens/s %6.2f GB/s read %6.2f GB/s made\n", "tokens",
               rows / seconds, kContext, rows * kContext * 2 / seconds / 1e9,
               rows * kContext * 8 / seconds / 1e9);
}

// Of so many bytes that no cache holds them, a sample's at a time into one buffer.
void MeasureMemory(const Plan& plan) {
  const std::string all(size_t{512} << 20, 'x');
  std::string buffer(plan.bytes, '\0');
  size_t copied = 0;
  const double seconds = FastestOf(plan, [&] {
    copied = 0;
    for (size_t at = 0; at + plan.bytes <= all.size(); at += plan.bytes) {
      ::memcpy(buffer.data(), all.data() + at, plan.bytes);
      asm volatile("" : : "r"(buffer.data()) : "memory");
      copied += plan.bytes;
    }
  });
  absl::PrintF("%-13s %.2f GB/s\n", "memory", static_cast<double>(copied) / seconds / 1e9);
}

}  // namespace
}  // namespace muster::worker

int main(int argc, char** argv) {
  muster::worker::Plan plan;
  CLI::App app("Measures finding and reading the samples of each data format");
  app.add_option("--samples", plan.samples, "In each format")->capture_default_str();
  app.add_option("--bytes", plan.bytes, "Of a sample")->capture_default_str();
  app.add_option("--parquet", plan.parquet, "A file of such samples, not compressed");
  app.add_option("--rounds", plan.rounds, "The fastest of so many counts")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  muster::worker::MeasureMemory(plan);
  muster::worker::MeasureTar(plan);
  muster::worker::MeasureTfRecord(plan);
  muster::worker::MeasureRecordIo(plan);
  muster::worker::MeasureLmdb(plan);
  muster::worker::MeasureImageFolder(plan);
  if (!plan.parquet.empty()) muster::worker::MeasureParquet(plan);
  muster::worker::MeasureTokens(plan);
  return 0;
}
