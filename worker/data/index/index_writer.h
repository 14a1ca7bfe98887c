// Makes the index of a split (sample_index.h) of the samples that a format finds, in any order.
//
// Bounded memory: samples beyond a bound are sorted and put aside in files beside the index, which
// are merged at the end; so are the paths of their files (source_files.h). The index appears under
// its name when it is whole; what a failed or killed writer leaves are files whose names end in
// ".part", which the next writer of that index removes. Two processes must not write one index at a
// time. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "worker/data/formats/sample_sink.h"
#include "worker/data/index/source_files.h"

namespace muster::worker {

inline constexpr uint64_t kMaxKeyBytes = 64u << 10;

struct IndexWriterOptions {
  uint64_t memory_bytes = 64u << 20;  // for samples that are not put aside yet
  // No other process of this machine writes that index now: parts that one has left may go.
  bool alone = true;
};

class IndexWriter final : public SampleSink {
 public:
  // The index will be at `path`.
  IndexWriter(FileSystem& fs, std::string path, const IndexWriterOptions& options = {});

  // Without Finish: removes its parts.
  ~IndexWriter() override;

  uint32_t AddFile(const std::string& path, uint64_t size_bytes) override;
  // INVALID_ARGUMENT also for a key above kMaxKeyBytes, or a label that is no 32-bit number.
  absl::Status Add(const FoundSample& sample) override;

  uint64_t samples() const { return samples_; }
  // Of all samples so far: the same for the same ones, in whatever order they came.
  uint64_t content() const { return content_; }

  // Writes the index. `set`: the same for the indexes that were made together. `progress` is called
  // now and then; its error ends it. INVALID_ARGUMENT when two samples have one key: their files
  // are named.
  absl::Status Finish(
      const std::vector<std::string>& class_names, const std::string& set = "",
      const std::function<absl::Status()>& progress = [] { return absl::OkStatus(); });

 private:
  struct Kept {
    std::string key;
    uint64_t offset = 0;
    uint64_t size = 0;
    uint32_t file = 0;
    int32_t label = 0;
  };
  class Run;
  class Parts;

  absl::Status Begin();
  void Sort();
  absl::Status PutAside();
  absl::Status RemoveLeftovers();
  absl::Status WriteIndex(const std::vector<std::string>& class_names, const std::string& set,
                          const std::function<absl::Status()>& progress);
  std::string PartPath(const std::string& what) const;
  absl::Status TwiceTheKey(const Kept& a, const Kept& b) const;

  FileSystem& fs_;
  const std::string path_;
  const IndexWriterOptions options_;
  const std::string unique_;  // in the names of its parts
  SourceFiles files_;
  bool begun_ = false, finished_ = false;
  std::vector<Kept> kept_;
  uint64_t kept_bytes_ = 0;
  uint64_t samples_ = 0;
  uint64_t content_ = 0;
  int runs_ = 0;  // put aside
};

}  // namespace muster::worker
