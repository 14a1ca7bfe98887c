// Looks at data that are rows of numbers or text: see preflight.h, whose functions these are.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "trainer_spec/job_spec.h"
#include "worker/data_tool/check/preflight.h"

namespace muster::worker {

// Which of so many samples are tried: all of few, else kPreflightSamples, drawn by `seed`.
std::vector<uint64_t> IdsToTry(uint64_t samples, uint64_t seed);

// Headers, sizes and fingerprint; some rows, drawn by `seed`, have tokens of the vocabulary.
absl::StatusOr<PreflightReport> PreflightTokens(FileSystem& data,
                                                const trainer_spec::Tokens& tokens, uint64_t seed);
absl::StatusOr<PreflightReport> PreflightText(FileSystem& data, const trainer_spec::Text& text);
// Every row, where there are not too many.
absl::StatusOr<PreflightReport> PreflightCsv(FileSystem& data, const trainer_spec::Csv& csv);
// Headers and sizes.
absl::StatusOr<PreflightReport> PreflightNumpy(FileSystem& data, const trainer_spec::Numpy& numpy);

}  // namespace muster::worker
