// protoc-gen-muster-spec-table: writes job_spec.proto as the tables of spec_table.h. What they
// cannot say stops the build.
#include <google/protobuf/compiler/code_generator.h>
#include <google/protobuf/compiler/plugin.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/printer.h>
#include <google/protobuf/io/zero_copy_stream.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/spec/tree/spec_table.h"
#include "common/spec/tree/spec_text.h"

namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::compiler::GeneratorContext;

template <typename T>
size_t IndexOf(std::vector<const T*>& all, const T* one) {
  const auto found = std::find(all.begin(), all.end(), one);
  if (found != all.end()) return static_cast<size_t>(found - all.begin());
  all.push_back(one);
  return all.size() - 1;
}

bool IsMapOfStrings(const FieldDescriptor& field) {
  return field.is_map() &&
         field.message_type()->map_key()->type() == FieldDescriptor::TYPE_STRING &&
         field.message_type()->map_value()->type() == FieldDescriptor::TYPE_STRING;
}

// The name of its SpecField::Type; empty: it has none.
std::string TypeOf(const FieldDescriptor& field) {
  switch (field.type()) {
    case FieldDescriptor::TYPE_BOOL:
      return "kBool";
    case FieldDescriptor::TYPE_INT32:
      return "kInt32";
    case FieldDescriptor::TYPE_UINT32:
      return "kUint32";
    case FieldDescriptor::TYPE_INT64:
      return "kInt64";
    case FieldDescriptor::TYPE_UINT64:
      return "kUint64";
    case FieldDescriptor::TYPE_DOUBLE:
      return "kDouble";
    case FieldDescriptor::TYPE_STRING:
      return "kString";
    case FieldDescriptor::TYPE_ENUM:
      return "kEnum";
    case FieldDescriptor::TYPE_MESSAGE:
      if (field.is_map()) return IsMapOfStrings(field) ? "kStringMap" : "";
      return field.message_type()->full_name() == "google.protobuf.Duration" ? "kDuration"
                                                                             : "kMessage";
    default:
      return "";
  }
}

class Tables {
 public:
  explicit Tables(const Descriptor* root) : messages_{root} {
    // Messages and enums are added as fields that hold them are met.
    for (size_t i = 0; i < messages_.size(); ++i) AddMessage(*messages_[i]);
    for (const EnumDescriptor* type : enums_) AddEnum(*type);
  }

  // Empty, or what cannot be said.
  const std::string& fault() const { return fault_; }

  std::string Source() const {
    return absl::StrCat(
        "// Generated from job_spec.proto by protoc-gen-muster-spec-table. Do not edit.\n",
        "#include \"common/spec/tree/spec_table.h\"\n\nnamespace muster {\n\nusing T = "
        "SpecField::Type;\n",
        "\nconst SpecSpan kSpecMessages[] = {\n", message_rows_,
        "};\n\nconst SpecField kSpecFields[] = {\n", field_rows_,
        "};\n\nconst SpecSpan kSpecEnums[] = {\n", enum_rows_,
        "};\n\nconst SpecEnumValue kSpecEnumValues[] = {\n", value_rows_,
        "};\n\n}  // namespace muster\n");
  }

 private:
  std::string Quoted(const std::string& name) {
    if (name.size() >= muster::kSpecNameBytes) fault_ = name + ": longer than kSpecNameBytes";
    return absl::StrCat("\"", name, "\"");
  }

  void AddMessage(const Descriptor& message) {
    const int begin = fields_;
    for (int i = 0; i < message.field_count(); ++i, ++fields_) {
      const FieldDescriptor& field = *message.field(i);
      const std::string type = TypeOf(field);
      if (type.empty()) fault_ = field.full_name() + ": no SpecField::Type for it";
      size_t points = 0;
      if (type == "kMessage") points = IndexOf(messages_, field.message_type());
      if (type == "kEnum") points = IndexOf(enums_, field.enum_type());
      const auto* oneof = field.real_containing_oneof();
      absl::StrAppend(&field_rows_, "    {", Quoted(field.name()), ", ", field.number(),
                      ", T::", type, ", ",
                      field.is_repeated() && !field.is_map() ? "true" : "false", ", ",
                      oneof == nullptr ? 0 : oneof->index() + 1, ", ", points, "},\n");
    }
    absl::StrAppend(&message_rows_, "    {", begin, ", ", fields_, "},  // ", message.name(), "\n");
  }

  void AddEnum(const EnumDescriptor& type) {
    const int begin = values_;
    for (int i = 0; i < type.value_count(); ++i) {
      if (type.value(i)->number() == 0) continue;
      ++values_;
      absl::StrAppend(&value_rows_, "    {", Quoted(muster::EnumValueText(*type.value(i))), ", ",
                      type.value(i)->number(), "},\n");
    }
    absl::StrAppend(&enum_rows_, "    {", begin, ", ", values_, "},  // ", type.name(), "\n");
  }

  std::vector<const Descriptor*> messages_;
  std::vector<const EnumDescriptor*> enums_;
  int fields_ = 0;
  int values_ = 0;
  std::string message_rows_, field_rows_, enum_rows_, value_rows_;
  std::string fault_;
};

class Generator final : public google::protobuf::compiler::CodeGenerator {
 public:
  bool Generate(const FileDescriptor* file, const std::string&, GeneratorContext* context,
                std::string* error) const override {
    const Descriptor* root = file->FindMessageTypeByName("JobSpec");
    if (root == nullptr) {
      *error = "no JobSpec in " + file->name();
      return false;
    }
    const Tables tables(root);
    *error = tables.fault();
    if (!error->empty()) return false;
    const std::unique_ptr<google::protobuf::io::ZeroCopyOutputStream> stream(
        context->Open("spec_table/job_spec.cc"));
    google::protobuf::io::Printer(stream.get(), '$').PrintRaw(tables.Source());
    return true;
  }

  uint64_t GetSupportedFeatures() const override { return FEATURE_PROTO3_OPTIONAL; }
};

}  // namespace

int main(int argc, char** argv) {
  Generator generator;
  return google::protobuf::compiler::PluginMain(argc, argv, &generator);
}
