#include "worker/data_tool/check/feed_rate.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/broken_samples.h"
#include "worker/data/images/compressed_picture.h"
#include "worker/data/order/permutation.h"
#include "worker/data_tool/base/interruption.h"
#include "worker/data_tool/base/open_data.h"
#include "worker/data_tool/base/parallel_work.h"

namespace muster::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kChannels = 3;

AugmentConfig CropAndFlip() {
  AugmentConfig config;
  config.crop_min_area = 0.08;
  config.flip = 0.5;
  return config;
}

struct Feeder {
  explicit Feeder(int64_t size) : values(static_cast<size_t>(kChannels * size * size)) {}
  PictureScratch scratch;
  std::string stored;
  std::vector<float> values;
  uint64_t samples = 0, bytes = 0, broken = 0;
  absl::Status last_fault;
};

class Bench {
 public:
  Bench(FileSystem& data, const SampleIndex& index, FeedStage stage, const FeedOptions& options)
      : data_(data), index_(index), stage_(stage), options_(options) {}

  absl::StatusOr<FeedRate> Run() {
    const int threads = std::max(1, options_.threads);
    std::vector<std::unique_ptr<Feeder>> feeders;
    for (int thread = 0; thread < threads; ++thread)
      feeders.push_back(std::make_unique<Feeder>(options_.size));
    const Clock::time_point begun = Clock::now();
    const auto end = begun + std::chrono::duration_cast<Clock::duration>(
                                 std::chrono::duration<double>(options_.seconds));
    // Each thread is one long piece of work.
    MUSTER_RETURN_IF_ERROR(
        DoInParallel(threads, static_cast<uint64_t>(threads), [&](int /*thread*/, uint64_t number) {
          while (Clock::now() < end) {
            MUSTER_RETURN_IF_ERROR(CheckInterrupted());
            MUSTER_RETURN_IF_ERROR(FeedOne(next_.fetch_add(1), *feeders[number]));
          }
          return absl::OkStatus();
        }));
    const std::chrono::duration<double> seconds = Clock::now() - begun;
    return Rate(feeders, seconds.count());
  }

 private:
  static absl::StatusOr<FeedRate> Rate(const std::vector<std::unique_ptr<Feeder>>& feeders,
                                       double seconds) {
    FeedRate rate;
    uint64_t bytes = 0;
    absl::Status last;
    for (const std::unique_ptr<Feeder>& feeder : feeders) {
      rate.samples += feeder->samples;
      rate.broken += feeder->broken;
      bytes += feeder->bytes;
      if (!feeder->last_fault.ok()) last = feeder->last_fault;
    }
    if (rate.samples > 0 && rate.broken == rate.samples) {
      return absl::FailedPreconditionError(
          absl::StrCat("every sample was broken; the last one ", last.message()));
    }
    rate.samples_per_second = static_cast<double>(rate.samples) / seconds;
    rate.bytes_per_second = static_cast<double>(bytes) / seconds;
    return rate;
  }

  absl::Status FeedOne(uint64_t position, Feeder& feeder) {
    const EpochPlace place = {position / index_.size(), position % index_.size()};
    const uint64_t id = Permute(/*seed=*/0, place.epoch, index_.size(), place.position);
    MUSTER_ASSIGN_OR_RETURN(const StoredPlace stored, PlaceOfSample(index_, id));
    const absl::Status made = Make(stored, place, feeder);
    ++feeder.samples;
    feeder.bytes += feeder.stored.size();
    if (made.ok()) return made;
    if (!IsFaultOfSample(made)) return made;
    ++feeder.broken;
    feeder.last_fault = absl::Status(made.code(), absl::StrCat(stored.key, " ", made.message()));
    return absl::OkStatus();
  }

  absl::Status Make(const StoredPlace& stored, const EpochPlace& place, Feeder& feeder) const {
    const uint64_t wanted = stage_ == FeedStage::kHeader ? kPictureHeaderBytes : UINT64_MAX;
    MUSTER_RETURN_IF_ERROR(ReadStored(data_, stored, feeder.stored, wanted));
    if (stage_ == FeedStage::kRead) return absl::OkStatus();
    if (stage_ == FeedStage::kHeader) return ReadPictureHeader(feeder.stored).status();
    MUSTER_ASSIGN_OR_RETURN(
        const PicturePlan plan,
        PlanPicture(feeder.stored, decoding_, &augmenter_, place, options_.size, options_.size));
    const Picture picture{feeder.values.data(), kChannels, options_.size, options_.size};
    MUSTER_RETURN_IF_ERROR(DecodePlanned(feeder.stored, plan, decoding_, picture, feeder.scratch));
    if (stage_ != FeedStage::kDecode) inputs_.Make(plan, feeder.scratch, picture);
    return absl::OkStatus();
  }

  FileSystem& data_;
  const SampleIndex& index_;
  const FeedStage stage_;
  const FeedOptions& options_;
  const Augmenter augmenter_{CropAndFlip(), /*seed=*/0};
  const PictureDecoding decoding_;
  const InputMaker inputs_{PixelScale{{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}}};
  std::atomic<uint64_t> next_ = 0;
};

}  // namespace

const char* FeedStageName(FeedStage stage) {
  constexpr const char* kNames[] = {"read", "header", "decode, crop, resize", "to inputs"};
  return kNames[static_cast<size_t>(stage)];
}

absl::StatusOr<FeedRate> MeasureFeed(FileSystem& data, const SampleIndex& index, FeedStage stage,
                                     const FeedOptions& options) {
  return Bench(data, index, stage, options).Run();
}

}  // namespace muster::worker
