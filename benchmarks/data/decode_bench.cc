// Pictures a second on one core: random-resized crops to 224x224 with a flip, of photo-like JPEGs.
//
//   muster-bench-decode [FOLDER [ROUNDS [METHOD]]]
//
// Leaves the JPEGs in FOLDER, if one is given, for benchmarks/data/run.
// Two sets: A, 500x375 of about 103 KB, as ImageNet's are, and B, 1024x768 of about 223 KB. The
// methods take turns, each round over the same pictures; time is the thread's own on the processor,
// and the best round counts, so that a machine with other work gives figures that can be used.
//
//   ceiling         crop decode into scratch memory, no resize: what libjpeg-turbo leaves to be had
//   ours            PictureDecoder on the files as they are
//   ours_repacked   PictureDecoder on the files after RepackJpeg
//   full            whole decode at full size, no resize
//   full_resize     whole decode at full size, then the resize of the crop
//   resize          the resize of decoded crops alone
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmarks/data/plain_jpeg.h"
#include "common/base/rng.h"
#include "tests/worker/data/pictures/picture_makers.h"
#include "worker/data/pictures/jpeg/jpeg_repack.h"
#include "worker/data/pictures/picture_decoder.h"
#include "worker/data/pictures/resize/row_resizer.h"

namespace muster {
namespace {

using ::muster::testing::EncodeJpeg;
using ::muster::testing::MakePhoto;
using ::muster::testing::Pixels;
using ::muster::worker::CropBox;
using ::muster::worker::PictureDecoder;
using ::muster::worker::PictureHeader;
using ::muster::worker::RowResizer;

constexpr int kOutput = 224;
constexpr int kPictures = 20;
constexpr int kCropsOfEach = 5;

struct BenchSet {
  const char* name;
  int width, height;
  size_t bytes;  // of each file, about
  std::vector<std::string> files = {}, repacked = {};
  std::vector<CropBox> crops = {};  // kCropsOfEach for each file
  std::vector<bool> flips = {};
};

double Uniform(uint64_t& state) {
  return static_cast<double>(SplitMix64(state++) >> 11) / 9007199254740992.0;
}

// torchvision's RandomResizedCrop with its usual scale (0.08 to 1) and ratio (3/4 to 4/3).
CropBox RandomResizedCrop(int width, int height, uint64_t& state) {
  const double log_ratio = std::log(4.0 / 3);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = width * height * (0.08 + 0.92 * Uniform(state));
    const double ratio = std::exp(log_ratio * (2 * Uniform(state) - 1));
    CropBox crop;
    crop.width = static_cast<int>(std::lround(std::sqrt(area * ratio)));
    crop.height = static_cast<int>(std::lround(std::sqrt(area / ratio)));
    if (crop.width < 1 || crop.height < 1 || crop.width > width || crop.height > height) continue;
    crop.x = static_cast<int>(Uniform(state) * (width - crop.width + 1));
    crop.y = static_cast<int>(Uniform(state) * (height - crop.height + 1));
    return crop;
  }
  return {0, 0, width, height};
}

// The quality that comes nearest to the size wanted.
std::string EncodeToSize(const Pixels& photo, size_t bytes) {
  std::string best;
  for (int quality = 60; quality <= 98; ++quality) {
    std::string jpeg = EncodeJpeg(photo, {.quality = quality});
    const auto miss = [bytes](const std::string& file) {
      return file.size() > bytes ? file.size() - bytes : bytes - file.size();
    };
    if (best.empty() || miss(jpeg) < miss(best)) best = std::move(jpeg);
  }
  return best;
}

void MakeSet(BenchSet& set) {
  uint64_t state = 1;
  for (int i = 0; i < kPictures; ++i) {
    const Pixels photo =
        MakePhoto(set.width, set.height, 3, static_cast<uint64_t>(i) + 1, /*noise=*/18);
    set.files.push_back(EncodeToSize(photo, set.bytes));
    const auto repacked = worker::RepackJpeg(set.files.back());
    if (!repacked.ok()) abort();
    set.repacked.push_back(*repacked);
    for (int crop = 0; crop < kCropsOfEach; ++crop) {
      set.crops.push_back(RandomResizedCrop(set.width, set.height, state));
      set.flips.push_back(Uniform(state) < 0.5);
    }
  }
}

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Method {
  const char* name;
  std::function<void(const BenchSet&, size_t file, size_t crop)> run;
  double best_seconds = 1e9;
};

void Resize(RowResizer& resizer, const std::vector<uint8_t>& pixels, int width, const CropBox& crop,
            bool flip, uint8_t* out) {
  resizer.SetGoal({kOutput, kOutput, flip, false});
  if (!resizer.Begin({crop.width, 0, crop.width}, {crop.height, 0, crop.height}, 3, 1 << 30).ok())
    abort();
  for (int y = crop.y; y < crop.y + crop.height; ++y)
    resizer.Push(pixels.data() + 4 * (static_cast<size_t>(y) * static_cast<size_t>(width) +
                                      static_cast<size_t>(crop.x)));
  resizer.Finish(3, false, out);
}

void Measure(const BenchSet& set, int rounds, const std::string& only) {
  PictureDecoder decoder;
  PlainJpeg plain(kOutput, 1100);
  RowResizer resizer;
  std::vector<uint8_t> out(kOutput * kOutput * 3);
  const auto ours = [&](const std::string& file, const BenchSet& of, size_t crop) {
    const auto header = worker::ReadPictureHeader(file);
    if (!header.ok() || !decoder
                             .Decode(file, *header, of.crops[crop],
                                     {kOutput, kOutput, 3, of.flips[crop], false, out.data()})
                             .ok()) {
      abort();
    }
  };
  const std::vector<uint8_t> decoded = plain.Full(set.files[0], set.width, set.height);
  std::vector<Method> methods = {
      {"ceiling", [&](const BenchSet& of, size_t file,
                      size_t crop) { plain.Crop(of.files[file], of.crops[crop]); }},
      {"ours",
       [&](const BenchSet& of, size_t file, size_t crop) { ours(of.files[file], of, crop); }},
      {"ours_repacked",
       [&](const BenchSet& of, size_t file, size_t crop) { ours(of.repacked[file], of, crop); }},
      {"full", [&](const BenchSet& of, size_t file,
                   size_t) { plain.Full(of.files[file], of.width, of.height); }},
      {"full_resize",
       [&](const BenchSet& of, size_t file, size_t crop) {
         Resize(resizer, plain.Full(of.files[file], of.width, of.height), of.width, of.crops[crop],
                of.flips[crop], out.data());
       }},
      {"resize",
       [&](const BenchSet& of, size_t, size_t crop) {
         Resize(resizer, decoded, of.width, of.crops[crop], of.flips[crop], out.data());
       }},
  };
  if (!only.empty()) {
    std::erase_if(methods, [&only](const Method& method) { return method.name != only; });
  }
  for (int round = 0; round < rounds; ++round) {
    for (Method& method : methods) {
      const double begin = ThreadSeconds();
      for (size_t crop = 0; crop < set.crops.size(); ++crop)
        method.run(set, crop / kCropsOfEach, crop);
      method.best_seconds = std::min(method.best_seconds, ThreadSeconds() - begin);
    }
  }
  size_t bytes = 0, repacked_bytes = 0;
  for (const std::string& file : set.files) bytes += file.size();
  for (const std::string& file : set.repacked) repacked_bytes += file.size();
  printf("%s bytes %zu repacked %zu\n", set.name, bytes / set.files.size(),
         repacked_bytes / set.files.size());
  for (const Method& method : methods) {
    printf("%s %-14s %8.1f a second\n", set.name, method.name,
           static_cast<double>(set.crops.size()) / method.best_seconds);
  }
}

void WriteSet(const BenchSet& set, const std::string& folder) {
  for (size_t i = 0; i < set.files.size(); ++i) {
    std::ofstream(absl::StrCat(folder, "/", set.name, "_", i, ".jpg"), std::ios::binary)
        << set.files[i];
  }
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  const int rounds = argc > 2 ? atoi(argv[2]) : 7;
  // One core for the whole run: the one that it is on.
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(static_cast<size_t>(sched_getcpu()), &core);
  sched_setaffinity(0, sizeof(core), &core);
  muster::BenchSet sets[] = {{"A", 500, 375, 103'000}, {"B", 1024, 768, 223'000}};
  for (muster::BenchSet& set : sets) {
    muster::MakeSet(set);
    if (argc > 1 && argv[1][0] != '\0') muster::WriteSet(set, argv[1]);
    muster::Measure(set, rounds, argc > 3 ? argv[3] : "");
  }
  return 0;
}
