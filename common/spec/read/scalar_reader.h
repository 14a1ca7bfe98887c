// One scalar of a spec -> one value, or one field of a message, with YAML 1.2's idea of types and
// no conversions. Pure.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>

#include "common/spec/tree/spec_tree.h"

namespace muster {

// Sets `field` of `message` (appends when it is repeated) from a scalar node; a Duration field
// counts as a scalar. Returns empty, or what is wrong: what must stand there and what was given.
std::string SetScalar(const SpecNode& node, const google::protobuf::FieldDescriptor* field,
                      google::protobuf::Message& message);

// The same for a string that stands on its own, from any node.
std::string ReadString(const SpecNode& node, std::string& out);

}  // namespace muster
