// Training batches a second, as a job has them: random-resized crops to 224x224 with a flip, from
// files to batches, through Loader and BatchQueue: pixels as a job on GPUs has them, which scale
// them; with --floats as a job on CPUs has them.
//
//   muster-bench-loader PATH [--threads 1] [--first-step 0] [--floats] [--ceiling]
//
// PATH is train.data.images.path. Makes batches until it is killed, and prints a line of JSON after
// each: {"samples": so many until now}. With --ceiling no batches: libjpeg-turbo decodes the same
// crops of the same pictures, held in memory, at most as large as needed, and nothing is resized.
// Used by benchmarks/data/run.
#include <atomic>
#include <cstdio>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "benchmarks/data/plain_jpeg.h"
#include "worker/data/batch_queue.h"
#include "worker/data/images/compressed_picture.h"
#include "worker/data/images/picture_files.h"
#include "worker/data/index/data_indexes.h"
#include "worker/data/loader.h"
#include "worker/train/run/seed_purpose.h"

namespace muster::worker {
namespace {

constexpr int kOutput = 224;

struct Flags {
  std::string path;
  int threads = 1;
  uint64_t batch = 64;
  uint64_t first_step = 0;
  bool floats = false;
  bool ceiling = false;
};

AugmentConfig CropAndFlip() {
  AugmentConfig config;
  config.crop_min_area = 0.08;
  config.flip = 0.5;
  return config;
}

template <typename T>
T Must(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  std::cerr << "muster-bench-loader: " << result.status().message() << "\n";
  std::exit(1);
}

void Report(uint64_t samples) {
  std::printf("{\"samples\": %llu}\n", static_cast<unsigned long long>(samples));
  std::fflush(stdout);
}

void MakeBatches(const Loader& loader, const Flags& flags) {
  BatchQueue batches([&loader](uint64_t step) { return loader.BeginTrainBatch(step, 0, 1); },
                     flags.first_step, std::numeric_limits<uint64_t>::max(), loader.ahead());
  for (uint64_t samples = flags.batch;; samples += flags.batch) {
    Must(batches.Next());
    Report(samples);
  }
}

struct Crop {
  std::string file;
  CropBox box;
};

void DecodeCrops(const Dataset& dataset, const Sampler& sampler, const Augmenter& augmenter,
                 const Flags& flags) {
  std::vector<Crop> crops;
  size_t most_width = 0;
  for (uint64_t step = 0; crops.size() < sampler.samples(); ++step) {
    const std::vector<int64_t> ids = sampler.Ids(step, 0, 1);
    for (size_t place = 0; place < ids.size(); ++place) {
      Crop crop;
      crop.file = std::string(Must(dataset.Read(Split::kTrain, ids[place], crop.file)).input);
      const PicturePlan plan = Must(PlanPicture(crop.file, *dataset.decoding(), &augmenter,
                                                sampler.PlaceOf(step, place), kOutput, kOutput));
      crop.box = plan.crop;
      most_width = std::max(most_width, static_cast<size_t>(plan.header.width));
      crops.push_back(std::move(crop));
    }
  }
  std::atomic<uint64_t> next = 0;
  const auto decode = [&] {
    PlainJpeg plain(kOutput, most_width + 64);
    for (;;) {
      const uint64_t number = next.fetch_add(1);
      const Crop& crop = crops[number % crops.size()];
      plain.Crop(crop.file, crop.box);
      if ((number + 1) % flags.batch == 0) Report(number + 1);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < flags.threads; ++i) threads.emplace_back(decode);
  for (std::thread& thread : threads) thread.join();
}

void Run(const Flags& flags) {
  FileSystem& local = PosixFileSystem();
  const auto files = std::make_shared<AnyFileSystem>(local);
  IndexOptions options;
  options.path = flags.path;
  DataIndexes indexes = Must(OpenOrMakeIndexes(*files, local, options));
  PictureFilesConfig config;
  config.size = kOutput;
  config.pixels = {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};
  const std::unique_ptr<Dataset> dataset =
      Must(PictureFiles::Create(files, std::move(indexes.splits), config));
  const Sampler sampler(static_cast<uint64_t>(dataset->size(Split::kTrain)), flags.batch,
                        SeedFor(/*seed=*/0, SeedPurpose::kDataOrder));
  const Augmenter augmenter(CropAndFlip(), SeedFor(/*seed=*/0, SeedPurpose::kAugmentation));
  if (flags.ceiling) {
    DecodeCrops(*dataset, sampler, augmenter, flags);
    return;
  }
  LoaderOptions loader_options;
  loader_options.threads = flags.threads;
  loader_options.leave_pixels = !flags.floats;
  MakeBatches(Loader(*dataset, sampler, &augmenter, loader_options), flags);
}

}  // namespace
}  // namespace muster::worker

int main(int argc, char** argv) {
  muster::worker::Flags flags;
  CLI::App app("Makes training batches of pictures until it is killed");
  app.add_option("path", flags.path, "As train.data.images.path")->required();
  app.add_option("--threads", flags.threads, "That decode")->capture_default_str();
  app.add_option("--batch", flags.batch, "Samples of a batch")->capture_default_str();
  app.add_option("--first-step", flags.first_step, "Go on from here")->capture_default_str();
  app.add_flag("--floats", flags.floats, "Scale pixels while batches are made");
  app.add_flag("--ceiling", flags.ceiling, "Decode crops by libjpeg-turbo alone");
  CLI11_PARSE(app, argc, argv);
  muster::worker::Run(flags);
  return 0;
}
