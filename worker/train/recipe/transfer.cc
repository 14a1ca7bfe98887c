#include "worker/train/recipe/transfer.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/ckpt/block_hasher.h"
#include "common/ckpt/manifest.h"
#include "worker/checkpoint/restore.h"
#include "worker/train/recipe/ema.h"
#include "worker/train/run/failure.h"

namespace muster::worker {
namespace {

std::string FileOf(FileSystem& fs, const std::string& path) {
  const std::string inner = absl::StrCat(path, "/", kModelFile);
  const absl::StatusOr<bool> folder = fs.Exists(inner);  // no answer about what is in a file
  return folder.ok() && *folder ? inner : path;
}

absl::StatusOr<std::string> Fingerprint(FileSystem& fs, const std::string& file) {
  const auto buffer = std::make_unique_for_overwrite<char[]>(kHashBlockBytes);
  BlockHasher hasher;
  for (uint64_t offset = 0;;) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                            fs.ReadAt(file, offset, buffer.get(), kHashBlockBytes));
    if (got == 0) break;
    hasher.Update(absl::string_view(buffer.get(), got));
    offset += got;
  }
  return absl::StrCat("xxh3:", HashToHex(hasher.Finish().whole));
}

std::vector<TransferTensor> Describe(const NamedTensors& tensors) {
  std::vector<TransferTensor> described;
  for (const NamedTensor& entry : tensors)
    described.push_back({entry.name, entry.tensor.sizes().vec()});
  return described;
}

std::vector<TransferTensor> Describe(const Model& model) {
  std::vector<TransferTensor> described;
  for (const ModelTensor& entry : model.state()) {
    const bool parameter =
        std::any_of(model.parameters().begin(), model.parameters().end(),
                    [&](const ModelTensor& other) { return other.name == entry.name; });
    described.push_back(
        {entry.name, entry.tensor.sizes().vec(), parameter && !entry.tensor.requires_grad()});
  }
  return described;
}

// The module of the last parameter: "fc." of "fc.bias".
std::string HeadOf(const Model& model) {
  const std::string& last = model.parameters().back().name;
  return last.substr(0, last.rfind('.') + 1);
}

void Copy(const TransferPlan& plan, const NamedTensors& tensors, Model& model) {
  at::NoGradGuard no_grad;
  for (const TransferPlan::Copy& copy : plan.copies) {
    at::Tensor target = model.state()[copy.target].tensor;
    target.copy_(tensors[copy.source].tensor);
  }
}

void LogPlan(const std::string& file, const TransferPlan& plan) {
  Log(LogLevel::kInfo, "weights_loaded",
      {{"path", file}, {"tensors", static_cast<int64_t>(plan.copies.size())}});
  const auto list = [&file](LogLevel level, absl::string_view event,
                            const std::vector<std::string>& names) {
    if (names.empty()) return;
    Log(level, event,
        {{"path", file},
         {"tensors", static_cast<int64_t>(names.size())},
         {"names", NamesInShort(names)}});
  };
  list(LogLevel::kInfo, "weights_ignored", plan.ignored);
  list(LogLevel::kWarning, "weights_missing", plan.missing);
  list(LogLevel::kWarning, "weights_head_replaced", plan.reshaped);
  list(LogLevel::kWarning, "weights_unused", plan.unused);
}

}  // namespace

absl::StatusOr<TransferSummary> Transfer::Read(Model& model) const {
  MUSTER_ASSIGN_OR_RETURN(const ModelFile file, ReadModelFile(fs_, config_.path));
  NamedTensors tensors = file.tensors;
  if (config_.layout) {
    MUSTER_ASSIGN_OR_RETURN(tensors, config_.layout(std::move(tensors)));
  }
  MUSTER_ASSIGN_OR_RETURN(const TransferPlan plan, PlanTransfer(config_.rules, Describe(tensors),
                                                                Describe(model), HeadOf(model)));
  TransferSummary summary;
  Copy(plan, tensors, model);
  LogPlan(file.file, plan);
  summary.fingerprint = file.fingerprint;
  summary.loaded = static_cast<int64_t>(plan.copies.size());
  summary.fresh = static_cast<int64_t>(plan.missing.size() + plan.ignored.size());
  summary.reshaped = static_cast<int64_t>(plan.reshaped.size());
  summary.unused = static_cast<int64_t>(plan.unused.size());
  return summary;
}

absl::StatusOr<TransferSummary> Transfer::Load(Model& model, Collectives& gang) const {
  absl::StatusOr<TransferSummary> summary = TransferSummary();
  std::string verdict;
  if (gang.rank() == 0) {
    summary = Read(model);
    if (!summary.ok()) {
      summary = Classify(summary.status(), kStartFailed,
                         absl::StrCat("train.weights.path ", config_.path));
      verdict = FailureToText(summary.status());
    }
  }
  gang.BroadcastText(verdict, 0);
  if (!verdict.empty()) return FailureFromText(verdict);
  at::NoGradGuard no_grad;
  for (const ModelTensor& entry : model.state()) {
    at::Tensor tensor = entry.tensor.detach();
    gang.Broadcast(tensor, 0);
  }
  return summary;
}

absl::StatusOr<ModelFile> ReadModelFile(FileSystem& fs, const std::string& path) {
  ModelFile read;
  read.file = FileOf(fs, path);
  MUSTER_ASSIGN_OR_RETURN(NamedTensors all, ReadTensors(fs, read.file));
  read.tensors = ModelTensors(std::move(all), /*averaged=*/true);
  MUSTER_ASSIGN_OR_RETURN(read.fingerprint, Fingerprint(fs, read.file));
  return read;
}

absl::Status CopyExactly(const NamedTensors& tensors, Model& model) {
  std::map<std::string, at::Tensor> left;
  for (const NamedTensor& entry : tensors) left[entry.name] = entry.tensor;
  std::vector<std::string> faults;
  const at::NoGradGuard no_grad;
  for (const ModelTensor& entry : model.state()) {
    const auto source = left.find(entry.name);
    if (source == left.end()) {
      faults.push_back(absl::StrCat(entry.name, " is missing"));
      continue;
    }
    if (source->second.sizes() == entry.tensor.sizes()) {
      at::Tensor(entry.tensor).copy_(source->second);
    } else {
      faults.push_back(absl::StrCat(entry.name, " is [",
                                    absl::StrJoin(source->second.sizes(), ", "), "], want [",
                                    absl::StrJoin(entry.tensor.sizes(), ", "), "]"));
    }
    left.erase(source);
  }
  for (const auto& [name, tensor] : left)
    faults.push_back(absl::StrCat(name, " has no place in the network"));
  if (faults.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the file does not fit the network: ", NamesInShort(faults)));
}

}  // namespace muster::worker
