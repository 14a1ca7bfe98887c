// The data that a command is about: its file system, its indexes, and the bytes of one sample.
//
// Every command of muster-data opens data here. Functions; any thread may read samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/fs/file_system.h"
#include "common/object_store/cache/any_file_system.h"
#include "worker/data/base/sample_source.h"
#include "worker/data/index/data_indexes.h"

namespace muster::worker {

// Where data are read from: this machine, HTTP or S3, by the path. The one place that chooses. What
// has never answered is given up after ten seconds, later trouble after minutes.
AnyFileSystem& DataFileSystem();
// For whom nobody waits: as patient from the start.
AnyFileSystem& PatientDataFileSystem();

// "train", "validation" or "test"; INVALID_ARGUMENT for another word.
absl::StatusOr<Split> SplitOfName(absl::string_view name);

inline const SampleIndex& IndexOf(const DataIndexes& indexes, Split split) {
  return *indexes.splits[static_cast<size_t>(split)];
}

// The splits whose samples are not those of another: where the data name but one of validation and
// test, it is both.
std::vector<Split> OwnSplits(const DataIndexes& indexes);

struct StoredPlace {
  uint64_t id = 0;  // in its split
  std::string key;
  std::string file;
  uint64_t offset = 0;  // in the file
  uint64_t size = 0;
  int64_t label = 0;
};
// Requires id < size. DATA_LOSS when the index is broken, or has the sample outside of its file.
absl::StatusOr<StoredPlace> PlaceOfSample(const SampleIndex& index, uint64_t id);

// By the sample's key, else by its number. NOT_FOUND, saying how many there are.
absl::StatusOr<uint64_t> FindSample(const SampleIndex& index, absl::string_view key_or_number);

// What nearly every picture's header lies in; where it does not, the whole sample is read.
inline constexpr uint64_t kPictureHeaderBytes = 64u << 10;

// The first `most_bytes` of the sample, in `bytes`. RESOURCE_EXHAUSTED for a sample of more than
// kMostSampleBytes (sample_reader.h) where all of it is wanted; else as ReadSample.
absl::Status ReadStored(FileSystem& data, const StoredPlace& place, std::string& bytes,
                        uint64_t most_bytes = UINT64_MAX);

// The name of the class, or its number where the data does not say; "-" for none.
std::string ClassText(const SampleIndex& index, int64_t label);

}  // namespace muster::worker
