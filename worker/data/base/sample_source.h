// Where samples lie, and how they are asked for: by id, one at a time, as the bytes that are
// stored.
//
// Used by the loader, which has Transform make of them what the model is given. Where the bytes lie
// is a source's own affair: in memory, or in files. Immutable after its making, so any thread may
// read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster::worker {

enum class Split { kTrain = 0, kValidation = 1, kTest = 2 };
const char* SplitName(Split split);

// Valid as long as its source and the storage that it was read with, until that is used again.
struct StoredSample {
  absl::string_view input;
  absl::string_view target;
  size_t source = 0;  // of a mixture: which one it is from
};

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  virtual int64_t size(Split split) const = 0;
  // Requires an id in [0, size). A source in files reads into `storage`. Fails where a file does:
  // the sample and the file are named.
  virtual absl::StatusOr<StoredSample> Read(Split split, int64_t id,
                                            std::string& storage) const = 0;
  // Whether samples are read from files when they are asked for.
  virtual bool in_files() const { return false; }
  // Begins to fetch what lies far away, and returns at once: these samples are read next. Requires
  // ids in [0, size).
  virtual void WillRead(Split /*split*/, const std::vector<int64_t>& /*ids*/) const {}
  // The id of the training sample at a place in the order of storage, a permutation of [0, size):
  // neighbours there lie side by side in a file. A source in memory has ids in that order.
  virtual int64_t IdInStorage(int64_t place) const { return place; }
  // Of a mixture, training samples of each of its sources.
  virtual std::vector<uint64_t> source_sizes() const {
    return {static_cast<uint64_t>(size(Split::kTrain))};
  }
  // What it holds in memory.
  virtual int64_t bytes() const = 0;
};

}  // namespace muster::worker
