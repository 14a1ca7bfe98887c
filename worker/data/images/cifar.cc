#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "common/ckpt/block_hasher.h"
#include "worker/data/base/dataset.h"
#include "worker/data/images/cifar_records.h"

namespace muster::worker {
namespace {

constexpr int64_t kSide = 32;
constexpr int64_t kChannels = 3;
static_assert(kCifarPictureBytes == kChannels * kSide * kSide);
constexpr uint64_t kValidationShare = 10;

// Of its own training set.
PixelScale ScaleOf(const CifarEdition& edition) {
  if (edition.classes == Cifar10().classes)
    return {{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}};
  return {{0.5071f, 0.4865f, 0.4409f}, {0.2673f, 0.2564f, 0.2762f}};
}

Dataset::Part MakePart(const CifarEdition& edition, const std::string& records,
                       const std::vector<size_t>& places) {
  const int64_t count = static_cast<int64_t>(places.size());
  Dataset::Part part{at::empty({count, kChannels, kSide, kSide}, at::kByte),
                     at::empty({count}, at::kLong)};
  uint8_t* picture = part.inputs.mutable_data_ptr<uint8_t>();
  int64_t* target = part.targets.mutable_data_ptr<int64_t>();
  for (const size_t place : places) {
    const char* record = records.data() + place * edition.record_bytes();
    *target++ = static_cast<uint8_t>(record[edition.label_bytes - 1]);
    std::memcpy(picture, record + edition.label_bytes, kCifarPictureBytes);
    picture += kCifarPictureBytes;
  }
  return part;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> ReadCifar(FileSystem& fs, const CifarConfig& config) {
  MUSTER_ASSIGN_OR_RETURN(const CifarEdition edition, CifarEditionIn(fs, config.path));
  BlockHasher hasher;
  MUSTER_ASSIGN_OR_RETURN(const std::string train,
                          ReadCifarRecords(fs, edition, config.path, edition.train_files, hasher));
  MUSTER_ASSIGN_OR_RETURN(const std::string test,
                          ReadCifarRecords(fs, edition, config.path, {edition.test_file}, hasher));
  MUSTER_ASSIGN_OR_RETURN(std::vector<std::string> class_names,
                          ReadCifarClassNames(fs, edition, config.path));
  const size_t record_bytes = edition.record_bytes();
  std::array<std::vector<size_t>, 3> places;
  for (size_t i = 0; i < train.size() / record_bytes; ++i) {
    places[SplitMix64(i) % kValidationShare == 0 ? 1 : 0].push_back(i);
  }
  for (size_t i = 0; i < test.size() / record_bytes; ++i) places[2].push_back(i);
  if (places[0].empty() || places[1].empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(config.path, ": too few training records to hold some back for validation"));
  }
  return std::make_unique<InMemoryDataset>(
      std::array<Dataset::Part, 3>{MakePart(edition, train, places[0]),
                                   MakePart(edition, train, places[1]),
                                   MakePart(edition, test, places[2])},
      edition.classes, absl::StrCat(edition.name, "-v1:", HashToHex(hasher.Finish().whole)),
      ScaleOf(edition), std::move(class_names));
}

}  // namespace muster::worker
