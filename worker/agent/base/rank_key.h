// Names one rank of one attempt of a job, in one generation: the key of its folder, its numbers in
// the spool and its logs. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "muster/v1/common.pb.h"

namespace muster::worker {

struct RankKey {
  uint64_t job_id = 0;
  uint32_t attempt = 0;
  uint32_t generation = 0;
  uint32_t rank = 0;

  friend auto operator<=>(const RankKey&, const RankKey&) = default;
};

RankKey MakeRankKey(const v1::Fence& fence, uint32_t rank);

// Reads and writes the four fields that every record of worker_service.proto starts with.
template <typename Record>
RankKey KeyOf(const Record& record) {
  return {record.job_id(), record.attempt(), record.generation(), record.rank()};
}
template <typename Record>
void SetKey(const RankKey& key, Record& record) {
  record.set_job_id(key.job_id);
  record.set_attempt(key.attempt);
  record.set_generation(key.generation);
  record.set_rank(key.rank);
}

// "job-42.a1.g1.r0", the name of the rank's folder.
std::string RankFolderName(const RankKey& key);
// Nothing unless `name` is exactly what RankFolderName would give.
std::optional<RankKey> ParseRankFolderName(absl::string_view name);

}  // namespace muster::worker
