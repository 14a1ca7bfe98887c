// Reads every sample of a data set and says which are broken: what a run over days would meet in
// its own time.
//
// Used by `muster-data verify`. Threads of its own; the report does not depend on how many.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "worker/data/base/sample_source.h"
#include "worker/data/index/data_indexes.h"

namespace muster::worker {

struct VerifyOptions {
  int threads = 1;
  bool headers_only = false;               // sizes and kinds, not pixels
  size_t most_listed = 100;                // of broken samples
  std::function<void()> progress = [] {};  // after each sample; by any thread
};

struct BrokenSample {
  Split split = Split::kTrain;
  uint64_t id = 0;
  std::string key;  // empty: the fault is of the whole file
  std::string file;
  uint64_t offset = 0;
  std::string reason;
};

struct VerifyReport {
  uint64_t samples = 0;
  uint64_t bytes = 0;
  uint64_t checked_files = 0;     // of TFRecord, whose checksums were compared
  uint64_t compared_indexes = 0;  // beside shards, compared with these
  uint64_t broken = 0;
  // The first ones: files, then samples by split and number.
  std::vector<BrokenSample> listed;
};

// Each picture is read, decoded whole (into a small output), and its label compared with the number
// of classes; the checksums of TFRecord and the indexes beside shards are compared with the files.
// The errors are those that are no sample's fault: CANCELLED, a broken index, a file
// system that does not answer.
absl::StatusOr<VerifyReport> VerifyData(FileSystem& data, const DataIndexes& indexes,
                                        const VerifyOptions& options);

}  // namespace muster::worker
