#include "worker/optim/layers.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

namespace muster::worker {
namespace {

// How blocks are called: `#` stands for a number.
constexpr absl::string_view kBlocks[] = {
    "layer#.#.",                        // resnet
    "encoder.layers.encoder_layer_#.",  // vit
    "vit.encoder.layer.#.",             // mae
    "transformer.h.#.",                 // gpt2
};

// What stands before the first block.
constexpr absl::string_view kEmbeddings[] = {
    "conv1.",           "bn1.",  // resnet
    "class_token",      "conv_proj.",
    "encoder.pos_emb",                       // vit
    "vit.embeddings.",                       // mae
    "transformer.wte.", "transformer.wpe.",  // gpt2
};

// Numbers of the block that `name` belongs to, or none.
std::vector<int64_t> BlockOf(absl::string_view name, absl::string_view pattern) {
  std::vector<int64_t> numbers;
  for (const char c : pattern) {
    if (c != '#') {
      if (name.empty() || name[0] != c) return {};
      name.remove_prefix(1);
      continue;
    }
    size_t digits = 0;
    while (digits < name.size() && absl::ascii_isdigit(static_cast<unsigned char>(name[digits])))
      ++digits;
    int64_t number = 0;
    if (!absl::SimpleAtoi(name.substr(0, digits), &number)) return {};
    numbers.push_back(number);
    name.remove_prefix(digits);
  }
  return numbers;
}

std::vector<int64_t> BlockOf(absl::string_view name) {
  for (const absl::string_view pattern : kBlocks) {
    std::vector<int64_t> block = BlockOf(name, pattern);
    if (!block.empty()) return block;
  }
  return {};
}

bool IsEmbedding(absl::string_view name) {
  return std::any_of(std::begin(kEmbeddings), std::end(kEmbeddings),
                     [&](absl::string_view prefix) { return absl::StartsWith(name, prefix); });
}

}  // namespace

std::vector<int64_t> LayerNumbers(const std::vector<std::string>& names) {
  std::set<std::vector<int64_t>> blocks;  // in the order of their numbers
  for (const std::string& name : names) {
    std::vector<int64_t> block = BlockOf(name);
    if (!block.empty()) blocks.insert(std::move(block));
  }
  if (blocks.empty()) return {};
  std::vector<int64_t> layers;
  for (const std::string& name : names) {
    const std::vector<int64_t> block = BlockOf(name);
    if (!block.empty()) {
      layers.push_back(1 + std::distance(blocks.begin(), blocks.find(block)));
    } else {
      layers.push_back(IsEmbedding(name) ? 0 : static_cast<int64_t>(blocks.size()) + 1);
    }
  }
  return layers;
}

}  // namespace muster::worker
