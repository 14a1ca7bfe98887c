// JobSpec -> text, in the spelling that ReadSpec reads. Pure.
#pragma once

#include <string>

#include "muster/v1/job_spec.pb.h"

namespace muster {

// One line of JSON, keys in the order of their field numbers; only fields that are set. Of a
// resolved spec that is every field that means something. This is the form that travels to agents
// and trainers.
std::string SpecToJson(const v1::JobSpec& spec);

// The same as block YAML, ending in a newline, for people.
std::string SpecToYaml(const v1::JobSpec& spec);

}  // namespace muster
