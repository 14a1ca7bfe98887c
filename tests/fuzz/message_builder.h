// Builds any protobuf message from fuzz bytes, by reflection: no field is forgotten when one is
// added. Small numbers, names from a short list and known enum values are likely, so that requests
// meet what earlier ones made; extremes and nonsense are possible everywhere.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "tests/fuzz/fuzz_input.h"

namespace muster::testing {

// Overwrites some of the message's fields. Requires an input that ends: recursion is bounded too.
void FillMessage(FuzzInput& input, google::protobuf::Message& message, int depth = 0);

// Longer than any bound on text for people, and not of one byte a character.
std::string LongText(FuzzInput& input);

}  // namespace muster::testing
