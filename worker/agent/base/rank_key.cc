#include "worker/agent/base/rank_key.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace muster::worker {
namespace {

template <typename T>
bool ReadPart(absl::string_view part, absl::string_view prefix, T* out) {
  return absl::ConsumePrefix(&part, prefix) && absl::SimpleAtoi(part, out);
}

}  // namespace

RankKey MakeRankKey(const v1::Fence& fence, uint32_t rank) {
  return {fence.job_id(), fence.attempt(), fence.generation(), rank};
}

std::string RankFolderName(const RankKey& key) {
  return absl::StrCat("job-", key.job_id, ".a", key.attempt, ".g", key.generation, ".r", key.rank);
}

std::optional<RankKey> ParseRankFolderName(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '.');
  RankKey key;
  if (parts.size() != 4 || !ReadPart(parts[0], "job-", &key.job_id) ||
      !ReadPart(parts[1], "a", &key.attempt) || !ReadPart(parts[2], "g", &key.generation) ||
      !ReadPart(parts[3], "r", &key.rank) || RankFolderName(key) != name) {
    return std::nullopt;
  }
  return key;
}

}  // namespace muster::worker
