// The assignments that agents have not acknowledged, by sequence and by worker. As cheap to copy as
// the tables that it is made of, and under the same rule for threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/model/tables/cow_map.h"
#include "controller/model/tables/cow_table.h"
#include "controller/model/types/assignment_types.h"

namespace muster::controller {

class Outbox {
 public:
  // Null when there is no such row.
  const OutboxRow* Find(uint64_t seq) const { return rows_.Find(seq); }
  // Those for one worker, ascending.
  std::vector<uint64_t> Of(const std::string& worker) const {
    const std::vector<uint64_t>* seqs = of_worker_.Find(worker);
    return seqs == nullptr ? std::vector<uint64_t>() : *seqs;
  }
  size_t size() const { return rows_.size(); }
  bool empty() const { return size() == 0; }
  // Another one after each change.
  uint64_t revision() const { return revision_; }

  // Requires that its sequence is above those of all rows that were added before.
  void Add(OutboxRow row) {
    std::vector<uint64_t> seqs = Of(row.worker);
    seqs.push_back(row.seq);
    of_worker_.Put(row.worker, std::move(seqs));
    rows_.Put(row.seq, std::make_shared<const OutboxRow>(std::move(row)));
    ++revision_;
  }

  // False: there is no such row.
  bool Remove(uint64_t seq) {
    const std::shared_ptr<const OutboxRow> row = rows_.Share(seq);
    if (row == nullptr) return false;
    std::vector<uint64_t> seqs = Of(row->worker);
    std::erase(seqs, seq);
    if (seqs.empty()) {
      of_worker_.Erase(row->worker);
    } else {
      of_worker_.Put(row->worker, std::move(seqs));
    }
    rows_.Erase(seq);
    ++revision_;
    return true;
  }

  // Calls visit(const OutboxRow&) for each in order of sequence.
  template <typename F>
  void ForEach(F&& visit) const {
    rows_.ForEach(visit);
  }
  // Whether holds(const OutboxRow&) is true of any.
  template <typename F>
  bool AnyOf(F&& holds) const {
    return rows_.AnyOf(holds);
  }

 private:
  CowTable<OutboxRow> rows_;
  CowMap<std::vector<uint64_t>> of_worker_;
  uint64_t revision_ = 0;
};

}  // namespace muster::controller
