// Reads a spec that has nothing wrong with it, without protobuf's descriptors. Pure.
#pragma once

#include <map>
#include <string>

#include "common/spec/tree/spec_tree.h"
#include "muster/v1/job_spec.pb.h"

namespace muster {

// What ReadSpecTree makes of the same tree, if that finds no fault: fills `spec` and `lines`, which
// are empty before. False: there is a fault, and ReadSpecTree knows how to tell it; both are left
// in any state.
bool ReadByTable(const SpecNode& root, v1::JobSpec& spec, std::map<std::string, int>& lines);

}  // namespace muster
