// Results for a Python test to read.
#pragma once

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/ckpt/safetensors.h"
#include "worker/checkpoint/tensor_snapshot.h"

namespace muster::testing {

// As one safetensors file.
inline absl::Status WriteTensors(const worker::NamedTensors& tensors, const std::string& path) {
  worker::TensorSnapshot snapshot;
  snapshot.Copy(tensors);
  std::ofstream file(path, std::ios::binary);
  MUSTER_RETURN_IF_ERROR(WriteSafetensors(snapshot.Bytes(), [&file](absl::string_view bytes) {
    file << bytes;
    return absl::OkStatus();
  }));
  file.close();
  return file ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write ", path));
}

}  // namespace muster::testing
