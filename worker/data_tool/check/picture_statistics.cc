#include "worker/data_tool/check/picture_statistics.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "common/base/status_macros.h"
#include "worker/data/broken_samples.h"
#include "worker/data/order/permutation.h"
#include "worker/data/pictures/picture_decoder.h"
#include "worker/data_tool/base/open_data.h"
#include "worker/data_tool/base/parallel_work.h"

namespace muster::worker {
namespace {

constexpr int32_t kSide = 224;
constexpr uint64_t kMostSide = 65'535;

// How often each number below a bound comes.
class Counts {
 public:
  Counts() : counts_(kMostSide + 1, 0) {}
  void Add(int32_t value) {
    ++counts_[std::min<uint64_t>(static_cast<uint64_t>(value), kMostSide)];
  }
  void Add(const Counts& other) {
    for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  }
  Spread Tell() const {
    uint64_t total = 0;
    for (const uint64_t count : counts_) total += count;
    if (total == 0) return {};
    return {At(0), At((total - 1) / 2), At(total - 1)};
  }

 private:
  uint64_t At(uint64_t rank) const {
    for (uint64_t value = 0; value < counts_.size(); ++value) {
      if (rank < counts_[value]) return value;
      rank -= counts_[value];
    }
    return kMostSide;
  }
  std::vector<uint64_t> counts_;
};

// What one thread has found.
struct Found {
  Counts widths, heights;
  std::map<std::string, uint64_t> kinds;
  uint64_t unreadable = 0, turned = 0, decoded = 0, not_decoded = 0;
  std::array<uint64_t, 3> sums = {}, squares = {};  // of bytes
  PictureDecoder decoder;
  std::string bytes;
  std::vector<uint8_t> pixels = std::vector<uint8_t>(size_t{3} * kSide * kSide);
};

void CountKinds(const PictureHeader& header, std::map<std::string, uint64_t>& kinds) {
  const std::string name(NameOf(header.kind));
  ++kinds[name];
  if (header.progressive)
    ++kinds[header.kind == PictureKind::kJpeg ? "progressive JPEG" : "interlaced PNG"];
  if (header.channels <= 2) ++kinds["grey " + name];
  if (header.kind == PictureKind::kJpeg && header.channels == 4) ++kinds["CMYK JPEG"];
}

class Gatherer {
 public:
  Gatherer(FileSystem& data, const SampleIndex& index, const StatisticsOptions& options)
      : data_(data), index_(index), options_(options) {
    for (int thread = 0; thread < std::max(1, options.threads); ++thread)
      found_.push_back(std::make_unique<Found>());
  }

  absl::StatusOr<PictureStatistics> Run() {
    MUSTER_RETURN_IF_ERROR(CountClasses());
    MUSTER_RETURN_IF_ERROR(
        DoInParallel(options_.threads, index_.size(), [&](int thread, uint64_t id) {
          return ReadHeader(id, *found_[static_cast<size_t>(thread)]);
        }));
    const uint64_t decoded = std::min(options_.decoded, index_.size());
    MUSTER_RETURN_IF_ERROR(DoInParallel(options_.threads, decoded, [&](int thread, uint64_t i) {
      return AddPixels(Permute(/*seed=*/0, /*round=*/0, index_.size(), i),
                       *found_[static_cast<size_t>(thread)]);
    }));
    AddUp();
    return std::move(result_);
  }

 private:
  absl::Status CountClasses() {
    std::map<int64_t, uint64_t> classes;
    std::vector<uint64_t> sizes;
    sizes.reserve(index_.size());
    for (uint64_t id = 0; id < index_.size(); ++id) {
      MUSTER_ASSIGN_OR_RETURN(const FoundSample sample, index_.At(id));
      ++classes[sample.label];
      sizes.push_back(sample.size);
    }
    for (const auto& [label, samples] : classes) result_.classes.push_back({label, samples});
    result_.samples = index_.size();
    if (sizes.empty()) return absl::OkStatus();
    const auto middle = sizes.begin() + static_cast<int64_t>((sizes.size() - 1) / 2);
    std::nth_element(sizes.begin(), middle, sizes.end());
    const uint64_t median = *middle;
    const auto [least, greatest] = std::minmax_element(sizes.begin(), sizes.end());
    result_.bytes = {*least, median, *greatest};
    return absl::OkStatus();
  }

