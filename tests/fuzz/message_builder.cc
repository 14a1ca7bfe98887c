#include "tests/fuzz/message_builder.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/reflection.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <string>

#include "common/base/utf8.h"

namespace muster::testing {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::Reflection;

constexpr int kMaxDepth = 6;
constexpr int kMostElements = 3;
// Above every bound on the count of something in one message.
constexpr int kTooMany = 1100;

// What other requests of the same input may have made, and what is special somewhere.
constexpr const char* kTexts[] = {"",          "worker-0",    "worker-1",  "worker-2",
                                  "default",   "job-a",       "job-b",     "loss",
                                  "key-1",     "key-2",       "ann",       "train",
                                  "nowhere",   "..",          "/",         "/ckpt/job-1/s1",
                                  "/etc",      "zone",        "\xff\xfe",  "\n",
                                  "a\0b",      "%s%n",        "{}",        "validation_accuracy",
                                  "sha-1",     "file://",     "127.0.0.1", "-",
                                  "a,b;c=d\"", "memory_bytes"};

uint64_t Number(FuzzInput& input) {
  switch (input.Below(8)) {
    case 0:
      return input.Word();
    case 1:
      return std::numeric_limits<uint64_t>::max() - input.Below(3);
    case 2:
      return uint64_t{1} << input.Below(64);
    default:
      return input.Below(6);
  }
}

double Real(FuzzInput& input) {
  switch (input.Below(6)) {
    case 0:
      return std::numeric_limits<double>::quiet_NaN();
    case 1:
      return input.Chance(128) ? HUGE_VAL : -HUGE_VAL;
    case 2:
      return -std::numeric_limits<double>::max();
    default:
      return static_cast<double>(input.Below(100)) / 10;
  }
}

std::string Text(FuzzInput& input, bool is_bytes) {
  switch (input.Below(8)) {
    case 0:
      return is_bytes ? input.Bytes(input.Byte()) : RepairUtf8(input.Bytes(input.Byte()));
    case 1:
      return std::string(16, static_cast<char>('a' + input.Below(3)));  // an incarnation
    case 2:
      if (input.Chance(32)) return LongText(input);
      return std::string(input.Byte(), is_bytes ? '\0' : 'y');
    default:
      return kTexts[input.Below(std::size(kTexts))];
  }
}

// What the setters for one value and for one more of a list have in common.
template <typename Set>
void WithValue(FuzzInput& input, const FieldDescriptor& field, const Set& set) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return set.Int32(static_cast<int32_t>(Number(input)));
    case FieldDescriptor::CPPTYPE_INT64:
      return set.Int64(static_cast<int64_t>(Number(input)));
    case FieldDescriptor::CPPTYPE_UINT32:
      return set.UInt32(static_cast<uint32_t>(Number(input)));
    case FieldDescriptor::CPPTYPE_UINT64:
      return set.UInt64(Number(input));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return set.Double(Real(input));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return set.Float(static_cast<float>(Real(input)));
    case FieldDescriptor::CPPTYPE_BOOL:
      return set.Bool(input.Chance(128));
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto& type = *field.enum_type();
      const bool known = !input.Chance(16);
      return set.Enum(known
                          ? type.value(static_cast<int>(input.Below(type.value_count())))->number()
                          : static_cast<int>(input.Byte()) - 2);
    }
    case FieldDescriptor::CPPTYPE_STRING:
      return set.String(Text(input, field.type() == FieldDescriptor::TYPE_BYTES));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return;  // handled by the caller
  }
}

struct Setter {
  const Reflection& r;
  Message& m;
  const FieldDescriptor* f;
  void Int32(int32_t v) const { r.SetInt32(&m, f, v); }
  void Int64(int64_t v) const { r.SetInt64(&m, f, v); }
  void UInt32(uint32_t v) const { r.SetUInt32(&m, f, v); }
  void UInt64(uint64_t v) const { r.SetUInt64(&m, f, v); }
  void Double(double v) const { r.SetDouble(&m, f, v); }
  void Float(float v) const { r.SetFloat(&m, f, v); }
  void Bool(bool v) const { r.SetBool(&m, f, v); }
  void Enum(int v) const { r.SetEnumValue(&m, f, v); }
  void String(std::string v) const { r.SetString(&m, f, std::move(v)); }
};

struct Adder {
  const Reflection& r;
  Message& m;
  const FieldDescriptor* f;
  void Int32(int32_t v) const { r.AddInt32(&m, f, v); }
  void Int64(int64_t v) const { r.AddInt64(&m, f, v); }
  void UInt32(uint32_t v) const { r.AddUInt32(&m, f, v); }
  void UInt64(uint64_t v) const { r.AddUInt64(&m, f, v); }
  void Double(double v) const { r.AddDouble(&m, f, v); }
  void Float(float v) const { r.AddFloat(&m, f, v); }
  void Bool(bool v) const { r.AddBool(&m, f, v); }
  void Enum(int v) const { r.AddEnumValue(&m, f, v); }
  void String(std::string v) const { r.AddString(&m, f, std::move(v)); }
};

void FillRepeated(FuzzInput& input, Message& message, const FieldDescriptor* field, int depth) {
  const Reflection& r = *message.GetReflection();
  const int count = input.Chance(4) ? kTooMany : 1 + static_cast<int>(input.Below(kMostElements));
  for (int i = 0; i < count; ++i) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Message* element = r.AddMessage(&message, field);
      // The many are empty but for the input's last bytes: it is their number that counts.
      if (i < kMostElements) FillMessage(input, *element, depth + 1);
    } else {
      WithValue(input, *field, Adder{r, message, field});
    }
  }
}

}  // namespace

std::string LongText(FuzzInput& input) {
  std::string text(input.Below(3), 'x');
  while (text.size() < 5000) text += "\xc3\xa9";
  return text;
}

void FillMessage(FuzzInput& input, Message& message, int depth) {
  if (depth > kMaxDepth) return;
  const Reflection& r = *message.GetReflection();
  const auto* type = message.GetDescriptor();
  for (int i = 0; i < type->field_count() && !input.empty(); ++i) {
    const FieldDescriptor* field = type->field(i);
    if (!input.Chance(160)) continue;
    if (field->is_repeated()) {
      FillRepeated(input, message, field, depth);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      FillMessage(input, *r.MutableMessage(&message, field), depth + 1);
    } else {
      WithValue(input, *field, Setter{r, message, field});
    }
  }
}

}  // namespace muster::testing
