#include "common/spec/read/spec_reader.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/spec/read/scalar_reader.h"
#include "common/spec/read/spec_overrides.h"
#include "common/spec/tree/spec_tree.h"

namespace muster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Kind = SpecNode::Kind;

std::string Join(const std::string& path, const std::string& key) {
  return path.empty() ? key : absl::StrCat(path, ".", key);
}

bool IsDuration(const Descriptor* type) { return type->full_name() == "google.protobuf.Duration"; }

bool IsSubmessage(const FieldDescriptor* field) {
  return field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
         !IsDuration(field->message_type());
}

std::vector<std::string> FieldNames(const Descriptor* type) {
  std::vector<std::string> names;
  for (int i = 0; i < type->field_count(); ++i) names.push_back(type->field(i)->name());
  return names;
}

// Every path at which a key of this name may stand.
void FindPaths(const Descriptor* type, const std::string& path, const std::string& key,
               std::vector<std::string>& found) {
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    const std::string at = Join(path, field->name());
    if (field->name() == key) found.push_back(at);
    if (IsSubmessage(field) && !field->is_map()) FindPaths(field->message_type(), at, key, found);
  }
}

class Walker {
 public:
  explicit Walker(ReadSpecResult& result) : result_(result) {}

  void ReadMessage(const SpecNode& node, const std::string& path, Message& message) {
    if (node.kind == Kind::kNull) return;  // `mlp:` with nothing behind it is an empty mapping
    if (node.kind != Kind::kMapping) {
      return Fault(path, node.line,
                   absl::StrCat("must be a mapping with the keys ",
                                absl::StrJoin(FieldNames(message.GetDescriptor()), ", ")));
    }
    std::map<std::string, int> seen;
    for (const SpecNode::Entry& entry : node.entries) {
      const std::string at = Join(path, entry.key);
      if (Repeated(entry, at, seen)) continue;
      const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(entry.key);
      if (field == nullptr) {
        Fault(at, entry.line, UnknownKey(message.GetDescriptor(), entry.key));
        continue;
      }
      result_.lines[at] = entry.line;
      ReadField(entry, field, at, message);
    }
    CheckOneofs(node, path, message.GetDescriptor());
  }

 private:
  void Fault(const std::string& path, int line, std::string message) {
    result_.faults.push_back({ShownValue(path), line, std::move(message)});
  }

  bool Repeated(const SpecNode::Entry& entry, const std::string& at,
                std::map<std::string, int>& seen) {
    const auto [first, fresh] = seen.emplace(entry.key, entry.line);
    if (fresh) return false;
    Fault(at, entry.line, absl::StrCat("is given twice; the first time on line ", first->second));
    return true;
  }

  static std::string UnknownKey(const Descriptor* type, const std::string& key) {
    const std::vector<std::string> names = FieldNames(type);
    if (const std::string near = NearestName(key, names); !near.empty()) {
      return absl::StrCat("unknown key; did you mean `", near, "`?");
    }
    std::vector<std::string> elsewhere;
    FindPaths(v1::JobSpec::descriptor(), "", key, elsewhere);
    if (!elsewhere.empty()) {
      return absl::StrCat("unknown key; did you mean `", absl::StrJoin(elsewhere, "` or `"), "`?");
    }
    return absl::StrCat("unknown key; known here: ", absl::StrJoin(names, ", "));
  }

  void ReadField(const SpecNode::Entry& entry, const FieldDescriptor* field, const std::string& at,
                 Message& message) {
    const SpecNode& node = entry.value;
    if (field->is_map()) return ReadMap(node, field, at, message);
    if (field->is_repeated()) return ReadList(node, field, at, message);
    if (IsSubmessage(field)) {
      if (node.kind == Kind::kScalar && field->message_type()->name() == "Ranks") {
        return Fault(at, node.line,
                     absl::StrCat("must be a whole number, or a mapping with min and max; got ",
                                  ShownValue(node.text)));
      }
      if (node.kind == Kind::kScalar && field->message_type()->name() == "Command") {
        return Fault(at, node.line,
                     "must be a list of the program and its arguments, such as [python, train.py]: "
                     "no shell splits a text");
      }
      return ReadMessage(node, at, *message.GetReflection()->MutableMessage(&message, field));
    }
    ReadScalar(node, entry.line, field, at, message);
  }