  // OK with a picture that cannot be read: it is counted.
  absl::Status ReadHeader(uint64_t id, Found& found) {
    MUSTER_ASSIGN_OR_RETURN(const StoredPlace place, PlaceOfSample(index_, id));
    absl::StatusOr<PictureHeader> header = HeaderOf(place, kPictureHeaderBytes, found);
    if (IsFaultOfSample(header.status()) && place.size > kPictureHeaderBytes)
      header = HeaderOf(place, UINT64_MAX, found);
    options_.progress();
    if (!header.ok()) {
      ++found.unreadable;
      return IsFaultOfSample(header.status()) ? absl::OkStatus() : header.status();
    }
    found.widths.Add(header->width);
    found.heights.Add(header->height);
    CountKinds(*header, found.kinds);
    if (header->orientation != 1) ++found.turned;
    return absl::OkStatus();
  }

  absl::StatusOr<PictureHeader> HeaderOf(const StoredPlace& place, uint64_t most_bytes,
                                         Found& found) {
    MUSTER_RETURN_IF_ERROR(ReadStored(data_, place, found.bytes, most_bytes));
    return ReadPictureHeader(found.bytes);
  }

  absl::Status AddPixels(uint64_t id, Found& found) {
    MUSTER_ASSIGN_OR_RETURN(const StoredPlace place, PlaceOfSample(index_, id));
    const absl::Status status = Decode(place, found);
    options_.progress();
    if (!status.ok()) {
      ++found.not_decoded;
      return IsFaultOfSample(status) ? absl::OkStatus() : status;
    }
    ++found.decoded;
    for (size_t i = 0; i < found.pixels.size(); ++i) {
      const uint64_t value = found.pixels[i];
      found.sums[i % 3] += value;
      found.squares[i % 3] += value * value;
    }
    return absl::OkStatus();
  }

  absl::Status Decode(const StoredPlace& place, Found& found) {
    MUSTER_ASSIGN_OR_RETURN(const PictureHeader header, HeaderOf(place, UINT64_MAX, found));
    const int32_t side = std::min(header.width, header.height);
    const CropBox crop = {(header.width - side) / 2, (header.height - side) / 2, side, side};
    return found.decoder.Decode(
        found.bytes, header, crop,
        {.width = kSide, .height = kSide, .channels = 3, .pixels = found.pixels.data()});
  }

  void AddUp() {
    Counts widths, heights;
    std::array<uint64_t, 3> sums = {}, squares = {};
    for (const std::unique_ptr<Found>& found : found_) {
      widths.Add(found->widths);
      heights.Add(found->heights);
      for (const auto& [kind, count] : found->kinds) result_.kinds[kind] += count;
      result_.unreadable += found->unreadable;
      result_.turned += found->turned;
      result_.decoded += found->decoded;
      result_.not_decoded += found->not_decoded;
      for (size_t channel = 0; channel < 3; ++channel) {
        sums[channel] += found->sums[channel];
        squares[channel] += found->squares[channel];
      }
    }
    result_.widths = widths.Tell();
    result_.heights = heights.Tell();
    if (result_.decoded == 0) return;
    const double pixels = static_cast<double>(result_.decoded) * kSide * kSide;
    for (size_t channel = 0; channel < 3; ++channel) {
      const double mean = static_cast<double>(sums[channel]) / pixels;
      const double variance = static_cast<double>(squares[channel]) / pixels - mean * mean;
      result_.mean[channel] = mean / 255;
      result_.std[channel] = std::sqrt(std::max(0.0, variance)) / 255;
    }
  }

  FileSystem& data_;
  const SampleIndex& index_;
  const StatisticsOptions& options_;
  std::vector<std::unique_ptr<Found>> found_;
  PictureStatistics result_;
};

}  // namespace

absl::StatusOr<PictureStatistics> GatherStatistics(FileSystem& data, const SampleIndex& index,
                                                   const StatisticsOptions& options) {
  return Gatherer(data, index, options).Run();
}

}  // namespace muster::worker
