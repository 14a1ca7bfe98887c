#include "worker/trainer/model_catalog.h"

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

trainer_spec::Model MaeBase() {
  trainer_spec::Model model;
  model.mae.emplace();
  model.mae->patch_size = 16;
  model.mae->layers = 12;
  model.mae->heads = 12;
  model.mae->width = 768;
  model.mae->mlp_width = 3072;
  model.mae->decoder_layers = 8;
  model.mae->decoder_heads = 16;
  model.mae->decoder_width = 512;
  model.mae->decoder_mlp_width = 2048;
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
      {"mae-base", "He et al. 2022, as in Hugging Face", MaeBase(), picture, 1000},
      {"gpt2-small", "Radford et al. 2019, as in Hugging Face", Gpt2(12, 12, 768), {1024}, 50257},
      {"gpt2-medium", "the same with 24 layers of width 1024", Gpt2(24, 16, 1024), {1024}, 50257},
  };
}

}  // namespace muster::worker
