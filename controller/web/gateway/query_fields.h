// The query of an address as the fields of a request message. Pure; any thread.
#pragma once

#include <google/protobuf/message.h>

#include <map>
#include <string>

#include "absl/status/status.h"

namespace muster::controller {

// Sets the field that each key names: numbers, texts, switches ("true"), enums by name; a key that
// comes again adds to a list. INVALID_ARGUMENT names the key: no such field, or no such value.
absl::Status SetFields(const std::multimap<std::string, std::string>& query,
                       google::protobuf::Message& message);

}  // namespace muster::controller
