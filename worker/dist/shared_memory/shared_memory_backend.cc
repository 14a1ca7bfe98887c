#include "worker/dist/shared_memory/shared_memory_backend.h"

#include <ATen/core/Tensor.h>

#include "worker/dist/base/done_work.h"
#include "worker/dist/shared_memory/row_turns.h"
#include "worker/kernels/rank_sum.h"

namespace muster::worker {
namespace {

using Tensors = std::vector<at::Tensor>;

// Below this a second barrier costs more than the additions that it saves.
constexpr int64_t kSplitBytes = 64 << 10;

class SharedMemoryBackend final : public c10d::Backend {
 public:
  explicit SharedMemoryBackend(std::unique_ptr<SharedMemoryGang> gang)
      : c10d::Backend(gang->rank(), gang->world_size()), gang_(std::move(gang)), turns_(*gang_) {}

  const std::string getBackendName() const override { return kSharedMemoryName; }

  c10::intrusive_ptr<c10d::Work> allreduce(Tensors& tensors,
                                           const c10d::AllreduceOptions& options) override {
    return Reduce(c10d::OpType::ALLREDUCE, tensors, options.reduceOp);
  }

  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(
      Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override {
    return Reduce(c10d::OpType::ALLREDUCE_COALESCED, tensors, options.reduceOp);
  }

  c10::intrusive_ptr<c10d::Work> broadcast(Tensors& tensors,
                                           const c10d::BroadcastOptions& options) override {
    const TensorRow row(tensors);
    turns_.Broadcast(row, static_cast<int>(options.rootRank));
    return Done(c10d::OpType::BROADCAST, tensors);
  }

 private:
  c10::intrusive_ptr<c10d::Work> Reduce(c10d::OpType type, const Tensors& tensors,
                                        const c10d::ReduceOp& op) {
    const TensorRow row(tensors);
    const bool average = op == c10d::ReduceOp::AVG;
    TORCH_CHECK(average || op == c10d::ReduceOp::SUM, "shared memory knows sums and means");
    TORCH_CHECK(CanSum(row.type()) && (!average || c10::isFloatingType(row.type())),
                "no such sum of ", c10::toString(row.type()));
    const double scale = average ? 1.0 / size_ : 1.0;
    RowTurns::ForEach(row, [&](int64_t begin, int64_t count) {
      turns_.CopyToSlot(row, begin, count);
      turns_.Exchange(type, row, static_cast<int>(average));
      if (size_ > 2 && count * row.number_bytes() > kSplitBytes) {
        SumSplit(type, row, begin, count, scale);
      } else {
        SumAll(row, begin, count, scale);
      }
    });
    return Done(type, tensors);
  }

  // Every rank adds up everything.
  void SumAll(const TensorRow& row, int64_t begin, int64_t count, double scale) {
    std::vector<const void*> terms(size_);
    row.ForEach(begin, count, [&](char* data, int64_t offset, int64_t numbers) {
      for (int rank = 0; rank < size_; ++rank) {
        // Our own numbers are still where they came from, and warm.
        terms[rank] = rank == rank_ ? data : gang_->of(rank) + offset * row.number_bytes();
      }
      SumRanks(row.type(), terms, scale, numbers, data);
    });
  }

  // Every rank adds up its share, and fetches the other shares from those who added them up.
  void SumSplit(c10d::OpType type, const TensorRow& row, int64_t begin, int64_t count,
                double scale) {
    const int64_t bytes = row.number_bytes();
    const auto share_begin = [&](int rank) { return count * rank / size_; };
    const int64_t mine = share_begin(rank_);
    std::vector<const void*> terms;
    for (int rank = 0; rank < size_; ++rank) terms.push_back(gang_->of(rank) + mine * bytes);
    SumRanks(row.type(), terms, scale, share_begin(rank_ + 1) - mine, gang_->mine() + mine * bytes);
    turns_.Exchange(type, row, RowTurns::kSecondHalf);
    for (int rank = 0; rank < size_; ++rank) {
      const int64_t from = share_begin(rank);
      RowTurns::CopyFrom(gang_->of(rank) + from * bytes, row, begin + from,
                         share_begin(rank + 1) - from);
    }
  }

  c10::intrusive_ptr<c10d::Work> Done(c10d::OpType type, const Tensors& tensors) {
    return c10::make_intrusive<DoneWork>(rank_, type, tensors);
  }

  const std::unique_ptr<SharedMemoryGang> gang_;
  const RowTurns turns_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> MakeSharedMemoryBackend(std::unique_ptr<SharedMemoryGang> gang) {
  return c10::make_intrusive<SharedMemoryBackend>(std::move(gang));
}

}  // namespace muster::worker
