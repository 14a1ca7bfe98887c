// A map of strings to small values, cheap to copy: a copy shares all parts, and a change copies one
// leaf and the path to it. Copies may be read by any thread while one writer changes its own copy.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace muster::controller {

template <typename V>
class CowMap {
 public:
  // Null when there is no such key. Good until this copy changes or goes.
  const V* Find(absl::string_view key) const {
    const size_t hash = Hash(key);
    if (root_ == nullptr) return nullptr;
    const Branch* branch = (*root_)[hash % kFan].get();
    if (branch == nullptr) return nullptr;
    const Leaf* leaf = (*branch)[hash / kFan % kFan].get();
    if (leaf == nullptr) return nullptr;
    const auto it = leaf->find(key);
    return it == leaf->end() ? nullptr : &it->second;
  }

  void Put(absl::string_view key, V value) {
    const size_t hash = Hash(key);
    auto root = Copy(root_);
    std::shared_ptr<const Branch>& branch_at = (*root)[hash % kFan];
    auto branch = Copy(branch_at);
    std::shared_ptr<const Leaf>& leaf_at = (*branch)[hash / kFan % kFan];
    auto leaf = Copy(leaf_at);
    leaf->insert_or_assign(std::string(key), std::move(value));
    leaf_at = std::move(leaf);
    branch_at = std::move(branch);
    root_ = std::move(root);
  }

 private:
  static constexpr size_t kFan = 64;
  using Leaf = std::map<std::string, V, std::less<>>;
  using Branch = std::array<std::shared_ptr<const Leaf>, kFan>;
  using Root = std::array<std::shared_ptr<const Branch>, kFan>;

  static size_t Hash(absl::string_view key) {
    uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
    for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    return hash ^ (hash >> 29);
  }
  template <typename T>
  static std::shared_ptr<T> Copy(const std::shared_ptr<const T>& part) {
    return part == nullptr ? std::make_shared<T>() : std::make_shared<T>(*part);
  }

  std::shared_ptr<const Root> root_;
};

}  // namespace muster::controller
