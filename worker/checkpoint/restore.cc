#include "worker/checkpoint/restore.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/ckpt/manifest.h"
#include "common/ckpt/safetensors.h"
#include "worker/checkpoint/tensor_types.h"

namespace muster::worker {
namespace {

constexpr uint64_t kMaxStateBytes = 16u << 20;
// A wrong model differs in all of its tensors: name a few.
constexpr size_t kMaxNamed = 5;

std::string Describe(const std::vector<int64_t>& shape, TensorType type) {
  return absl::StrCat(TypeName(type), "[", absl::StrJoin(shape, ", "), "]");
}

void AddList(std::vector<std::string>* parts, absl::string_view what,
             const std::vector<std::string>& names) {
  if (names.empty()) return;
  const size_t shown = std::min(names.size(), kMaxNamed);
  std::string part = absl::StrCat(
      what, " ", absl::StrJoin(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (names.size() > shown) absl::StrAppend(&part, " and ", names.size() - shown, " more");
  parts->push_back(std::move(part));
}

// The tensor's name in this file.
const std::string& NameIn(const SafetensorsReader& reader, const NamedTensor& target) {
  const bool there = target.or_else.empty() || reader.tensors().contains(target.name);
  return there ? target.name : target.or_else;
}

absl::Status CheckMatch(const SafetensorsReader& reader, const NamedTensors& targets) {
  std::vector<std::string> missing, unexpected, different;
  std::set<std::string> wanted;
  for (const NamedTensor& target : targets) {
    wanted.insert(target.name);
    const auto it = reader.tensors().find(NameIn(reader, target));
    if (it == reader.tensors().end()) {
      missing.push_back(target.name);
      continue;
    }
    const std::vector<int64_t> shape = target.tensor.sizes().vec();
    if (it->second.shape != shape || ToScalarType(it->second.type) != target.tensor.scalar_type()) {
      const std::optional<TensorType> type = ToTensorType(target.tensor.scalar_type());
      different.push_back(absl::StrCat(
          target.name, " (", Describe(it->second.shape, it->second.type), ", want ",
          type.has_value() ? Describe(shape, *type) : "a type that no file holds", ")"));
    }
  }
  for (const auto& [name, entry] : reader.tensors()) {
    if (!wanted.contains(name)) unexpected.push_back(name);
  }
  std::vector<std::string> parts;
  AddList(&parts, "missing:", missing);
  AddList(&parts, "unexpected:", unexpected);
  AddList(&parts, "different:", different);
  if (parts.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(reader.path(), " does not fit the model; ", absl::StrJoin(parts, "; ")));
}

}  // namespace

absl::Status LoadTensors(FileSystem& fs, const std::string& file, const NamedTensors& targets,
                         const std::function<void()>& got_on) {
  MUSTER_ASSIGN_OR_RETURN(const SafetensorsReader reader, SafetensorsReader::Open(fs, file));
  MUSTER_RETURN_IF_ERROR(CheckMatch(reader, targets));
  const c10::NoGradGuard no_grad;
  for (const NamedTensor& target : targets) {
    const bool direct = target.tensor.is_cpu() && target.tensor.is_contiguous();
    const at::Tensor host =
        direct ? target.tensor
               : at::empty(target.tensor.sizes(), at::TensorOptions(target.tensor.scalar_type()));
    MUSTER_RETURN_IF_ERROR(
        reader.Read(NameIn(reader, target), static_cast<char*>(host.mutable_data_ptr())));
    if (!direct) target.tensor.copy_(host);
    if (got_on != nullptr) got_on();
  }
  return absl::OkStatus();
}

absl::StatusOr<NamedTensors> ReadTensors(FileSystem& fs, const std::string& file) {
  MUSTER_ASSIGN_OR_RETURN(const SafetensorsReader reader, SafetensorsReader::Open(fs, file));
  NamedTensors tensors;
  for (const auto& [name, entry] : reader.tensors()) {
    at::Tensor tensor = at::empty(entry.shape, at::TensorOptions(ToScalarType(entry.type)));
    MUSTER_RETURN_IF_ERROR(reader.Read(name, static_cast<char*>(tensor.mutable_data_ptr())));
    tensors.push_back({name, std::move(tensor)});
  }
  return tensors;
}

absl::StatusOr<std::string> LoadStateJson(FileSystem& fs, const std::string& path) {
  return fs.ReadFile(absl::StrCat(path, "/", kStateFile), kMaxStateBytes);
}

}  // namespace muster::worker
