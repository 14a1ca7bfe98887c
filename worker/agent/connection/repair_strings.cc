#include "worker/agent/connection/repair_strings.h"

#include <string>

#include "common/base/utf8.h"
#include "google/protobuf/descriptor.h"

namespace muster::worker {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void RepairOne(Message& message, const Reflection& reflection, const FieldDescriptor* field) {
  if (!reflection.HasField(message, field)) return;
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    return RepairStrings(*reflection.MutableMessage(&message, field));
  }
  std::string scratch;
  const std::string& text = reflection.GetStringReference(message, field, &scratch);
  if (!IsUtf8(text)) reflection.SetString(&message, field, RepairUtf8(text));
}

void RepairEach(Message& message, const Reflection& reflection, const FieldDescriptor* field) {
  std::string scratch;
  for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      RepairStrings(*reflection.MutableRepeatedMessage(&message, field, i));
      continue;
    }
    const std::string& text = reflection.GetRepeatedStringReference(message, field, i, &scratch);
    if (!IsUtf8(text)) reflection.SetRepeatedString(&message, field, i, RepairUtf8(text));
  }
}

}  // namespace

void RepairStrings(Message& message) {
  const Descriptor& descriptor = *message.GetDescriptor();
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor* field = descriptor.field(i);
    const bool holds_text = field->type() == FieldDescriptor::TYPE_STRING ||
                            field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    // A map's names came out of JSON, whose reader takes nothing but UTF-8. Reflection on maps
    // needs a libprotobuf that was built for the same sanitizer.
    if (!holds_text || field->is_map()) continue;
    field->is_repeated() ? RepairEach(message, reflection, field)
                         : RepairOne(message, reflection, field);
  }
}

}  // namespace muster::worker
