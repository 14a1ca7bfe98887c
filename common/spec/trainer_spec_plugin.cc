// protoc-gen-muster-trainer-spec: turns job_spec.proto into plain C++ structs with a JSON decoder
// and encoder, for the trainer. The trainer links LibTorch, whose bundled protobuf forbids a second
// one in the process; so the schema reaches it through this plugin and JSON. A type that the
// mapping below does not know stops the build.
//
//   message           struct of the same name (nested: Outer + Inner), fields in snake_case,
//   operator== optional scalar   plain value, zero when absent message field     plain struct;
//   std::optional when it stands in a oneof repeated, map     std::vector, std::map<std::string, T>
//   Duration          absl::Duration
//   enum              enum class, values without their prefix: Precision::kBf16,
//   OptimizerName::kAdamw
#include <google/protobuf/compiler/code_generator.h>
#include <google/protobuf/compiler/plugin.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/io/printer.h>
#include <google/protobuf/io/zero_copy_stream.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::compiler::GeneratorContext;
using google::protobuf::io::Printer;

bool IsDuration(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
         field.message_type()->full_name() == "google.protobuf.Duration";
}

bool InOneof(const FieldDescriptor& field) { return field.real_containing_oneof() != nullptr; }

template <typename D>
std::string TypeName(const D& type) {
  return type.containing_type() == nullptr ? type.name()
                                           : TypeName(*type.containing_type()) + type.name();
}

// NAME_ADAMW of Optimizer.Name -> "adamw".
std::string ValueText(const EnumDescriptor& type, const std::string& name) {
  std::string prefix;
  for (const char c : type.name()) {
    if (std::isupper(static_cast<unsigned char>(c)) && !prefix.empty()) prefix += '_';
    prefix += absl::ascii_toupper(static_cast<unsigned char>(c));
  }
  prefix += '_';
  return absl::AsciiStrToLower(absl::StartsWith(name, prefix) ? name.substr(prefix.size()) : name);
}

// "some_name" -> "kSomeName".
std::string ConstantName(const std::string& text) {
  std::string out = "k";
  for (absl::string_view word : absl::StrSplit(text, '_')) {
    if (word.empty()) continue;
    absl::StrAppend(&out, std::string(1, absl::ascii_toupper(static_cast<unsigned char>(word[0]))),
                    word.substr(1));
  }
  return out;
}

// The C++ type of one value of the field; empty when there is none.
std::string ElementType(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "bool";
    case FieldDescriptor::CPPTYPE_INT32:
      return "int32_t";
    case FieldDescriptor::CPPTYPE_UINT32:
      return "uint32_t";
    case FieldDescriptor::CPPTYPE_INT64:
      return "int64_t";
    case FieldDescriptor::CPPTYPE_UINT64:
      return "uint64_t";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "double";
    case FieldDescriptor::CPPTYPE_STRING:
      return "std::string";
    case FieldDescriptor::CPPTYPE_ENUM:
      return TypeName(*field.enum_type());
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return IsDuration(field) ? "absl::Duration" : TypeName(*field.message_type());
    case FieldDescriptor::CPPTYPE_FLOAT:
      return "";  // the spec writes double
  }
  return "";
}

std::string FieldType(const FieldDescriptor& field) {
  if (field.is_map()) {
    return absl::StrCat("std::map<std::string, ", ElementType(*field.message_type()->map_value()),
                        ">");
  }
  if (field.is_repeated()) return absl::StrCat("std::vector<", ElementType(field), ">");
  if (InOneof(field)) return absl::StrCat("std::optional<", ElementType(field), ">");
  return ElementType(field);
}

// What stands behind the member's name: scalars must not start undefined.
std::string Initializer(const FieldDescriptor& field) {
  if (field.is_repeated() || InOneof(field)) return "";
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return " = false";
    case FieldDescriptor::CPPTYPE_STRING:
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "";
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::StrCat(" = ", TypeName(*field.enum_type()), "::kUnspecified");
    default:
      return " = 0";
  }
}

// Empty, or why the mapping does not know this message.
std::string Unsupported(const Descriptor& message) {
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    const FieldDescriptor& element = field.is_map() ? *field.message_type()->map_value() : field;
    if (ElementType(element).empty()) return field.full_name() + ": no C++ type for it";
    if (field.is_map() &&
        field.message_type()->map_key()->cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
      return field.full_name() + ": map keys must be strings";
    }
  }
  return "";
}

// Messages and enums of a file; a message comes after those that it holds.
struct Types {
  std::vector<const EnumDescriptor*> enums;
  std::vector<const Descriptor*> messages;

