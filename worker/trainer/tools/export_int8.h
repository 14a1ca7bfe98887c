// A checkpoint's network with int8 weights: post-training quantisation, and what it costs.
//
// Used by export.cc alone.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/fs/file_system.h"
#include "trainer_spec/job_spec.h"
#include "worker/checkpoint/named_tensor.h"

namespace muster::worker {

// Of the whole test split, computed in fp32, then with simulated int8
// (worker/models/simulated_int8.h).
struct Int8Report {
  int64_t layers = 0;               // whose weights and inputs were rounded
  int64_t calibration_samples = 0;  // of the validation split
  int64_t test_samples = 0;
  double accuracy_before = 0, accuracy_after = 0;
  double loss_before = 0, loss_after = 0;
};

struct Int8Network {
  // For each rounded weight `<name>`, int8, also `<name>.scale`, fp32, which broadcasts over it,
  // `<name>.input_scale`, fp32, and `<name>.input_zero_point`, int32; all other tensors as they
  // were.
  NamedTensors tensors;
  Int8Report report;
};

// Reads the run's data: `batches` of validation samples say how large the layers' inputs are, the
// test split is scored. FAILED_PRECONDITION when the network has no layer to round; else the codes
// of compose.h. Throws what torch throws.
absl::StatusOr<Int8Network> ToInt8(FileSystem& fs, const trainer_spec::JobSpec& spec,
                                   const NamedTensors& tensors, int64_t batches);

}  // namespace muster::worker
