#include "worker/trainer/tools/model_catalog.h"

#include <optional>

namespace muster::worker {
namespace {

trainer_spec::Model Gpt2(uint32_t layers, uint32_t heads, uint32_t width) {
  trainer_spec::Model model;
  model.gpt2.emplace();
  model.gpt2->layers = layers;
  model.gpt2->heads = heads;
  model.gpt2->width = width;
  model.gpt2->context = 1024;
  model.gpt2->vocabulary = 50257;
  return model;
}

trainer_spec::Model ResNet(std::optional<trainer_spec::ResNet> trainer_spec::Model::*depth,
                           trainer_spec::Stem stem = trainer_spec::Stem::kImagenet) {
  trainer_spec::Model model;
  model.*depth = trainer_spec::ResNet{.width = 64, .stem = stem};
  return model;
}

// With the patches and the two linear layers that all published sizes have.
trainer_spec::Model Vit(uint32_t layers, uint32_t heads, uint32_t width) {
  trainer_spec::Model model;
  model.vit.emplace();
  model.vit->patch_size = 16;
  model.vit->layers = layers;
  model.vit->heads = heads;
  model.vit->width = width;
  model.vit->mlp_width = 4 * width;
  return model;
}

struct Size {
  uint32_t layers, heads, width;
};

trainer_spec::Model Mae(const Size& encoder, const Size& decoder) {
  trainer_spec::Model model;
  model.mae.emplace();
  model.mae->patch_size = 16;
  model.mae->layers = encoder.layers;
  model.mae->heads = encoder.heads;
  model.mae->width = encoder.width;
  model.mae->mlp_width = 4 * encoder.width;
  model.mae->decoder_layers = decoder.layers;
  model.mae->decoder_heads = decoder.heads;
  model.mae->decoder_width = decoder.width;
  model.mae->decoder_mlp_width = 4 * decoder.width;
  model.mae->mask_ratio = 0.75;
  return model;
}

trainer_spec::Model Mlp() {
  trainer_spec::Model model;
  model.mlp = {.hidden = {256, 256}};
  return model;
}

}  // namespace

std::vector<CatalogEntry> ModelCatalog() {
  using Model = trainer_spec::Model;
  const std::vector<int64_t> picture = {3, 224, 224};
  return {
      {"mlp", "linear layers with ReLU between, as configured", Mlp(), {3, 32, 32}, 10},
      {"resnet18", "He et al. 2016, as in torchvision", ResNet(&Model::resnet18), picture, 1000},
      {"resnet18-small",
       "the same with a 3x3 stem, for pictures of 32x32 and below",
       ResNet(&Model::resnet18, trainer_spec::Stem::kSmall),
       {3, 32, 32},
       10},
      {"resnet34", "the same with 34 layers", ResNet(&Model::resnet34), picture, 1000},
      {"resnet50", "with bottlenecks", ResNet(&Model::resnet50), picture, 1000},
      {"resnet101", "with bottlenecks", ResNet(&Model::resnet101), picture, 1000},
      {"vit-tiny", "a small Vision Transformer", Vit(12, 3, 192), picture, 1000},
      {"vit-s-16", "a Vision Transformer of width 384", Vit(12, 6, 384), picture, 1000},
      {"vit-b-16", "Dosovitskiy et al. 2021, as in torchvision", Vit(12, 12, 768), picture, 1000},
      {"vit-l-16", "the same with 24 layers of width 1024", Vit(24, 16, 1024), picture, 1000},
      {"mae-tiny", "a small masked autoencoder", Mae({12, 3, 192}, {2, 4, 128}), picture, 1000},
      {"mae-small", "one with vit-s-16's encoder", Mae({12, 6, 384}, {4, 8, 256}), picture, 1000},
      {"mae-base", "He et al. 2022, as in Hugging Face", Mae({12, 12, 768}, {8, 16, 512}), picture,
       1000},
      {"mae-large", "the same with vit-l-16's encoder", Mae({24, 16, 1024}, {8, 16, 512}), picture,
       1000},
      {"gpt2-small", "Radford et al. 2019, as in Hugging Face", Gpt2(12, 12, 768), {1024}, 50257},
      {"gpt2-medium", "the same with 24 layers of width 1024", Gpt2(24, 16, 1024), {1024}, 50257},
  };
}

}  // namespace muster::worker
