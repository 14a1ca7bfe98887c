#include "worker/models/mae_to_vit.h"

#include <ATen/ops/cat.h>

#include <array>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

constexpr char kClassToken[] = "vit.embeddings.cls_token";

// Theirs to ours; within a layer, after its prefix.
using Renaming = std::pair<const char*, const char*>;
constexpr std::array<Renaming, 6> kOutside = {{
    {kClassToken, "class_token"},
    {"vit.embeddings.position_embeddings", "encoder.pos_embedding"},
    {"vit.embeddings.patch_embeddings.projection.weight", "conv_proj.weight"},
    {"vit.embeddings.patch_embeddings.projection.bias", "conv_proj.bias"},
    {"vit.layernorm.weight", "encoder.ln.weight"},
    {"vit.layernorm.bias", "encoder.ln.bias"},
}};
constexpr std::array<Renaming, 5> kOfLayer = {{
    {"layernorm_before.", "ln_1."},
    {"attention.output.dense.", "self_attention.out_proj."},
    {"layernorm_after.", "ln_2."},
    {"intermediate.dense.", "mlp.0."},
    {"output.dense.", "mlp.3."},
}};

// The encoder's tensors by name; each may be taken once.
class Encoder {
 public:
  explicit Encoder(const std::vector<ModelTensor>& mae) {
    for (const ModelTensor& entry : mae) {
      if (absl::StartsWith(entry.name, "vit.")) tensors_[entry.name] = entry.tensor;
    }
  }

  bool HasAny(const std::string& prefix) const {
    const auto at = tensors_.lower_bound(prefix);
    return at != tensors_.end() && absl::StartsWith(at->first, prefix);
  }

  absl::StatusOr<at::Tensor> Take(const std::string& name) {
    const auto at = tensors_.find(name);
    if (at == tensors_.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the weights of a masked autoencoder lack ", name));
    }
    at::Tensor tensor = at->second;
    tensors_.erase(at);
    return tensor;
  }

  absl::Status NothingLeft() const {
    if (tensors_.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("the weights of a masked autoencoder hold ", tensors_.begin()->first,
                     ", which a Vision Transformer has no place for"));
  }

 private:
  std::map<std::string, at::Tensor> tensors_;
};

// [D, D] or [D] of query, key and value, one below the other.
absl::StatusOr<at::Tensor> Join(Encoder& encoder, const std::string& prefix,
                                const std::string& suffix) {
  std::vector<at::Tensor> parts;
  for (const char* part : {"query.", "key.", "value."}) {
    const std::string name = absl::StrCat(prefix, "attention.attention.", part, suffix);
    MUSTER_ASSIGN_OR_RETURN(at::Tensor tensor, encoder.Take(name));
    if (!parts.empty() && tensor.sizes() != parts.front().sizes()) {
      return absl::FailedPreconditionError(
          absl::StrCat(name, " has another shape than the query's"));
    }
    parts.push_back(tensor.detach());
  }
  return at::cat(parts, 0);
}

absl::Status AddLayer(Encoder& encoder, const std::string& theirs, const std::string& ours,
                      std::vector<ModelTensor>& vit) {
  for (const char* suffix : {"weight", "bias"}) {
    MUSTER_ASSIGN_OR_RETURN(at::Tensor joined, Join(encoder, theirs, suffix));
    vit.push_back({absl::StrCat(ours, "self_attention.in_proj_", suffix), std::move(joined)});
    for (const auto& [from, to] : kOfLayer) {
      MUSTER_ASSIGN_OR_RETURN(at::Tensor tensor, encoder.Take(absl::StrCat(theirs, from, suffix)));
      vit.push_back({absl::StrCat(ours, to, suffix), std::move(tensor)});
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ModelTensor>> MaeEncoderToVit(const std::vector<ModelTensor>& mae) {
  Encoder encoder(mae);
  std::vector<ModelTensor> vit;
  for (const auto& [from, to] : kOutside) {
    MUSTER_ASSIGN_OR_RETURN(at::Tensor tensor, encoder.Take(from));
    vit.push_back({to, std::move(tensor)});
  }
  for (int layer = 0;; ++layer) {
    const std::string theirs = absl::StrCat("vit.encoder.layer.", layer, ".");
    if (!encoder.HasAny(theirs)) break;
    MUSTER_RETURN_IF_ERROR(
        AddLayer(encoder, theirs, absl::StrCat("encoder.layers.encoder_layer_", layer, "."), vit));
  }
  MUSTER_RETURN_IF_ERROR(encoder.NothingLeft());
  return vit;
}

bool IsMae(const std::vector<ModelTensor>& tensors) {
  for (const ModelTensor& entry : tensors) {
    if (entry.name == kClassToken) return true;
  }
  return false;
}

}  // namespace muster::worker
