// What is to be said of pictures in files as a whole, by their indexes: how many classes they have,
// and their fingerprint.
//
// Used by picture_files.cc and by muster-data. Pure; needs nothing of torch.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/index/sample_index.h"
#include "worker/data/index/storage_order.h"

namespace muster::worker {

// Training, validation, test: as DataIndexes::splits.
using PictureSplits = std::array<std::unique_ptr<SampleIndex>, 3>;

// `given`: by train.data.images.classes; 0: as many as the training set's labels tell.
// INVALID_ARGUMENT when a split is empty, has samples without a label or with one that is no class,
// or when there are fewer than two classes. (Without validation samples any model would be the best
// one, and without test samples it would have no result.)
absl::StatusOr<int64_t> CountPictureClasses(const PictureSplits& splits, int64_t given);

// Names the pictures and the way they are prepared: what ranks compare. `order`: in which windows
// of the training set are read; where there are none, as it comes.
std::string PictureSetFingerprint(const PictureSplits& splits, const StorageOrder& order,
                                  int64_t channels, int64_t size, bool upright);

}  // namespace muster::worker
