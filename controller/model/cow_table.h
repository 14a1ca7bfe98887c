// A table of shared immutable rows by dense id, cheap to copy: a copy shares all blocks, and a
// change copies one block of 64 pointers, the first time that this copy changes it. Copies may be
// read by any thread while one writer changes its own copy.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "controller/model/cow_part.h"

namespace muster::controller {

template <typename T>
class CowTable {
 public:
  // Null when there is no such row.
  const T* Find(uint64_t id) const {
    const std::shared_ptr<const T>* row = Slot(id);
    return row == nullptr ? nullptr : row->get();
  }
  std::shared_ptr<const T> Share(uint64_t id) const {
    const std::shared_ptr<const T>* row = Slot(id);
    return row == nullptr ? nullptr : *row;
  }

  // Ids start at 1 and should be dense: memory follows the highest one.
  void Put(uint64_t id, std::shared_ptr<const T> row) {
    const size_t at = id / kBlockRows;
    if (at >= blocks_.size()) blocks_.resize(at + 1);
    std::shared_ptr<const T>& slot = writer_.Own(blocks_[at])[id % kBlockRows];
    if (slot == nullptr) ++size_;
    slot = std::move(row);
    if (id > last_id_) last_id_ = id;
  }

  // The id is not given again. Nothing happens when there is no such row.
  void Erase(uint64_t id) {
    if (Find(id) == nullptr) return;
    std::shared_ptr<CowPart<Block>>& block = blocks_[id / kBlockRows];
    Block& rows = writer_.Own(block);
    rows[id % kBlockRows].reset();
    --size_;
    if (std::all_of(rows.begin(), rows.end(), [](const auto& row) { return row == nullptr; })) {
      block.reset();
    }
  }

  size_t size() const { return size_; }
  uint64_t last_id() const { return last_id_; }

  // Calls visit(const T&) for each row in order of id.
  template <typename F>
  void ForEach(F&& visit) const {
    for (const auto& block : blocks_) {
      if (block == nullptr) continue;
      for (const auto& row : block->value) {
        if (row != nullptr) visit(*row);
      }
    }
  }

  // Calls visit(id, before, now) for each row that is another object than in `before`, in order of
  // id; null where there is none. Cost follows the number of blocks and of changed ones.
  template <typename F>
  void ForEachChange(const CowTable& before, F&& visit) const {
    const size_t blocks = std::max(blocks_.size(), before.blocks_.size());
    for (size_t at = 0; at < blocks; ++at) {
      const CowPart<Block>* then = at < before.blocks_.size() ? before.blocks_[at].get() : nullptr;
      const CowPart<Block>* now = at < blocks_.size() ? blocks_[at].get() : nullptr;
      if (then == now) continue;
      for (size_t i = 0; i < kBlockRows; ++i) {
        const T* was = then == nullptr ? nullptr : then->value[i].get();
        const T* is = now == nullptr ? nullptr : now->value[i].get();
        if (was != is) visit(at * kBlockRows + i, was, is);
      }
    }
  }

 private:
  static constexpr size_t kBlockRows = 64;
  using Block = std::array<std::shared_ptr<const T>, kBlockRows>;

  const std::shared_ptr<const T>* Slot(uint64_t id) const {
    const size_t at = id / kBlockRows;
    if (at >= blocks_.size() || blocks_[at] == nullptr) return nullptr;
    return &blocks_[at]->value[id % kBlockRows];
  }

  CowWriter writer_;
  std::vector<std::shared_ptr<CowPart<Block>>> blocks_;
  size_t size_ = 0;
  uint64_t last_id_ = 0;
};

}  // namespace muster::controller
