#include "controller/web/gateway/query_fields.h"

#include <google/protobuf/descriptor.h>

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster::controller {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Reflection has a setter and an adder for each type.
#define MUSTER_PUT(Type, value)                                    \
  (field.is_repeated() ? access.Add##Type(&message, &field, value) \
                       : access.Set##Type(&message, &field, value))

// False: `text` is no value of the field.
bool SetField(const std::string& text, const FieldDescriptor& field, Message& message) {
  const Reflection& access = *message.GetReflection();
  int32_t int32 = 0;
  int64_t int64 = 0;
  uint32_t uint32 = 0;
  uint64_t uint64 = 0;
  bool flag = false;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      if (!absl::SimpleAtoi(text, &int32)) return false;
      MUSTER_PUT(Int32, int32);
      return true;
    case FieldDescriptor::CPPTYPE_INT64:
      if (!absl::SimpleAtoi(text, &int64)) return false;
      MUSTER_PUT(Int64, int64);
      return true;
    case FieldDescriptor::CPPTYPE_UINT32:
      if (!absl::SimpleAtoi(text, &uint32)) return false;
      MUSTER_PUT(UInt32, uint32);
      return true;
    case FieldDescriptor::CPPTYPE_UINT64:
      if (!absl::SimpleAtoi(text, &uint64)) return false;
      MUSTER_PUT(UInt64, uint64);
      return true;
    case FieldDescriptor::CPPTYPE_BOOL:
      if (!absl::SimpleAtob(text, &flag)) return false;
      MUSTER_PUT(Bool, flag);
      return true;
    case FieldDescriptor::CPPTYPE_STRING:
      MUSTER_PUT(String, text);
      return true;
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto* value = field.enum_type()->FindValueByName(text);
      if (value == nullptr) return false;
      MUSTER_PUT(Enum, value);
      return true;
    }
    default:
      return false;
  }
}

#undef MUSTER_PUT

}  // namespace

absl::Status SetFields(const std::multimap<std::string, std::string>& query, Message& message) {
  for (const auto& [key, text] : query) {
    const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(key);
    if (field == nullptr || field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return absl::InvalidArgumentError(absl::StrCat(key, ": nothing of that name is asked here"));
    }
    if (!SetField(text, *field, message)) {
      return absl::InvalidArgumentError(absl::StrCat(key, ": not a value of it"));
    }
  }
  return absl::OkStatus();
}

}  // namespace muster::controller
