#include "common/ckpt/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
// Appends and reads go in pieces of this size, so that a sink may hash while it is in the cache.
constexpr uint64_t kPieceBytes = 1u << 20;
// More axes than any tensor has.
constexpr size_t kMaxAxes = 64;

struct TypeRow {
  TensorType type;
  const char* name;
  uint64_t bytes;
};
constexpr TypeRow kTypes[] = {
    {TensorType::kF64, "F64", 8},   {TensorType::kF32, "F32", 4}, {TensorType::kF16, "F16", 2},
    {TensorType::kBF16, "BF16", 2}, {TensorType::kI64, "I64", 8}, {TensorType::kI32, "I32", 4},
    {TensorType::kI8, "I8", 1},     {TensorType::kU8, "U8", 1},   {TensorType::kBool, "BOOL", 1},
};

const TypeRow& RowOf(TensorType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row;
  }
  CheckFailed(__FILE__, __LINE__, "type", "every tensor type has a row");
}

// Nothing when the product overflows or an axis is negative.
std::optional<uint64_t> SizeOf(TensorType type, const std::vector<int64_t>& shape) {
  uint64_t bytes = ElementBytes(type);
  bool empty = false;
  for (const int64_t axis : shape) {
    if (axis < 0) return std::nullopt;
    if (axis == 0) empty = true;
    if (axis > 0 && __builtin_mul_overflow(bytes, static_cast<uint64_t>(axis), &bytes)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : bytes;
}

std::string LittleEndian(uint64_t value) {
  std::string bytes(kLengthBytes, '\0');
  for (uint64_t i = 0; i < kLengthBytes; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  return bytes;
}

// Readers map the file and want each tensor aligned, so the wide types come first.
std::vector<const TensorBytes*> InFileOrder(const std::vector<TensorBytes>& tensors) {
  std::vector<const TensorBytes*> order;
  for (const TensorBytes& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const TensorBytes* a, const TensorBytes* b) {
    return ElementBytes(a->type) > ElementBytes(b->type);
  });
  return order;
}

absl::Status CheckTensors(const std::vector<TensorBytes>& tensors) {
  std::set<absl::string_view> names;
  for (const TensorBytes& tensor : tensors) {
    if (tensor.name == "__metadata__" || !names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", tensor.name, ": the name is taken"));
    }
    if (SizeOf(tensor.type, tensor.shape) != tensor.data.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", tensor.name, ": ", tensor.data.size(), " bytes do not fit the shape [",
          absl::StrJoin(tensor.shape, ", "), "] of ", TypeName(tensor.type)));
    }
  }
  return absl::OkStatus();
}

std::string HeaderOf(const std::vector<const TensorBytes*>& order) {
  Json json = {{"__metadata__", {{"format", "pt"}}}};
  uint64_t offset = 0;
  for (const TensorBytes* tensor : order) {
    const uint64_t end = offset + tensor->data.size();
    json[tensor->name] = {{"dtype", TypeName(tensor->type)},
                          {"shape", tensor->shape},
                          {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string header = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  header.append((kLengthBytes - header.size() % kLengthBytes) % kLengthBytes, ' ');
  return header;
}

// Reads the entry `name`; `data_bytes` is how much there is behind the header.
absl::StatusOr<TensorEntry> ParseEntry(const Json& json, const std::string& where,
                                       uint64_t data_start, uint64_t data_bytes) {
  const auto bad = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat(where, " ", what));
  };
  if (!json.is_object() || !json.contains("dtype") || !json["dtype"].is_string() ||
      !json.contains("shape") || !json["shape"].is_array() || !json.contains("data_offsets") ||
      !json["data_offsets"].is_array()) {
    return bad("lacks dtype, shape or data_offsets");
  }
  TensorEntry entry;
  const std::string& type = json["dtype"].get_ref<const std::string&>();
  const auto row = std::find_if(std::begin(kTypes), std::end(kTypes),
                                [&](const TypeRow& candidate) { return type == candidate.name; });
  if (row == std::end(kTypes)) {
    return absl::FailedPreconditionError(
        absl::StrCat(where, " has elements of type ", type, ", which Muster does not read"));
  }
  entry.type = row->type;
  if (json["shape"].size() > kMaxAxes) return bad("has too many axes");
  for (const Json& axis : json["shape"]) {
    if (!axis.is_number_unsigned() || axis.get<uint64_t>() > INT64_MAX)
      return bad("has a bad shape");
    entry.shape.push_back(axis.get<int64_t>());
  }
  const Json& offsets = json["data_offsets"];
  if (offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) {
    return bad("has bad data_offsets");
  }
  const uint64_t begin = offsets[0].get<uint64_t>();
  const uint64_t end = offsets[1].get<uint64_t>();
  if (begin > end || end > data_bytes) return bad("reaches past the end of the file");
  if (SizeOf(entry.type, entry.shape) != end - begin) {
    return bad(absl::StrCat("has ", end - begin, " bytes, which do not fit its shape"));
  }
  entry.offset = data_start + begin;
  entry.size_bytes = end - begin;
  return entry;
}

// The tensors must fill the data exactly: no overlap, no gap, nothing after the last.
absl::Status CheckCoverage(const std::string& path, uint64_t data_start, uint64_t data_bytes,
                           const std::map<std::string, TensorEntry>& tensors) {
  std::vector<std::pair<uint64_t, const std::pair<const std::string, TensorEntry>*>> order;
  for (const auto& tensor : tensors) {
    // An empty tensor sorts before the one that starts at the same place.
    order.emplace_back(tensor.second.offset, &tensor);
  }
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second->second.size_bytes) <
           std::pair(b.first, b.second->second.size_bytes);
  });
  uint64_t expected = data_start;
  for (const auto& [offset, tensor] : order) {
    if (offset != expected) {
      return absl::DataLossError(
          absl::StrCat(path, ": tensor ", tensor->first, " overlaps another or leaves a gap"));
    }
    expected = offset + tensor->second.size_bytes;
  }
  if (expected != data_start + data_bytes) {
    return absl::DataLossError(absl::StrCat(path, ": bytes that belong to no tensor"));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t ElementBytes(TensorType type) { return RowOf(type).bytes; }
const char* TypeName(TensorType type) { return RowOf(type).name; }

absl::Status WriteSafetensors(const std::vector<TensorBytes>& tensors, const ByteSink& sink) {
  MUSTER_RETURN_IF_ERROR(CheckTensors(tensors));
  const std::vector<const TensorBytes*> order = InFileOrder(tensors);
  const std::string header = HeaderOf(order);
  MUSTER_RETURN_IF_ERROR(sink(LittleEndian(header.size())));
  MUSTER_RETURN_IF_ERROR(sink(header));
  for (const TensorBytes* tensor : order) {
    for (absl::string_view rest = tensor->data; !rest.empty();) {
      const absl::string_view piece = rest.substr(0, kPieceBytes);
      MUSTER_RETURN_IF_ERROR(sink(piece));
      rest.remove_prefix(piece.size());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SafetensorsReader> SafetensorsReader::Open(FileSystem& fs, std::string path) {
  MUSTER_ASSIGN_OR_RETURN(const uint64_t size, fs.FileSize(path));
  const auto bad = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat(path, " is no safetensors file: ", what));
  };
  unsigned char length[kLengthBytes];
  MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                          fs.ReadAt(path, 0, reinterpret_cast<char*>(length), sizeof length));
  if (got != kLengthBytes) return bad("it is too short");
  uint64_t header_bytes = 0;
  for (int i = kLengthBytes - 1; i >= 0; --i) header_bytes = header_bytes << 8 | length[i];
  if (header_bytes > kMaxSafetensorsHeaderBytes || header_bytes > size - kLengthBytes) {
    return bad(absl::StrCat("its header claims ", header_bytes, " bytes"));
  }
  std::string header(header_bytes, '\0');
  MUSTER_ASSIGN_OR_RETURN(const uint64_t header_got,
                          fs.ReadAt(path, kLengthBytes, header.data(), header_bytes));
  if (header_got != header_bytes) return bad("it was cut while it was read");
  const Json json = Json::parse(header, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) return bad("its header is not a JSON object");

  SafetensorsReader reader(fs, path);
  const uint64_t data_start = kLengthBytes + header_bytes;
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") continue;
    MUSTER_ASSIGN_OR_RETURN(
        reader.tensors_[name],
        ParseEntry(value, absl::StrCat(path, ": tensor ", name), data_start, size - data_start));
  }
  MUSTER_RETURN_IF_ERROR(CheckCoverage(path, data_start, size - data_start, reader.tensors_));
  return reader;
}

absl::Status SafetensorsReader::Read(const std::string& name, char* buffer) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) {
    return absl::NotFoundError(absl::StrCat(path_, ": no tensor ", name));
  }
  MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                          fs_->ReadAt(path_, it->second.offset, buffer, it->second.size_bytes));
  if (got != it->second.size_bytes) {
    return absl::DataLossError(absl::StrCat(path_, ": tensor ", name, " is cut short"));
  }
  return absl::OkStatus();
}

}  // namespace muster
