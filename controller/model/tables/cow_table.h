// A table of shared immutable rows by dense id, cheap to copy: a copy shares all branches, of 4,096
// rows each, and a change copies one block of 64 pointers and the branch that it is in, the first
// time that this copy changes them. Copies may be read by any thread while one writer changes its
// own copy.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "controller/model/tables/cow_part.h"

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

  // Ids start at 1 and should be dense: memory follows the span from the lowest to the highest one.
  void Put(uint64_t id, std::shared_ptr<const T> row) {
    Branch& blocks = writer_.Own(Reach(id / kBranchRows));
    std::shared_ptr<const T>& slot = writer_.Own(blocks[id / kFan % kFan])[id % kFan];
    if (slot == nullptr) ++size_;
    slot = std::move(row);
    if (id > last_id_) last_id_ = id;
  }

  // The id is not given again. Nothing happens when there is no such row.
  void Erase(uint64_t id) {
    if (Find(id) == nullptr) return;
    const auto is_null = [](const auto& part) { return part == nullptr; };
    std::shared_ptr<CowPart<Branch>>& branch = Reach(id / kBranchRows);
    Branch& blocks = writer_.Own(branch);
    std::shared_ptr<CowPart<Block>>& block = blocks[id / kFan % kFan];
    Block& rows = writer_.Own(block);
    rows[id % kFan].reset();
    --size_;
    if (std::all_of(rows.begin(), rows.end(), is_null)) block.reset();
    if (!std::all_of(blocks.begin(), blocks.end(), is_null)) return;
    branch.reset();
    // The oldest rows are erased first: what is copied with the table follows those that are left.
    const auto begin = std::find_if_not(branches_.begin(), branches_.end(), is_null);
    first_ += begin - branches_.begin();
    branches_.erase(branches_.begin(), begin);
  }

  size_t size() const { return size_; }
  uint64_t last_id() const { return last_id_; }
  // Ids up to this one were given: the next new row gets a later one.
  void SkipTo(uint64_t id) { last_id_ = std::max(last_id_, id); }

  // The first id above `id` that has a row; 0: there is none. Cost follows the branches between.
  uint64_t NextId(uint64_t id) const {
    if (id >= last_id_) return 0;
    for (uint64_t at = std::max<uint64_t>(id + 1, first_ * kBranchRows); at <= last_id_;) {
      const CowPart<Branch>* branch = BranchAt(at / kBranchRows);
      if (branch == nullptr) {
        at = (at / kBranchRows + 1) * kBranchRows;
        continue;
      }
      const auto& block = branch->value[at / kFan % kFan];
      if (block == nullptr) {
        at = (at / kFan + 1) * kFan;
        continue;
      }
      if (block->value[at % kFan] != nullptr) return at;
      ++at;
    }
    return 0;
  }

  // Likewise the last one below `id`.
  uint64_t PreviousId(uint64_t id) const {
    for (uint64_t end = std::min(id, last_id_ + 1); end > first_ * kBranchRows;) {
      const uint64_t at = end - 1;
      const CowPart<Branch>* branch = BranchAt(at / kBranchRows);
      if (branch == nullptr) {
        end = at / kBranchRows * kBranchRows;
        continue;
      }
      const auto& block = branch->value[at / kFan % kFan];
      if (block == nullptr) {
        end = at / kFan * kFan;
        continue;
      }
      if (block->value[at % kFan] != nullptr) return at;
      end = at;
    }
    return 0;
  }

  // Calls visit(const T&) for each row in order of id.
  template <typename F>
  void ForEach(F&& visit) const {
    AnyOf([&visit](const T& row) {
      visit(row);
      return false;
    });
  }

  // Whether holds(const T&) is true of any row: asked in order of id, and no more once it is.
  template <typename F>
  bool AnyOf(F&& holds) const {
    for (const auto& branch : branches_) {
      if (branch == nullptr) continue;
      for (const auto& block : branch->value) {
        if (block == nullptr) continue;
        for (const auto& row : block->value) {
          if (row != nullptr && holds(*row)) return true;
        }
      }
    }
    return false;
  }

  // Calls visit(id, before, now) for each row that is another object than in `before`, in order of
  // id; null where there is none. Cost follows the number of branches and of changed ones.
  template <typename F>
  void ForEachChange(const CowTable& before, F&& visit) const {
    const size_t end = std::max(first_ + branches_.size(), before.first_ + before.branches_.size());
    for (size_t at = std::min(first_, before.first_); at < end; ++at) {
      const CowPart<Branch>* then = before.BranchAt(at);
      const CowPart<Branch>* now = BranchAt(at);
      if (then == now) continue;
      for (size_t i = 0; i < kFan; ++i) {
        VisitChanges((at * kFan + i) * kFan, then == nullptr ? nullptr : then->value[i].get(),
                     now == nullptr ? nullptr : now->value[i].get(), visit);
      }
    }
  }

 private:
  static constexpr size_t kFan = 64;
  static constexpr size_t kBranchRows = kFan * kFan;
  using Block = std::array<std::shared_ptr<const T>, kFan>;
  using Branch = std::array<std::shared_ptr<CowPart<Block>>, kFan>;

  const CowPart<Branch>* BranchAt(size_t at) const {
    const bool is_here = at >= first_ && at - first_ < branches_.size();
    return is_here ? branches_[at - first_].get() : nullptr;
  }

  // The place of that branch, made if it was not here.
  std::shared_ptr<CowPart<Branch>>& Reach(size_t at) {
    if (branches_.empty()) first_ = at;
    if (at < first_) {
      branches_.insert(branches_.begin(), first_ - at, nullptr);
      first_ = at;
    }
    if (at - first_ >= branches_.size()) branches_.resize(at - first_ + 1);
    return branches_[at - first_];
  }

  const std::shared_ptr<const T>* Slot(uint64_t id) const {
    const CowPart<Branch>* branch = BranchAt(id / kBranchRows);
    if (branch == nullptr) return nullptr;
    const auto& block = branch->value[id / kFan % kFan];
    return block == nullptr ? nullptr : &block->value[id % kFan];
  }

  // Of one block, whose first id is `first`.
  template <typename F>
  static void VisitChanges(uint64_t first, const CowPart<Block>* then, const CowPart<Block>* now,
                           F& visit) {
    if (then == now) return;
    for (size_t i = 0; i < kFan; ++i) {
      const T* was = then == nullptr ? nullptr : then->value[i].get();
      const T* is = now == nullptr ? nullptr : now->value[i].get();
      if (was != is) visit(first + i, was, is);
    }
  }

  CowWriter writer_;
  std::vector<std::shared_ptr<CowPart<Branch>>> branches_;
  size_t first_ = 0;  // the number of the first of branches_
  size_t size_ = 0;
  uint64_t last_id_ = 0;
};

}  // namespace muster::controller
