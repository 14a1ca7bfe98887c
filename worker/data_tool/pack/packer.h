// Packs a data set into shards of WebDataset that are quick to read: mixtures of the whole set,
// JPEGs with restart markers, keys and classes as they were.
//
//   OUT/train-000000.tar, ...   members KEY.jpg and KEY.cls
//   OUT/validation-000000.tar   and test-..., where the data have such sets
//   OUT/train-000000.idx, ...   an index of each shard (shard_index.h), unless keys have spaces
//   OUT/classes.txt             names of the classes, a line each, where the data have them
//   OUT/pack.json               what was packed, and how
//   OUT/pack.unfinished         until all shards are there: whoever reads OUT before is told so
//
// Used by `muster-data pack`. Which sample is in which shard follows from the data and the settings
// alone, and a shard is written by one thread: the same bytes for any number of threads. A shard
// appears when it is whole, so a killed pack goes on with those that are missing. One pack of a
// folder at a time: a second one waits.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "common/object_store/cache/any_file_system.h"
#include "worker/data_tool/pack/packed_picture.h"

namespace muster::worker {

struct PackSettings {
  uint64_t shard_mib = 256;  // of the samples as they are stored now
  int32_t resize = 0;        // shorter side in pixels; 0: none is shrunk
  bool repack = true;        // JPEGs, without loss
  double validation = 0;     // share of each class to hold out
  bool numbered = false;     // keys of Parquet's rows
};

struct PackRequest {
  std::string path;
  std::string out;
  PackSettings settings;
  int threads = 1;
  std::function<void(uint64_t samples)> index_progress = [](uint64_t) {};
  std::function<void(uint64_t samples)> begin = [](uint64_t) {};  // with those still to be packed
  std::function<void()> progress = [] {};                         // after each; by any thread
};

struct PackReport {
  uint64_t samples = 0, shards = 0;  // of the whole
  uint64_t shards_written = 0;       // by this call; the others were there
  uint64_t bytes_read = 0, bytes_written = 0;
  std::array<uint64_t, kPackings> packings = {};  // of the samples written, by Packing
  uint64_t changed_keys = 0;
};

// FAILED_PRECONDITION: OUT was begun with other settings or data, holds other files, or lies within
// the data. The errors of PackSource; CANCELLED; RESOURCE_EXHAUSTED where the disk is full. The
// same call again goes on after any of them.
absl::StatusOr<PackReport> PackData(AnyFileSystem& data, FileSystem& local,
                                    const PackRequest& request);

}  // namespace muster::worker
