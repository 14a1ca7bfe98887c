// What one rank is told at its start: who it is, where it may write, what to resume from, and the
// resolved spec.
//
// The agent writes it as JSON into the rank's folder; the trainer reads it once. Plain data and a
// pure codec.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster::worker {

struct ResumeCandidate {
  std::string path;
  int64_t step = 0;
  std::string manifest_sha256;  // hex
  bool best = false;
  uint64_t job_id = 0;  // of the job that wrote it, where that is another one; 0: this job
  std::string job_name = {};
};

struct Launch {
  uint64_t job_id = 0;
  std::string job_name;
  uint32_t attempt = 0;
  uint32_t generation = 0;
  uint64_t term = 0;
  uint32_t rank = 0;
  uint32_t world_size = 0;
  uint32_t local_rank = 0;
  uint32_t local_world_size = 0;
  std::string advertise_address;  // this worker's, for Gloo and NCCL to bind
  int32_t gpu = -1;               // index of the CUDA device, or -1: compute on the CPU
  std::string checkpoint_root;    // the job's own folder; made by the trainer when it is not there
  std::string root;               // in which that lies; empty: not known
  std::string root_identity;      // what its marker says, before anything there is believed
  std::string work_dir;           // the rank's own folder on the worker
  bool allow_plugins = false;     // and TorchScript files: somebody else's code (--allow-commands)
  // Newest first, those of another job last; empty: start from nothing.
  std::vector<ResumeCandidate> resume;
  std::string spec_json;  // the resolved JobSpec; an object in the file, not a string
};

std::string EncodeLaunch(const Launch& launch);
// INVALID_ARGUMENT naming the key that is missing or of the wrong type.
absl::StatusOr<Launch> DecodeLaunch(absl::string_view json);

}  // namespace muster::worker
