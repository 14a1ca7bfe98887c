#include "common/spec/read/table_reader.h"

#include <google/protobuf/io/coded_stream.h>

#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/spec/read/scalar_reader.h"
#include "common/spec/tree/spec_table.h"

namespace muster {
namespace {

using google::protobuf::io::CodedOutputStream;
using Kind = SpecNode::Kind;
using Type = SpecField::Type;

// The wire types of protobuf's encoding.
enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2 };

void PutVarint(uint64_t value, std::string& wire) {
  uint8_t bytes[10];
  const uint8_t* end = CodedOutputStream::WriteVarint64ToArray(value, bytes);
  wire.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(end - bytes));
}

void PutTag(uint32_t number, WireType type, std::string& wire) {
  PutVarint(number << 3 | type, wire);
}

void PutBytes(uint32_t number, const std::string& bytes, std::string& wire) {
  PutTag(number, kBytes, wire);
  PutVarint(bytes.size(), wire);
  wire += bytes;
}

// Negative numbers are extended to 64 bits, as the encoding wants.
template <typename T>
bool PutWhole(const SpecNode& node, uint32_t number, std::string& wire) {
  T value = 0;
  if (!ReadWhole(node, value).empty()) return false;
  PutTag(number, kVarint, wire);
  PutVarint(static_cast<uint64_t>(static_cast<int64_t>(value)), wire);
  return true;
}

const SpecField* FindField(SpecSpan message, const std::string& name) {
  for (int i = message.begin; i < message.end; ++i) {
    if (name == kSpecFields[i].name) return &kSpecFields[i];
  }
  return nullptr;
}

const SpecEnumValue* FindValue(SpecSpan type, const std::string& text) {
  for (int i = type.begin; i < type.end; ++i) {
    if (text == kSpecEnumValues[i].text) return &kSpecEnumValues[i];
  }
  return nullptr;
}

bool PutScalar(const SpecNode& node, const SpecField& field, std::string& wire) {
  if (node.kind != Kind::kScalar) return false;
  switch (field.type) {
    case Type::kBool: {
      bool value = false;
      if (!ReadBool(node, value).empty()) return false;
      PutTag(field.number, kVarint, wire);
      PutVarint(value, wire);
      return true;
    }
    case Type::kInt32:
      return PutWhole<int32_t>(node, field.number, wire);
    case Type::kUint32:
      return PutWhole<uint32_t>(node, field.number, wire);
    case Type::kInt64:
      return PutWhole<int64_t>(node, field.number, wire);
    case Type::kUint64:
      return PutWhole<uint64_t>(node, field.number, wire);
    case Type::kDouble: {
      double value = 0;
      if (!ReadReal(node, value).empty()) return false;
      uint64_t bits = 0;
      std::memcpy(&bits, &value, sizeof(bits));
      uint8_t bytes[sizeof(bits)];
      CodedOutputStream::WriteLittleEndian64ToArray(bits, bytes);
      PutTag(field.number, kFixed64, wire);
      wire.append(reinterpret_cast<const char*>(bytes), sizeof(bytes));
      return true;
    }
    case Type::kString: {
      std::string value;
      if (!ReadString(node, value).empty()) return false;
      PutBytes(field.number, value, wire);
      return true;
    }
    case Type::kEnum: {
      const SpecEnumValue* value = FindValue(kSpecEnums[field.points], node.text);
      if (value == nullptr) return false;
      PutTag(field.number, kVarint, wire);
      PutVarint(static_cast<uint64_t>(value->number), wire);
      return true;
    }
    case Type::kDuration: {
      google::protobuf::Duration value;
      if (!ReadDuration(node, value).empty()) return false;
      PutBytes(field.number, value.SerializeAsString(), wire);
      return true;
    }
    case Type::kMessage:
    case Type::kStringMap:
      break;
  }
  return false;
}

// Writes the message that a tree stands for in protobuf's encoding. Each function: false for what
// is not right.
class Encoder {
 public:
  explicit Encoder(std::map<std::string, int>& lines) : lines_(lines) {}

  bool PutMessage(const SpecNode& node, SpecSpan message, const std::string& path,
                  std::string& wire) {
    if (node.kind == Kind::kNull) return true;
    if (node.kind != Kind::kMapping) return false;
    std::set<const SpecField*> seen;
    std::set<uint8_t> oneofs;
    for (const SpecNode::Entry& entry : node.entries) {
      const SpecField* field = FindField(message, entry.key);
      if (field == nullptr || !seen.insert(field).second) return false;
      if (field->oneof != 0 && !oneofs.insert(field->oneof).second) return false;
      const std::string at = path.empty() ? entry.key : absl::StrCat(path, ".", entry.key);
      lines_[at] = entry.line;
      if (!PutField(entry.value, *field, at, wire)) return false;
    }
    return true;
  }

 private:
  bool PutField(const SpecNode& node, const SpecField& field, const std::string& at,
                std::string& wire) {
    if (field.type == Type::kStringMap) return PutMap(node, field, at, wire);
    if (!field.repeated) return PutOne(node, field, at, wire);
    if (node.kind != Kind::kSequence || node.items.empty()) return false;
    for (size_t i = 0; i < node.items.size(); ++i) {
      const std::string item = absl::StrCat(at, "[", i, "]");
      if (field.type == Type::kMessage) lines_[item] = node.items[i].line;
      if (!PutOne(node.items[i], field, item, wire)) return false;
    }
    return true;
  }

  bool PutOne(const SpecNode& node, const SpecField& field, const std::string& at,
              std::string& wire) {
    if (field.type != Type::kMessage) return PutScalar(node, field, wire);
    std::string inner;
    if (!PutMessage(node, kSpecMessages[field.points], at, inner)) return false;
    PutBytes(field.number, inner, wire);
    return true;
  }

  // A map is a list of pairs of a key, 1, and a value, 2.
  bool PutMap(const SpecNode& node, const SpecField& field, const std::string& at,
              std::string& wire) {
    if (node.kind == Kind::kNull) return true;
    if (node.kind != Kind::kMapping) return false;
    std::set<std::string> seen;
    for (const SpecNode::Entry& entry : node.entries) {
      std::string value;
      if (!seen.insert(entry.key).second || !ReadString(entry.value, value).empty()) return false;
      lines_[absl::StrCat(at, ".", entry.key)] = entry.line;
      std::string pair;
      PutBytes(1, entry.key, pair);
      PutBytes(2, value, pair);
      PutBytes(field.number, pair, wire);
    }
    return true;
  }

  std::map<std::string, int>& lines_;
};

}  // namespace

bool ReadByTable(const SpecNode& root, v1::JobSpec& spec, std::map<std::string, int>& lines) {
  std::string wire;
  return Encoder(lines).PutMessage(root, kSpecMessages[0], "", wire) && spec.ParseFromString(wire);
}

}  // namespace muster
