#include "worker/dist/shared_memory_backend.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue_inl.h>
#include <ATen/core/jit_type.h>

#include <cstring>

#include "worker/dist/rank_sum.h"

namespace muster::worker {
namespace {

using Tensors = std::vector<at::Tensor>;

// Below this a second barrier costs more than the additions that it saves.
constexpr int64_t kSplitBytes = 64 << 10;

class DoneWork final : public c10d::Work {
 public:
  DoneWork(int rank, c10d::OpType type, Tensors tensors)
      : c10d::Work(rank, type), tensors_(std::move(tensors)) {
    finish();
  }
  bool wait(std::chrono::milliseconds) override { return true; }
  Tensors result() override { return tensors_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    future->markCompleted(at::IValue(tensors_));
    return future;
  }

 private:
  const Tensors tensors_;
};

// A list of tensors of one type, read and written as one long row of numbers.
class Row {
 public:
  explicit Row(const Tensors& tensors) : tensors_(tensors) {
    for (const at::Tensor& tensor : tensors) {
      TORCH_CHECK(tensor.is_cpu() && tensor.is_non_overlapping_and_dense(),
                  "shared memory takes CPU tensors without gaps");
      TORCH_CHECK(tensor.scalar_type() == type(),
                  "shared memory takes tensors of one type at once");
      numbers_ += tensor.numel();
    }
  }
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
  const Tensors& tensors_;
  int64_t numbers_ = 0;
};

class SharedMemoryBackend final : public c10d::Backend {
 public:
  explicit SharedMemoryBackend(std::unique_ptr<SharedMemoryGang> gang)
      : c10d::Backend(gang->rank(), gang->world_size()), gang_(std::move(gang)) {}

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
    const Row row(tensors);
    const int root = static_cast<int>(options.rootRank);
    ForEachTurn(row, [&](int64_t begin, int64_t count) {
      if (rank_ == root) CopyToSlot(row, begin, count);
      Exchange(c10d::OpType::BROADCAST, row, root);
      if (rank_ != root) CopyFrom(gang_->of(root), row, begin, count);
    });
    return Done(c10d::OpType::BROADCAST, tensors);
  }

 private:
  c10::intrusive_ptr<c10d::Work> Reduce(c10d::OpType type, const Tensors& tensors,
                                        const c10d::ReduceOp& op) {
    const Row row(tensors);
    const bool average = op == c10d::ReduceOp::AVG;
    TORCH_CHECK(average || op == c10d::ReduceOp::SUM, "shared memory knows sums and means");
    TORCH_CHECK(CanSum(row.type()) && (!average || c10::isFloatingType(row.type())),
                "no such sum of ", c10::toString(row.type()));
    const double scale = average ? 1.0 / size_ : 1.0;
    ForEachTurn(row, [&](int64_t begin, int64_t count) {
      CopyToSlot(row, begin, count);
      Exchange(type, row, static_cast<int>(average));
      if (size_ > 2 && count * row.number_bytes() > kSplitBytes) {
        SumSplit(type, row, begin, count, scale);
      } else {
        SumAll(row, begin, count, scale);
      }
    });
    return Done(type, tensors);
  }

  // Every rank adds up everything.
  void SumAll(const Row& row, int64_t begin, int64_t count, double scale) {
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
  void SumSplit(c10d::OpType type, const Row& row, int64_t begin, int64_t count, double scale) {
    const int64_t bytes = row.number_bytes();
    const auto share_begin = [&](int rank) { return count * rank / size_; };
    const int64_t mine = share_begin(rank_);
    std::vector<const void*> terms;
    for (int rank = 0; rank < size_; ++rank) terms.push_back(gang_->of(rank) + mine * bytes);
    SumRanks(row.type(), terms, scale, share_begin(rank_ + 1) - mine, gang_->mine() + mine * bytes);
    Exchange(type, row, kSecondHalf);
    for (int rank = 0; rank < size_; ++rank) {
      const int64_t from = share_begin(rank);
      CopyFrom(gang_->of(rank) + from * bytes, row, begin + from, share_begin(rank + 1) - from);
    }
  }

  template <typename Body>
  void ForEachTurn(const Row& row, const Body& body) {
    const int64_t most = static_cast<int64_t>(SharedMemoryGang::kSlotBytes) / row.number_bytes();
    for (int64_t begin = 0; begin < row.numbers(); begin += most)
      body(begin, std::min(most, row.numbers() - begin));
  }

  void CopyToSlot(const Row& row, int64_t begin, int64_t count) {
    const int64_t bytes = row.number_bytes();
    row.ForEach(begin, count, [&](char* data, int64_t offset, int64_t numbers) {
      std::memcpy(gang_->mine() + offset * bytes, data, numbers * bytes);
    });
  }

  static void CopyFrom(const char* source, const Row& row, int64_t begin, int64_t count) {
    const int64_t bytes = row.number_bytes();
    row.ForEach(begin, count, [&](char* data, int64_t offset, int64_t numbers) {
      std::memcpy(data, source + offset * bytes, numbers * bytes);
    });
  }

  // `detail` tells apart what the operation's type does not.
  void Exchange(c10d::OpType type, const Row& row, int detail) {
    const uint64_t what = static_cast<uint64_t>(type) | static_cast<uint64_t>(detail) << 8 |
                          static_cast<uint64_t>(row.type()) << 16 |
                          static_cast<uint64_t>(row.numbers()) << 24;
    ThrowUnlessOk(gang_->Exchange(what));
  }

  static void ThrowUnlessOk(const absl::Status& status) {
    // Ranks that do different things are a fault of the program, not of a peer.
    TORCH_CHECK(!absl::IsInternal(status), status.message());
    TORCH_CHECK_WITH(DistBackendError, status.ok(), "shared memory: ", status.message());
  }

  c10::intrusive_ptr<c10d::Work> Done(c10d::OpType type, const Tensors& tensors) {
    return c10::make_intrusive<DoneWork>(rank_, type, tensors);
  }

  static constexpr int kSecondHalf = 128;

  const std::unique_ptr<SharedMemoryGang> gang_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> MakeSharedMemoryBackend(std::unique_ptr<SharedMemoryGang> gang) {
  return c10::make_intrusive<SharedMemoryBackend>(std::move(gang));
}

}  // namespace muster::worker