  void ReadScalar(const SpecNode& node, int key_line, const FieldDescriptor* field,
                  const std::string& at, Message& message) {
    if (node.kind == Kind::kNull) return Fault(at, key_line, "has no value");
    if (node.kind != Kind::kScalar) {
      return Fault(at, node.line,
                   absl::StrCat("must be a single value, not a ",
                                node.kind == Kind::kSequence ? "list" : "mapping"));
    }
    if (std::string wrong = SetScalar(node, field, message); !wrong.empty()) {
      Fault(at, node.line, std::move(wrong));
    }
  }

  void ReadList(const SpecNode& node, const FieldDescriptor* field, const std::string& at,
                Message& message) {
    if (node.kind != Kind::kSequence)
      return Fault(at, node.line,
                   IsSubmessage(field) ? "must be a list of mappings, each with `- ` before it"
                                       : "must be a list, such as [64, 64]");
    // An empty list and a missing one are the same to a message; taking the default would surprise.
    if (node.items.empty()) return Fault(at, node.line, "must not be empty");
    for (size_t i = 0; i < node.items.size(); ++i) {
      const std::string item = absl::StrCat(at, "[", i, "]");
      if (IsSubmessage(field)) {
        result_.lines[item] = node.items[i].line;
        ReadMessage(node.items[i], item, *message.GetReflection()->AddMessage(&message, field));
      } else {
        ReadScalar(node.items[i], node.items[i].line, field, item, message);
      }
    }
  }

  void ReadMap(const SpecNode& node, const FieldDescriptor* field, const std::string& at,
               Message& message) {
    if (node.kind == Kind::kNull) return;
    if (node.kind != Kind::kMapping)
      return Fault(at, node.line, "must be a mapping of names to strings");
    const Descriptor* pair = field->message_type();
    std::map<std::string, int> seen;
    for (const SpecNode::Entry& entry : node.entries) {
      const std::string path = Join(at, entry.key);
      if (Repeated(entry, path, seen)) continue;
      result_.lines[path] = entry.line;
      std::string value;
      if (std::string wrong = ReadString(entry.value, value); !wrong.empty()) {
        Fault(path, entry.line, std::move(wrong));
        continue;
      }
      Message* slot = message.GetReflection()->AddMessage(&message, field);
      slot->GetReflection()->SetString(slot, pair->map_key(), entry.key);
      slot->GetReflection()->SetString(slot, pair->map_value(), value);
    }
  }

  void CheckOneofs(const SpecNode& node, const std::string& path, const Descriptor* type) {
    for (int i = 0; i < type->real_oneof_decl_count(); ++i) {
      const auto* oneof = type->oneof_decl(i);  // the real ones come first
      std::vector<std::string> given;
      int line = 0;
      for (int j = 0; j < oneof->field_count(); ++j) {
        const SpecNode::Entry* entry = node.Find(oneof->field(j)->name());
        if (entry == nullptr) continue;
        given.push_back(entry->key);
        line = std::max(line, entry->line);
      }
      if (given.size() > 1) {
        Fault(path, line,
              absl::StrCat("only one of ", absl::StrJoin(given, ", "), " may be given"));
      }
    }
  }

  ReadSpecResult& result_;
};

}  // namespace

ReadSpecResult ReadSpec(absl::string_view text, const std::vector<std::string>& overrides) {
  ReadSpecResult result;
  SpecNode root = ParseSpecTree(text, result.faults);
  if (!result.faults.empty()) return result;  // nothing that could be walked
  if (overrides.size() > kMaxSpecOverrides) {
    result.faults.push_back(
        {"", 0, absl::StrCat("more than ", kMaxSpecOverrides, " --set values")});
    return result;
  }
  ApplyOverrides(overrides, root, result.faults);
  Walker(result).ReadMessage(root, "", result.spec);
  return result;
}

}  // namespace muster
