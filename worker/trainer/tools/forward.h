// One forward pass of a model on given inputs, outside of any job: `muster-trainer forward`.
//
// For comparing a model with another implementation, and for trying out trained weights. On the
// CPU, in evaluation mode, in fp32.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/fs/file_system.h"

namespace muster::worker {

struct ForwardRequest {
  std::string spec;     // file: a resolved spec (JSON); its train.model, seed and threads are read
  std::string weights;  // file: the model's state (safetensors); empty: the seed's initial weights
  std::string inputs;   // file: one tensor `inputs` [B, ...sample shape] (safetensors)
  // File to write (safetensors): `values`, and `mask` where the model gives one (ModelOutput).
  std::string out;
  int64_t classes = 0;  // how many the model tells apart
};

// INVALID_ARGUMENT when spec or inputs do not fit; FAILED_PRECONDITION when the weights do not fit
// the model; else the codes of the readers, of fs, and of TorchGuard. Nothing is thrown.
absl::Status Forward(FileSystem& fs, const ForwardRequest& request);

}  // namespace muster::worker
