// One scalar of a spec -> one value, or one field of a message, with YAML 1.2's idea of types and
// no conversions. Pure.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/message.h>

#include <cstdint>
#include <string>

#include "common/spec/tree/spec_tree.h"

namespace muster {

// Sets `field` of `message` (appends when it is repeated) from a scalar node; a Duration field
// counts as a scalar. Returns empty, or what is wrong: what must stand there and what was given.
std::string SetScalar(const SpecNode& node, const google::protobuf::FieldDescriptor* field,
                      google::protobuf::Message& message);

// The same for values that stand on their own. All but ReadString require a scalar node. ReadWhole:
// int32_t, uint32_t, int64_t and uint64_t.
std::string ReadString(const SpecNode& node, std::string& out);
std::string ReadBool(const SpecNode& node, bool& out);
template <typename T>
std::string ReadWhole(const SpecNode& node, T& out);
std::string ReadReal(const SpecNode& node, double& out);
std::string ReadDuration(const SpecNode& node, google::protobuf::Duration& out);

}  // namespace muster
