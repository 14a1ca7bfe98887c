// A resolved JobSpec as the controller keeps it: packed, a third of its JSON, which is written only
// when a rank starts. Pure.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "muster/v1/job_spec.pb.h"

namespace muster {

// Equal specs have equal bytes, so that these can be compared.
std::string PackSpec(const v1::JobSpec& spec);

// Of what PackSpec made, or of JSON, which older versions kept. Of anything else: what of it can be
// read.
v1::JobSpec UnpackSpec(absl::string_view packed);

// As SpecToJson of it; JSON stays as it is.
std::string PackedSpecToJson(absl::string_view packed);

}  // namespace muster
