#include "worker/trainer/model_catalog.h"

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

trainer_spec::Model ResNet18(trainer_spec::Stem stem) {
  trainer_spec::Model model;
  model.resnet18 = {.width = 64, .stem = stem};
  return model;
}

trainer_spec::Model Mlp() {
  trainer_spec::Model model;
  model.mlp = {.hidden = {256, 256}};
  return model;
}

}  // namespace

std::vector<CatalogEntry> ModelCatalog() {
  return {
      {"mlp", "linear layers with ReLU between, as configured", Mlp(), {3, 32, 32}, 10},
      {"resnet18",
       "He et al. 2016, as in torchvision",
       ResNet18(trainer_spec::Stem::kImagenet),
       {3, 224, 224},
       1000},
      {"resnet18-small",
       "the same with a 3x3 stem, for pictures of 32x32 and below",
       ResNet18(trainer_spec::Stem::kSmall),
       {3, 32, 32},
       10},
      {"gpt2-small", "Radford et al. 2019, as in Hugging Face", Gpt2(12, 12, 768), {1024}, 50257},
      {"gpt2-medium", "the same with 24 layers of width 1024", Gpt2(24, 16, 1024), {1024}, 50257},
  };
}

}  // namespace muster::worker
