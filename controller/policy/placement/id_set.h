// A set of small dense ids as bits: the smallest one, and the smallest one that is also in a mask,
// are found a word of 64 at a time. Not thread-safe.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::controller {

class IdSet {
 public:
  void Add(uint64_t id) {
    if (id / 64 >= words_.size()) words_.resize(id / 64 + 1);
    uint64_t& word = words_[id / 64];
    const uint64_t bit = uint64_t{1} << (id % 64);
    size_ += (word & bit) == 0;
    word |= bit;
  }
  void Remove(uint64_t id) {
    if (id / 64 >= words_.size()) return;
    uint64_t& word = words_[id / 64];
    const uint64_t bit = uint64_t{1} << (id % 64);
    size_ -= (word & bit) != 0;
    word &= ~bit;
  }
  bool Has(uint64_t id) const {
    return id / 64 < words_.size() && (words_[id / 64] >> (id % 64) & 1) != 0;
  }
  size_t size() const { return size_; }

  // Calls visit(id) in ascending order for the ids that are in `mask` too (null: for all) until it
  // returns true; whether it did. `visit` must not change the set.
  template <typename F>
  bool FindIf(const IdSet* mask, F&& visit) const {
    if (size_ == 0) return false;
    for (size_t at = 0; at < words_.size(); ++at) {
      uint64_t word = words_[at];
      if (mask != nullptr) word &= at < mask->words_.size() ? mask->words_[at] : 0;
      while (word != 0) {
        const uint64_t id = at * 64 + std::countr_zero(word);
        word &= word - 1;
        if (visit(id)) return true;
      }
    }
    return false;
  }

 private:
  std::vector<uint64_t> words_;
  size_t size_ = 0;
};

}  // namespace muster::controller
