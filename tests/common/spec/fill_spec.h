// Sets every field of a message by reflection, so that a test covers fields that nobody has thought
// of yet.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/message.h>

#include <string>

namespace muster::testing {

// Fills all fields with values that differ from each other and from zero. `variant` picks the
// member of each oneof and the value of each enum; `counter` makes the values differ.
inline void FillEverything(google::protobuf::Message& message, int variant, int& counter) {
  using google::protobuf::FieldDescriptor;
  const auto* descriptor = message.GetDescriptor();
  const auto* r = message.GetReflection();
  if (descriptor->full_name() == "google.protobuf.Duration") {
    google::protobuf::Duration duration;
    duration.set_seconds(++counter * 61);
    duration.set_nanos(250'000'000);
    message.CopyFrom(duration);
    return;
  }
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* f = descriptor->field(i);
    if (const auto* oneof = f->real_containing_oneof();
        oneof != nullptr && f->index_in_oneof() != variant % oneof->field_count()) {
      continue;
    }
    const int n = ++counter;
    const bool many = f->is_repeated();
    switch (f->cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL:
        many ? r->AddBool(&message, f, true) : r->SetBool(&message, f, true);
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        many ? r->AddInt32(&message, f, -n) : r->SetInt32(&message, f, -n);
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        many ? r->AddInt64(&message, f, -n) : r->SetInt64(&message, f, -n);
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        many ? r->AddUInt32(&message, f, n) : r->SetUInt32(&message, f, n);
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        // Beyond what a signed number or a double could hold.
        many ? r->AddUInt64(&message, f, ~0ull - n) : r->SetUInt64(&message, f, ~0ull - n);
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        many ? r->AddDouble(&message, f, 0.1 * n) : r->SetDouble(&message, f, 0.1 * n);
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        many ? r->AddFloat(&message, f, 0.5f * n) : r->SetFloat(&message, f, 0.5f * n);
        break;
      case FieldDescriptor::CPPTYPE_STRING: {
        const std::string text = "text \"" + std::to_string(n) + "\" \xc3\xa4\n";
        many ? r->AddString(&message, f, text) : r->SetString(&message, f, text);
        break;
      }
      case FieldDescriptor::CPPTYPE_ENUM: {
        const int count = f->enum_type()->value_count();
        const auto* value = f->enum_type()->value(1 + variant % (count - 1));
        many ? r->AddEnum(&message, f, value) : r->SetEnum(&message, f, value);
        break;
      }
      case FieldDescriptor::CPPTYPE_MESSAGE:
        FillEverything(many ? *r->AddMessage(&message, f) : *r->MutableMessage(&message, f),
                       variant, counter);
        break;
    }
  }
}

}  // namespace muster::testing
