// Weights from another run, or from anywhere: a safetensors file or a checkpoint of Muster's into a
// fresh model.
//
// Only at the start of a fresh run, never over a resume: a job that is restarted has its own
// checkpoints. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "worker/checkpoint/named_tensor.h"
#include "worker/dist/collectives.h"
#include "worker/models/base/model.h"
#include "worker/train/recipe/transfer_plan.h"

namespace muster::worker {

struct TransferConfig {
  // A file, or the folder of a checkpoint: its model.safetensors.
  std::string path;
  TransferRules rules;
  // Applied to all tensors of the file before the names are mapped: for a file whose tensors are
  // cut otherwise than the model's. May be empty.
  std::function<absl::StatusOr<NamedTensors>(NamedTensors)> layout;
};

// Counts of tensors; zeros on other ranks than 0.
struct TransferSummary {
  int64_t loaded = 0;
  int64_t fresh = 0;        // of the model, not in the file, or to be ignored
  int64_t reshaped = 0;     // of the head, fresh because its shape differs
  int64_t unused = 0;       // of the file
  std::string fingerprint;  // of the file's bytes
};

class Transfer {
 public:
  // `fs` must outlive it.
  Transfer(FileSystem& fs, TransferConfig config) : fs_(fs), config_(std::move(config)) {}

  // All ranks call it. Rank 0 reads, checks and logs what matched and what did not; then all have
  // its weights and buffers. A file with averaged weights ("ema.<name>") gives those. Numbers are
  // converted to the model's type. START_FAILED when the file cannot be read or does not fit
  // (PlanTransfer).
  absl::StatusOr<TransferSummary> Load(Model& model, Collectives& gang) const;

 private:
  absl::StatusOr<TransferSummary> Read(Model& model) const;

  FileSystem& fs_;
  const TransferConfig config_;
};

// The tensors of a network as a file has them: averages, where it has some, in the weights' place.
struct ModelFile {
  std::string file;
  NamedTensors tensors;
  std::string fingerprint;  // of the file's bytes
};
// `path` is a safetensors file, or the folder of a checkpoint. The reader's codes.
absl::StatusOr<ModelFile> ReadModelFile(FileSystem& fs, const std::string& path);

// Fills a network that is only to compute, with nothing missing, left over or of another shape.
// FAILED_PRECONDITION naming what is.
absl::Status CopyExactly(const NamedTensors& tensors, Model& model);

}  // namespace muster::worker
