#include "worker/train/transfer.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/ckpt/block_hasher.h"
#include "common/ckpt/manifest.h"
#include "worker/checkpoint/restore.h"
#include "worker/train/ema.h"
#include "worker/train/failure.h"

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

// "ema.<name>" takes the place of "<name>".
NamedTensors WithAverages(NamedTensors tensors) {
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < tensors.size(); ++i) places[tensors[i].name] = i;
  NamedTensors out;
  for (const NamedTensor& entry : tensors) {
    if (absl::StartsWith(entry.name, kEmaPrefix) &&
        places.contains(std::string(absl::StripPrefix(entry.name, kEmaPrefix)))) {
      continue;
    }
    const auto average = places.find(absl::StrCat(kEmaPrefix, entry.name));
    out.push_back(
        {entry.name, average == places.end() ? entry.tensor : tensors[average->second].tensor});
  }
  return out;
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
  const std::string file = FileOf(fs_, config_.path);
  MUSTER_ASSIGN_OR_RETURN(NamedTensors tensors, ReadTensors(fs_, file));
  tensors = WithAverages(std::move(tensors));
  if (config_.layout) {
    MUSTER_ASSIGN_OR_RETURN(tensors, config_.layout(std::move(tensors)));
  }
  MUSTER_ASSIGN_OR_RETURN(const TransferPlan plan, PlanTransfer(config_.rules, Describe(tensors),
                                                                Describe(model), HeadOf(model)));
  TransferSummary summary;
  MUSTER_ASSIGN_OR_RETURN(summary.fingerprint, Fingerprint(fs_, file));
  at::NoGradGuard no_grad;
  for (const TransferPlan::Copy& copy : plan.copies) {
    at::Tensor target = model.state()[copy.target].tensor;
    target.copy_(tensors[copy.source].tensor);
  }
  LogPlan(file, plan);
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

}  // namespace muster::worker
