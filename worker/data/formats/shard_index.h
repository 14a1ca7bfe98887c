// The index of a WebDataset shard in a file beside it: "train-000000.idx" for "train-000000.tar".
// Who has it need not read the shard for its headers and labels, all of which may be far away.
//
//   v1.2 2                                       the number of samples
//   jpg 512 1000 a/1.jpg cls 2048 1 a/1.cls      of each member: extension, offset, size, name
//   jpg 3072 998 a/2.jpg cls 4608 1 a/2.cls
//   muster 1 10240                               the bytes of the shard
//   7                                            the label of each sample; -1: none
//   3
//
// The first part is what DALI's wds2idx writes and DALI reads, which looks no further than the
// samples that it has counted (github.com/NVIDIA/DALI, tools/wds2idx.py and
// dali/operators/reader/loader/webdataset_loader.cc). The second part is ours. Used where a data
// set is indexed and where shards are written. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/fs/file_system.h"
#include "worker/data/formats/index_report.h"
#include "worker/data/formats/sample_sink.h"
#include "worker/data/formats/web_dataset.h"

namespace muster::worker {

// More is refused before it is read.
inline constexpr uint64_t kMostShardIndexBytes = 256u << 20;

// Nothing: the shard's name does not end in ".tar".
std::optional<std::string> ShardIndexPath(const std::string& shard);

// The text for a shard: its headers and labels are read. FAILED_PRECONDITION where a member has
// white space in its name, which the format cannot hold; else as IndexWebDataset.
absl::StatusOr<std::string> MakeShardIndex(FileSystem& fs, const std::string& shard,
                                           const WebDatasetOptions& options);

struct IndexedShard {
  std::string path;
  uint64_t size_bytes = 0;
  // As FileSystem::ReadAt, of the shard: three headers are looked at.
  std::function<absl::StatusOr<uint64_t>(uint64_t offset, char* buffer, uint64_t bytes)> read;
};

// Adds the samples of the shard as IndexWebDataset does, links being passed over. Nothing, and
// nothing added: the index is of another version, or says nothing of labels that the shard has:
// walk through the shard. INVALID_ARGUMENT with the line, and nothing added: it is no such index,
// or not that of this shard. Errors of `read` and of the sink.
absl::StatusOr<std::optional<IndexReport>> IndexByShardIndex(const IndexedShard& shard,
                                                             const std::string& index_path,
                                                             absl::string_view index,
                                                             const WebDatasetOptions& options,
                                                             SampleSink& sink);

}  // namespace muster::worker
