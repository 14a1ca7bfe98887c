// Writes small checkpoints for tests, by the real writer.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/ckpt/checkpoint_writer.h"

namespace muster::testing {

struct CheckpointSpec {
  int64_t step = 10;
  uint32_t attempt = 1;
  uint64_t job_id = 7;
  std::string job_name = "digits";
  std::vector<std::pair<std::string, std::string>> files = {{"model.safetensors", "model bytes"},
                                                            {"state.json", "{}"}};
};

struct WrittenCheckpoint {
  std::string path;
  std::string manifest_sha256;
};

inline absl::StatusOr<WrittenCheckpoint> WriteCheckpoint(FileSystem& fs, const std::string& root,
                                                         const CheckpointSpec& spec) {
  MUSTER_ASSIGN_OR_RETURN(const auto writer,
                          CheckpointWriter::Create(fs, root, {spec.step, spec.attempt, 1, "n0"}));
  for (const auto& file : spec.files) {
    MUSTER_RETURN_IF_ERROR(
        writer->AddFile(file.first, [&](const ByteSink& sink) { return sink(file.second); }));
  }
  Manifest manifest;
  manifest.job_id = spec.job_id;
  manifest.job_name = spec.job_name;
  MUSTER_ASSIGN_OR_RETURN(const std::string sha256, writer->Finish(manifest));
  MUSTER_RETURN_IF_ERROR(writer->Publish());
  return WrittenCheckpoint{writer->published_path(), sha256};
}

}  // namespace muster::testing
