#include "worker/data/images/picture_set.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/data/base/sample_source.h"

namespace muster::worker {
namespace {

constexpr int64_t kFewestClasses = 2;

}  // namespace

absl::StatusOr<int64_t> CountPictureClasses(const PictureSplits& splits, int64_t given) {
  const SampleIndex& train = *splits[0];
  if (train.size() == 0) return absl::InvalidArgumentError("the training set has no pictures");
  int64_t classes = given;
  if (given == 0) {
    classes = std::max<int64_t>(static_cast<int64_t>(train.class_names().size()),
                                train.greatest_label() + 1);
  }
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    const SampleIndex& index = *splits[static_cast<size_t>(split)];
    if (index.size() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the ", SplitName(split),
                       " set has no pictures (JPEG, PNG or WebP): give it files of its own, or, "
                       "where it is split off, the training set more of them"));
    }
    if (index.least_label() == kNoLabel) {
      return absl::InvalidArgumentError(
          absl::StrCat("some pictures of the ", SplitName(split), " set have no class"));
    }
    if (index.greatest_label() >= classes) {
      return absl::InvalidArgumentError(
          absl::StrCat("the ", SplitName(split), " set has the class ", index.greatest_label(),
                       ", and there are ", classes,
                       given == 0 ? " in the training set" : " by train.data.images.classes"));
    }
  }
  if (classes < kFewestClasses) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is but ", classes, " class; training wants two at least"));
  }
  return classes;
}

std::string PictureSetFingerprint(const PictureSplits& splits, const StorageOrder& order,
                                  int64_t channels, int64_t size, bool upright) {
  std::string fingerprint = absl::StrCat("pictures:", channels, "x", size, "x", size, ":",
                                         upright ? "upright" : "stored");
  for (const std::unique_ptr<SampleIndex>& index : splits)
    absl::StrAppend(&fingerprint, ":", index->fingerprint());
  if (const std::string stored = order.fingerprint(); !stored.empty())
    absl::StrAppend(&fingerprint, ":stored=", stored);
  return fingerprint;
}

}  // namespace muster::worker
