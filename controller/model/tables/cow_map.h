// A map of strings to small values, cheap to copy: a copy shares all parts, and a change copies one
// leaf and the path to it, the first time that this copy changes them. Copies may be read by any
// thread while one writer changes its own copy.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "controller/model/tables/cow_part.h"

namespace muster::controller {

template <typename V>
class CowMap {
 public:
  // Null when there is no such key. Good until this copy changes or goes.
  const V* Find(absl::string_view key) const {
    const size_t hash = Hash(key);
    if (root_ == nullptr) return nullptr;
    const auto& branch = root_->value[hash % kFan];
    if (branch == nullptr) return nullptr;
    const auto& leaf = branch->value[hash / kFan % kFan];
    if (leaf == nullptr) return nullptr;
    const auto it = At(leaf->value, key);
    return it == leaf->value.end() || it->first != key ? nullptr : &it->second;
  }

  void Put(absl::string_view key, V value) {
    const size_t hash = Hash(key);
    Branch& branch = writer_.Own(writer_.Own(root_)[hash % kFan]);
    Leaf& leaf = writer_.Own(branch[hash / kFan % kFan]);
    const auto it = At(leaf, key);
    if (it != leaf.end() && it->first == key) {
      it->second = std::move(value);
    } else {
      leaf.emplace(it, std::string(key), std::move(value));
    }
  }

  // Nothing happens when there is no such key.
  void Erase(absl::string_view key) {
    if (Find(key) == nullptr) return;
    const size_t hash = Hash(key);
    Branch& branch = writer_.Own(writer_.Own(root_)[hash % kFan]);
    std::shared_ptr<CowPart<Leaf>>& part = branch[hash / kFan % kFan];
    Leaf& leaf = writer_.Own(part);
    leaf.erase(At(leaf, key));
    if (leaf.empty()) part.reset();
  }

 private:
  static constexpr size_t kFan = 64;
  // In the order of the keys. Not a map: a leaf is copied more often than it is searched.
  using Leaf = std::vector<std::pair<std::string, V>>;
  using Branch = std::array<std::shared_ptr<CowPart<Leaf>>, kFan>;
  using Root = std::array<std::shared_ptr<CowPart<Branch>>, kFan>;

  // Where the key is or would be.
  template <typename L>
  static auto At(L& leaf, absl::string_view key) {
    return std::lower_bound(
        leaf.begin(), leaf.end(), key,
        [](const auto& entry, absl::string_view wanted) { return entry.first < wanted; });
  }

  static size_t Hash(absl::string_view key) {
    uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
    for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    return hash ^ (hash >> 29);
  }
  CowWriter writer_;
  std::shared_ptr<CowPart<Root>> root_;
};

}  // namespace muster::controller
