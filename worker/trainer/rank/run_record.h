// What a run was made with, for the record in each checkpoint's state.json: whoever wants the same
// bits again needs the same of all this.
#pragma once

#include <c10/core/Device.h>

#include <map>
#include <string>

#include "absl/status/status.h"
#include "trainer_spec/job_spec.h"
#include "worker/data/base/dataset.h"
#include "worker/dist/collectives.h"
#include "worker/link/launch.h"
#include "worker/train/run/run_state.h"

namespace muster::worker {

// The name of a device as its maker gives it, "AMD EPYC 7B13" or "NVIDIA H100 80GB HBM3"; empty
// when the machine does not tell.
std::string DeviceName(c10::Device device);

// Versions of the libraries that compute, by name: "torch", "onednn", "cuda", ...; "cpu_capability"
// are the instructions that torch's own kernels use here.
std::map<std::string, std::string> LibraryVersions();

// The code's version as version.h has it; of a build without a repository, which has "unknown",
// with a hash of the program at `path`, so that two builds differ.
std::string ProgramVersion(const std::string& code_version, const std::string& path);

// Whether all ranks see the same data: another number of samples, or another order of them, would
// let some come twice and others never, or the ranks wait for each other. All ranks call it.
// DATA_ERROR.
absl::Status CheckSameData(const Dataset& dataset, Collectives& gang, c10::Device device);

// The record of this run. All ranks call it (they compare their devices).
RunIdentity IdentityOf(const Launch& launch, const trainer_spec::JobSpec& spec,
                       const Dataset& dataset, Collectives& gang, c10::Device device);

}  // namespace muster::worker
