#include "worker/agent/repair_strings.h"

#include <string>
#include <vector>

#include "common/base/utf8.h"
#include "google/protobuf/descriptor.h"

namespace muster::worker {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void RepairStrings(Message& message) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 0;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!field->is_repeated()) RepairStrings(*reflection.MutableMessage(&message, field));
      for (int i = 0; i < count; ++i) {
        RepairStrings(*reflection.MutableRepeatedMessage(&message, field, i));
      }
      continue;
    }
    if (field->type() != FieldDescriptor::TYPE_STRING) continue;
    std::string scratch;
    if (!field->is_repeated()) {
      const std::string& text = reflection.GetStringReference(message, field, &scratch);
      if (!IsUtf8(text)) reflection.SetString(&message, field, RepairUtf8(text));
    }
    for (int i = 0; i < count; ++i) {
      const std::string& text = reflection.GetRepeatedStringReference(message, field, i, &scratch);
      if (!IsUtf8(text)) reflection.SetRepeatedString(&message, field, i, RepairUtf8(text));
    }
  }
}

}  // namespace muster::worker
