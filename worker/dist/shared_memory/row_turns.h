// Tensors through the slots of a SharedMemoryGang: a list of them is one long row of numbers, which
// goes through in turns of a slot each.
//
// Used by the backends over shared memory. Throws as they do: c10::DistBackendError for a lost or
// stopped peer.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "worker/dist/shared_memory/shared_memory_gang.h"

namespace muster::worker {

// CPU tensors of one type without gaps, which must outlive the row.
class TensorRow {
 public:
  explicit TensorRow(const std::vector<at::Tensor>& tensors) : tensors_(tensors) {
    for (const at::Tensor& tensor : tensors) {
      TORCH_CHECK(tensor.is_cpu() && tensor.is_non_overlapping_and_dense(),
                  "shared memory takes CPU tensors without gaps");
      TORCH_CHECK(tensor.scalar_type() == type(),
                  "shared memory takes tensors of one type at once");
      numbers_ += tensor.numel();
    }
  }
  const std::vector<at::Tensor>& tensors() const { return tensors_; }
  c10::ScalarType type() const { return tensors_.front().scalar_type(); }
  int64_t number_bytes() const { return tensors_.front().element_size(); }
  int64_t numbers() const { return numbers_; }

  // Calls body(where in the tensors, offset from `begin`, how many) for each stretch of
  // [begin, begin + count).
  template <typename Body>
  void ForEach(int64_t begin, int64_t count, const Body& body) const {
    int64_t tensor_begin = 0;
    for (const at::Tensor& tensor : tensors_) {
      const int64_t from = std::max(begin, tensor_begin);
      const int64_t to = std::min(begin + count, tensor_begin + tensor.numel());
      if (from < to) {
        char* data = static_cast<char*>(tensor.data_ptr());
        body(data + (from - tensor_begin) * number_bytes(), from - begin, to - from);
      }
      tensor_begin += tensor.numel();
      if (tensor_begin >= begin + count) return;
    }
  }

 private:
  const std::vector<at::Tensor>& tensors_;
  int64_t numbers_ = 0;
};

class RowTurns {
 public:
  // Tells the second exchange of one turn from the first.
  static constexpr int kSecondHalf = 128;

  explicit RowTurns(SharedMemoryGang& gang) : gang_(gang) {}

  // Calls body(first number, how many) for each turn.
  template <typename Body>
  static void ForEach(const TensorRow& row, const Body& body) {
    const int64_t most = static_cast<int64_t>(SharedMemoryGang::kSlotBytes) / row.number_bytes();
    for (int64_t begin = 0; begin < row.numbers(); begin += most)
      body(begin, std::min(most, row.numbers() - begin));
  }

  void CopyToSlot(const TensorRow& row, int64_t begin, int64_t count) const {
    const int64_t bytes = row.number_bytes();
    row.ForEach(begin, count, [&](char* data, int64_t offset, int64_t numbers) {
      std::memcpy(gang_.mine() + offset * bytes, data, numbers * bytes);
    });
  }

  static void CopyFrom(const char* source, const TensorRow& row, int64_t begin, int64_t count) {
    const int64_t bytes = row.number_bytes();
    row.ForEach(begin, count, [&](char* data, int64_t offset, int64_t numbers) {
      std::memcpy(data, source + offset * bytes, numbers * bytes);
    });
  }

  // `detail` tells apart what the operation's type does not.
  void Exchange(c10d::OpType type, const TensorRow& row, int detail) const {
    const uint64_t what = static_cast<uint64_t>(type) | static_cast<uint64_t>(detail) << 8 |
                          static_cast<uint64_t>(row.type()) << 16 |
                          static_cast<uint64_t>(row.numbers()) << 24;
    const absl::Status status = gang_.Exchange(what);
    // Ranks that do different things are a fault of the program, not of a peer.
    TORCH_CHECK(!absl::IsInternal(status), status.message());
    TORCH_CHECK_WITH(DistBackendError, status.ok(), "shared memory: ", status.message());
  }

  // `root`: within the gang.
  void Broadcast(const TensorRow& row, int root) const {
    ForEach(row, [&](int64_t begin, int64_t count) {
      if (gang_.rank() == root) CopyToSlot(row, begin, count);
      Exchange(c10d::OpType::BROADCAST, row, root);
      if (gang_.rank() != root) CopyFrom(gang_.of(root), row, begin, count);
    });
  }

 private:
  SharedMemoryGang& gang_;
};

}  // namespace muster::worker