  void Add(const Descriptor& message) {
    if (std::find(messages.begin(), messages.end(), &message) != messages.end()) return;
    for (int i = 0; i < message.enum_type_count(); ++i) enums.push_back(message.enum_type(i));
    for (int i = 0; i < message.field_count(); ++i) {
      const FieldDescriptor& field = *message.field(i);
      const FieldDescriptor& element = field.is_map() ? *field.message_type()->map_value() : field;
      if (element.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !IsDuration(element)) {
        Add(*element.message_type());
      }
    }
    for (int i = 0; i < message.nested_type_count(); ++i) {
      if (!message.nested_type(i)->options().map_entry()) Add(*message.nested_type(i));
    }
    messages.push_back(&message);
  }
};

template <typename D>
void PrintComment(Printer& out, const D& described, const std::string& indent) {
  google::protobuf::SourceLocation location;
  if (!described.GetSourceLocation(&location)) return;
  std::string text = absl::StrCat(location.leading_comments, location.trailing_comments);
  for (absl::string_view line : absl::StrSplit(absl::StripAsciiWhitespace(text), '\n')) {
    if (!line.empty())
      out.PrintRaw(absl::StrCat(indent, "//", line[0] == ' ' ? "" : " ", line, "\n"));
  }
}

void PrintHeader(Printer& out, const Types& types) {
  out.PrintRaw(R"(// Generated from job_spec.proto by protoc-gen-muster-trainer-spec. Do not edit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster::trainer_spec {
)");
  for (const EnumDescriptor* type : types.enums) {
    out.PrintRaw(absl::StrCat("\nenum class ", TypeName(*type), " {\n"));
    for (int i = 0; i < type->value_count(); ++i) {
      out.PrintRaw(absl::StrCat("  ", ConstantName(ValueText(*type, type->value(i)->name())), " = ",
                                type->value(i)->number(), ",\n"));
    }
    out.PrintRaw("};\n");
  }
  for (const Descriptor* message : types.messages) {
    out.PrintRaw("\n");
    PrintComment(out, *message, "");
    out.PrintRaw(absl::StrCat("struct ", TypeName(*message), " {\n"));
    for (int i = 0; i < message->field_count(); ++i) {
      const FieldDescriptor& field = *message->field(i);
      PrintComment(out, field, "  ");
      out.PrintRaw(
          absl::StrCat("  ", FieldType(field), " ", field.name(), Initializer(field), ";\n"));
    }
    out.PrintRaw(absl::StrCat("\n  friend bool operator==(const ", TypeName(*message), "&, const ",
                              TypeName(*message), "&) = default;\n};\n"));
  }
  out.PrintRaw(R"(
// Reads a resolved spec, as SpecToJson writes it. INVALID_ARGUMENT with the path of the first key that is unknown, of
// the wrong type, or a second member of a oneof.
absl::StatusOr<JobSpec> DecodeJobSpec(absl::string_view json);

// One line of JSON that DecodeJobSpec reads back; fields that the spec left out stand there as zero.
std::string EncodeJobSpec(const JobSpec& spec);

}  // namespace muster::trainer_spec
)");
}

void PrintEnumCodec(Printer& out, const EnumDescriptor& type) {
  const std::string name = TypeName(type);
  std::string all;
  out.PrintRaw(absl::StrCat("\nabsl::Status Decode(const Json& json, const std::string& path, ",
                            name,
                            "& out) {\n  const std::string text = json.is_string() ? "
                            "json.get<std::string>() : std::string();\n"));
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() == 0) continue;
    const std::string text = ValueText(type, type.value(i)->name());
    absl::StrAppend(&all, all.empty() ? "" : ", ", text);
    out.PrintRaw(absl::StrCat("  if (text == \"", text, "\") {\n    out = ", name,
                              "::", ConstantName(text), ";\n    return absl::OkStatus();\n  }\n"));
  }
  out.PrintRaw(absl::StrCat("  return Fault(path, \"must be one of ", all,
                            "\");\n}\n\nJson Encode(", name, " value) {\n  switch (value) {\n"));
  for (int i = 0; i < type.value_count(); ++i) {
    const std::string text = ValueText(type, type.value(i)->name());
    out.PrintRaw(absl::StrCat("    case ", name, "::", ConstantName(text), ": return \"",
                              type.value(i)->number() == 0 ? "" : text, "\";\n"));
  }
  out.PrintRaw("  }\n  return nullptr;\n}\n");
}

