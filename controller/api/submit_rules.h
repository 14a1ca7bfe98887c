// From a client's spec to what the engine stores. Clients are not trusted: everything is checked
// here again. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "controller/model/job_types.h"
#include "muster/v1/job_service.pb.h"

namespace muster::controller {

struct CheckedSubmit {
  v1::JobSpec resolved;  // every default written out
  JobSettings settings;
};

// FAILED_PRECONDITION: another protocol version. INVALID_ARGUMENT: everything that is wrong with
// the spec, at once, or a request beyond its bounds. `checkpoint_root` is for specs that name no
// url.
absl::StatusOr<CheckedSubmit> CheckSubmit(const v1::SubmitRequest& request,
                                          const std::string& checkpoint_root);

// The resolved spec of a stored job. What an older Muster wrote and this one does not know is left
// out.
v1::JobSpec SpecOf(const JobSettings& settings);

}  // namespace muster::controller
