#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "common/ckpt/block_hasher.h"
#include "worker/data/dataset.h"

namespace muster::worker {
namespace {

constexpr int64_t kSide = 32;
constexpr int64_t kChannels = 3;
constexpr size_t kPictureBytes = kChannels * kSide * kSide;
// The largest real file, train.bin of CIFAR-100, has 154 MB.
constexpr uint64_t kMaxFileBytes = 512u << 20;
constexpr uint64_t kValidationShare = 10;

// One of the two sets as its files have it.
struct Edition {
  const char* name;
  std::vector<const char*> train_files;
  const char* test_file;
  int64_t classes;
  size_t label_bytes;  // the last of them is the class; CIFAR-100 has the coarse one before it
  PixelScale scale;    // of its own training set
};

Edition Cifar10() {
  return {"cifar10",
          {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
           "data_batch_5.bin"},
          "test_batch.bin",
          10,
          1,
          {{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}}};
}

Edition Cifar100() {
  return {"cifar100", {"train.bin"},
          "test.bin", 100,
          2,          {{0.5071f, 0.4865f, 0.4409f}, {0.2673f, 0.2564f, 0.2762f}}};
}

absl::StatusOr<Edition> EditionIn(FileSystem& fs, const std::string& folder) {
  for (const Edition& edition : {Cifar10(), Cifar100()}) {
    MUSTER_ASSIGN_OR_RETURN(const bool there,
                            fs.Exists(absl::StrCat(folder, "/", edition.train_files.front())));
    if (there) return edition;
  }
  return absl::NotFoundError(absl::StrCat(
      folder,
      " holds neither data_batch_1.bin (CIFAR-10) nor train.bin (CIFAR-100): unpack the "
      "binary version of the data set there"));
}

// The records of some files, one after the other.
absl::StatusOr<std::string> ReadRecords(FileSystem& fs, const Edition& edition,
                                        const std::string& folder,
                                        const std::vector<const char*>& files,
                                        BlockHasher& hasher) {
  const size_t record_bytes = edition.label_bytes + kPictureBytes;
  std::string records;
  for (const char* file : files) {
    const std::string path = absl::StrCat(folder, "/", file);
    MUSTER_ASSIGN_OR_RETURN(const std::string bytes, fs.ReadFile(path, kMaxFileBytes));
    if (bytes.empty() || bytes.size() % record_bytes != 0) {
      return absl::InvalidArgumentError(absl::StrCat(path, " has ", bytes.size(),
                                                     " bytes, which is no number of records of ",
                                                     record_bytes, ": fetch it again"));
    }
    for (size_t at = edition.label_bytes - 1; at < bytes.size(); at += record_bytes) {
      if (static_cast<uint8_t>(bytes[at]) >= edition.classes) {
        return absl::InvalidArgumentError(absl::StrCat(
            path, ": record ", at / record_bytes, " has class ", static_cast<uint8_t>(bytes[at])));
      }
    }
    hasher.Update(bytes);
    records += bytes;
  }
  return records;
}

Dataset::Part MakePart(const Edition& edition, const std::string& records,
                       const std::vector<size_t>& places) {
  const int64_t count = static_cast<int64_t>(places.size());
  Dataset::Part part{at::empty({count, kChannels, kSide, kSide}, at::kByte),
                     at::empty({count}, at::kLong)};
  uint8_t* picture = part.inputs.mutable_data_ptr<uint8_t>();
  int64_t* target = part.targets.mutable_data_ptr<int64_t>();
  for (const size_t place : places) {
    const char* record = records.data() + place * (edition.label_bytes + kPictureBytes);
    *target++ = static_cast<uint8_t>(record[edition.label_bytes - 1]);
    std::memcpy(picture, record + edition.label_bytes, kPictureBytes);
    picture += kPictureBytes;
  }
  return part;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> ReadCifar(FileSystem& fs, const CifarConfig& config) {
  MUSTER_ASSIGN_OR_RETURN(const Edition edition, EditionIn(fs, config.path));
  BlockHasher hasher;
  MUSTER_ASSIGN_OR_RETURN(const std::string train,
                          ReadRecords(fs, edition, config.path, edition.train_files, hasher));
  MUSTER_ASSIGN_OR_RETURN(const std::string test,
                          ReadRecords(fs, edition, config.path, {edition.test_file}, hasher));
  const size_t record_bytes = edition.label_bytes + kPictureBytes;
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
      edition.scale);
}

}  // namespace muster::worker
