// Where a job's files are. Pure.
#pragma once

#include <functional>
#include <string>

#include "muster/v1/job_spec.pb.h"

namespace muster {

// Calls `visit` with the key and the value of each field `path` that is set, and of a teacher: what
// a job is trained from. Written out field by field, since to find them by reflection takes longer
// than to read a job; a test holds the list to the descriptor.
void ForEachTrainPath(v1::Train& train,
                      const std::function<void(const char* key, std::string& path)>& visit);

}  // namespace muster