void PrintMessageCodec(Printer& out, const Descriptor& message) {
  const std::string name = TypeName(message);
  out.PrintRaw(absl::StrCat("\nabsl::Status Decode(const Json& json, const std::string& path, ",
                            name,
                            "& out) {\n  if (!json.is_object()) return Fault(path, \"must be an "
                            "object\");\n  for (const auto& [key, value] : json.items()) {\n"));
  for (int i = 0; i < message.field_count(); ++i) {
    const std::string& field = message.field(i)->name();
    out.PrintRaw(absl::StrCat(
        "    ", i == 0 ? "" : "} else ", "if (key == \"", field,
        "\") {\n      MUSTER_RETURN_IF_ERROR(Decode(value, Join(path, key), out.", field, "));\n"));
  }
  out.PrintRaw(absl::StrCat(message.field_count() > 0 ? "    } else {\n  " : "",
                            "    return Fault(Join(path, key), \"unknown key\");\n",
                            message.field_count() > 0 ? "    }\n" : "", "  }\n"));
  for (int i = 0; i < message.real_oneof_decl_count(); ++i) {
    const auto& oneof = *message.oneof_decl(i);  // the real ones come first
    std::string sum;
    std::string members;
    for (int j = 0; j < oneof.field_count(); ++j) {
      absl::StrAppend(&sum, j == 0 ? "" : " + ", "out.", oneof.field(j)->name(), ".has_value()");
      absl::StrAppend(&members, j == 0 ? "" : ", ", oneof.field(j)->name());
    }
    out.PrintRaw(absl::StrCat("  if (", sum, " > 1) return Fault(path, \"only one of ", members,
                              " may be given\");\n"));
  }
  out.PrintRaw(absl::StrCat("  return absl::OkStatus();\n}\n\nJson Encode(const ", name,
                            "& value) {\n  Json out = Json::object();\n"));
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    const std::string& key = field.name();
    if (InOneof(field)) {
      out.PrintRaw(absl::StrCat("  if (value.", key, ".has_value()) out[\"", key,
                                "\"] = Encode(*value.", key, ");\n"));
    } else if (!field.is_repeated() && field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      out.PrintRaw(absl::StrCat("  if (value.", key, " != ", TypeName(*field.enum_type()),
                                "::kUnspecified) out[\"", key, "\"] = Encode(value.", key, ");\n"));
    } else {
      out.PrintRaw(absl::StrCat("  out[\"", key, "\"] = Encode(value.", key, ");\n"));
    }
  }
  out.PrintRaw("  return out;\n}\n");
}

void PrintSource(Printer& out, const Types& types) {
  out.PrintRaw(R"(// Generated from job_spec.proto by protoc-gen-muster-trainer-spec. Do not edit.
)");
  // Not inside the literal: this file itself includes neither.
  for (const char* header : {"trainer_spec/job_spec.h", "common/spec/trainer_spec_codec.h"}) {
    out.PrintRaw(absl::StrCat("#include \"", header, "\"\n"));
  }
  out.PrintRaw(R"(

// Inside the structs' namespace, so that the templates of codec find these overloads by argument.
namespace muster::trainer_spec {

using codec::Decode;
using codec::Encode;
using codec::Fault;
using codec::Join;
using codec::Json;

)");
  for (const EnumDescriptor* type : types.enums) PrintEnumCodec(out, *type);
  for (const Descriptor* message : types.messages) PrintMessageCodec(out, *message);
  out.PrintRaw(R"(
absl::StatusOr<JobSpec> DecodeJobSpec(absl::string_view json) {
  const Json parsed = Json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return absl::InvalidArgumentError("spec: not valid JSON");
  JobSpec spec;
  MUSTER_RETURN_IF_ERROR(Decode(parsed, "", spec));
  return spec;
}

std::string EncodeJobSpec(const JobSpec& spec) {
  return Encode(spec).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace muster::trainer_spec
)");
}

class Generator final : public google::protobuf::compiler::CodeGenerator {
 public:
  bool Generate(const FileDescriptor* file, const std::string&, GeneratorContext* context,
                std::string* error) const override {
    Types types;
    for (int i = 0; i < file->enum_type_count(); ++i) types.enums.push_back(file->enum_type(i));
    for (int i = 0; i < file->message_type_count(); ++i) types.Add(*file->message_type(i));
    for (const Descriptor* message : types.messages) {
      *error = Unsupported(*message);
      if (!error->empty()) return false;
    }
    {
      std::unique_ptr<google::protobuf::io::ZeroCopyOutputStream> stream(
          context->Open("trainer_spec/job_spec.h"));
      Printer out(stream.get(), '$');
      PrintHeader(out, types);
    }
    std::unique_ptr<google::protobuf::io::ZeroCopyOutputStream> stream(
        context->Open("trainer_spec/job_spec.cc"));
    Printer out(stream.get(), '$');
    PrintSource(out, types);
    return true;
  }

  uint64_t GetSupportedFeatures() const override { return FEATURE_PROTO3_OPTIONAL; }
};

}  // namespace

int main(int argc, char** argv) {
  Generator generator;
  return google::protobuf::compiler::PluginMain(argc, argv, &generator);
}
