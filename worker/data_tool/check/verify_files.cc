#include "worker/data_tool/check/verify_files.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/formats/shard_index.h"
#include "worker/data/formats/tf_record.h"
#include "worker/data/formats/web_dataset.h"

namespace muster::worker {
namespace {

class Nowhere final : public SampleSink {
 public:
  uint32_t AddFile(const std::string&, uint64_t) override { return 0; }
  absl::Status Add(const FoundSample&) override { return absl::OkStatus(); }
};

// The samples of one file.
class KeptSamples final : public SampleSink {
 public:
  struct Kept {
    uint64_t offset = 0;
    uint64_t size = 0;
    int64_t label = kNoLabel;
    std::string key;
    friend bool operator==(const Kept&, const Kept&) = default;
  };

  uint32_t AddFile(const std::string&, uint64_t) override { return 0; }
  absl::Status Add(const FoundSample& sample) override {
    samples_.push_back({sample.offset, sample.size, sample.label, std::string(sample.key)});
    return absl::OkStatus();
  }
  const std::vector<Kept>& samples() const { return samples_; }

 private:
  std::vector<Kept> samples_;
};

std::string TextOf(const std::vector<KeptSamples::Kept>& samples, size_t at) {
  if (at == samples.size()) return "no further sample";
  const KeptSamples::Kept& sample = samples[at];
  return absl::StrCat("the sample ", sample.key, " of ", sample.size, " bytes at ", sample.offset,
                      " with the label ", sample.label);
}

}  // namespace

absl::Status VerifyChecksums(FileSystem& data, const std::string& path) {
  Nowhere nowhere;
  TfRecordOptions options;
  options.verify = true;
  return IndexTfRecords(data, path, options, nowhere).status();
}

absl::StatusOr<bool> VerifyShardIndex(FileSystem& data, const std::string& shard) {
  const std::optional<std::string> path = ShardIndexPath(shard);
  if (!path.has_value()) return false;
  const absl::StatusOr<std::string> text = data.ReadFile(*path, kMostShardIndexBytes);
  if (absl::IsNotFound(text.status()) || absl::IsPermissionDenied(text.status())) return false;
  MUSTER_RETURN_IF_ERROR(text.status());
  IndexedShard indexed{shard, 0, nullptr};
  MUSTER_ASSIGN_OR_RETURN(indexed.size_bytes, data.FileSize(shard));
  indexed.read = [&](uint64_t offset, char* buffer, uint64_t bytes) {
    return data.ReadAt(shard, offset, buffer, bytes);
  };
  KeptSamples by_index, by_shard;
  MUSTER_ASSIGN_OR_RETURN(const std::optional<IndexReport> report,
                          IndexByShardIndex(indexed, *path, *text, {}, by_index));
  if (!report.has_value()) return false;
  MUSTER_RETURN_IF_ERROR(IndexWebDataset(data, shard, {}, by_shard).status());
  const auto &told = by_index.samples(), &held = by_shard.samples();
  const auto [one, other] = std::mismatch(told.begin(), told.end(), held.begin(), held.end());
  if (one == told.end() && other == held.end()) return true;
  const auto at = static_cast<size_t>(one - told.begin());
  return absl::InvalidArgumentError(
      absl::StrCat("has ", TextOf(told, at), ", and ", shard, " has ", TextOf(held, at),
                   ": make it again with `muster data index --beside`"));
}

}  // namespace muster::worker
