// What leaves the agent may hold what a job said: a file's name, a program's last words. A message
// with one string that is not UTF-8 is refused whole, and would be repeated for ever. Pure.
#pragma once

#include "google/protobuf/message.h"

namespace muster::worker {

// Each byte that is no UTF-8 in the message's strings, at any depth, becomes '?'; but not in maps,
// whose keys are names of values that were read from JSON.
void RepairStrings(google::protobuf::Message& message);

}  // namespace muster::worker
