// A checkpoint's network as one file for other programs: `muster-trainer export`, which
// `muster ckpt export` runs for people. One process, on the CPU; the checkpoint is only read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "worker/trainer/tools/export_int8.h"

namespace muster::worker {

enum class ExportFormat {
  kSafetensors,  // weights and buffers alone, by their state names
  kTorchScript,  // the network too, for torch.jit.load (worker/models/base/trace.h)
  kInt8,         // safetensors with rounded weights (worker/trainer/tools/export_int8.h)
};

struct ExportRequest {
  std::string checkpoint;       // its folder
  std::string manifest_sha256;  // hex, as the controller knows it; empty: not compared
  ExportFormat format = ExportFormat::kSafetensors;
  std::string out;         // the file to write
  bool overwrite = false;  // what is there
  bool averaged = true;    // the moving average of the weights, where the run kept one
  // safetensors of a masked autoencoder: its encoder alone, in the names of a Vision Transformer.
  bool encoder = false;
  // Shape of one sample; empty: as the data of the run's spec has it. TorchScript alone asks.
  std::vector<int64_t> shape;
  bool allow_plugins = false;        // a plug-in or a TorchScript file is code
  int64_t calibration_batches = 16;  // int8 alone
};

struct ExportResult {
  std::string file;
  ExportFormat format = ExportFormat::kSafetensors;
  std::string job_name;
  int64_t step = 0;
  bool averaged = false;  // it holds averages
  int64_t tensors = 0, numbers = 0, bytes = 0;
  // TorchScript: what it takes, and the largest difference of its outputs from the network's own,
  // reread from its bytes, for two batches of different sizes.
  std::vector<int64_t> sample_shape;
  double largest_difference = 0;
  Int8Report int8;  // int8 alone
};

// Rereads the whole checkpoint first, and writes through a temporary name: the file is whole, or as
// it was. ALREADY_EXISTS when there is one and it may not be overwritten; NOT_FOUND when there is
// no checkpoint, DATA_LOSS when it is broken; FAILED_PRECONDITION when the network cannot be
// written so; else the codes of fs and of TorchGuard. Nothing is thrown.
absl::StatusOr<ExportResult> Export(FileSystem& fs, const ExportRequest& request);

// For people: a line or two. For machines: one JSON object.
std::string ExportText(const ExportResult& result);
std::string ExportJson(const ExportResult& result);

}  // namespace muster::worker
