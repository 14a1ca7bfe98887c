// A SampleSink that keeps what it is given, and refuses what does not lie in its file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/formats/sample_reader.h"
#include "worker/data/formats/sample_sink.h"

namespace muster::worker {

struct ListedSample {
  std::string key;
  uint32_t file = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  int64_t label = kNoLabel;

  friend bool operator==(const ListedSample&, const ListedSample&) = default;
};

// A sample as every format must give it.
struct WholeSample {
  std::string key;
  std::string bytes;
  int64_t label = kNoLabel;

  friend bool operator==(const WholeSample&, const WholeSample&) = default;
  friend bool operator<(const WholeSample& a, const WholeSample& b) { return a.key < b.key; }
};

inline void PrintTo(const WholeSample& sample, std::ostream* out) {
  *out << sample.key << " (" << sample.bytes.size() << " bytes) label " << sample.label;
}

class SampleList final : public SampleSink {
 public:
  uint32_t AddFile(const std::string& path, uint64_t size_bytes) override {
    files_.emplace_back(path, size_bytes);
    return static_cast<uint32_t>(files_.size() - 1);
  }
  absl::Status Add(const FoundSample& sample) override {
    if (sample.file >= files_.size() || sample.offset > files_[sample.file].second ||
        sample.size > files_[sample.file].second - sample.offset) {
      return absl::InternalError(absl::StrCat(sample.key, " does not lie in its file"));
    }
    samples_.push_back(
        {std::string(sample.key), sample.file, sample.offset, sample.size, sample.label});
    return absl::OkStatus();
  }

  const std::vector<ListedSample>& samples() const { return samples_; }
  const std::string& path(uint32_t file) const { return files_[file].first; }

  // What is in the files, by key.
  absl::StatusOr<std::vector<WholeSample>> Read(FileSystem& fs) const {
    std::vector<WholeSample> whole;
    for (const ListedSample& sample : samples_) {
      std::string bytes(sample.size, '\0');
      MUSTER_RETURN_IF_ERROR(
          ReadSample(fs, path(sample.file), sample.offset, sample.size, bytes.data()));
      whole.push_back({sample.key, std::move(bytes), sample.label});
    }
    std::sort(whole.begin(), whole.end());
    return whole;
  }

 private:
  std::vector<std::pair<std::string, uint64_t>> files_;
  std::vector<ListedSample> samples_;
};

}  // namespace muster::worker
