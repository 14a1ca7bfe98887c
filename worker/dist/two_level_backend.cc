#include "worker/dist/two_level_backend.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <utility>

#include "worker/dist/base/done_work.h"
#include "worker/dist/shared_memory/row_turns.h"
#include "worker/kernels/rank_sum.h"

namespace muster::worker {
namespace {

using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Below this, one connection is faster than several.
constexpr int64_t kOneLaneBytes = 64 << 10;

// The part of one turn that one lane carries.
struct Stretch {
  int64_t begin, count;
};
Stretch LaneOf(int64_t count, int lane, int lanes) {
  const int64_t begin = count * lane / lanes;
  return {begin, count * (lane + 1) / lanes - begin};
}

class TwoLevelBackend final : public c10d::Backend {
 public:
  explicit TwoLevelBackend(TwoLevelParts parts)
      : c10d::Backend(parts.rank, parts.world_size),
        layout_(std::move(parts.layout)),
        host_(std::move(parts.host)),
        lane_(std::move(parts.lane)),
        turns_(*host_) {}

  const std::string getBackendName() const override { return kTwoLevelName; }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return c10::make_intrusive<Sum>(*this, c10d::OpType::ALLREDUCE, tensors, options.reduceOp);
  }

  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override {
    return c10::make_intrusive<Sum>(*this, c10d::OpType::ALLREDUCE_COALESCED, tensors,
                                    options.reduceOp);
  }

  // To all ranks of the root's host; by their first ranks to the first of each other host; from
  // there to the others.
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const TensorRow row(tensors);
    const int root = static_cast<int>(options.rootRank);
    const int root_host = layout_.HostOf(root);
    const std::vector<int>& beside_root = layout_.hosts[root_host];
    const bool with_root = layout_.HostOf(rank_) == root_host;
    if (with_root) {
      const auto place = std::find(beside_root.begin(), beside_root.end(), root);
      turns_.Broadcast(row, static_cast<int>(place - beside_root.begin()));
    }
    if (host_->rank() == 0) BroadcastBetweenHosts(row, root_host);
    if (!with_root) turns_.Broadcast(row, 0);
    return c10::make_intrusive<DoneWork>(rank_, c10d::OpType::BROADCAST, tensors);
  }

 private:
  // Begun: the host's sum is on its way between the hosts. wait() ends it.
  class Sum final : public c10d::Work {
   public:
    Sum(TwoLevelBackend& backend, c10d::OpType type, Tensors tensors, const c10d::ReduceOp& op)
        : c10d::Work(backend.rank_, type),
          backend_(backend),
          type_(type),
          tensors_(std::move(tensors)),
          row_(tensors_),
          average_(op == c10d::ReduceOp::AVG) {
      TORCH_CHECK(average_ || op == c10d::ReduceOp::SUM, "two levels know sums and means");
      TORCH_CHECK(CanSum(row_.type()) && (!average_ || c10::isFloatingType(row_.type())),
                  "no such sum of ", c10::toString(row_.type()));
      const bool small = row_.numbers() * row_.number_bytes() <= kOneLaneBytes;
      lanes_ = small ? 1 : static_cast<int>(backend.layout_.FewestRanks());
      lane_ = backend.host_->rank();
      SumInHost();
      if (host_sum_.defined()) {
        Tensors sums = {host_sum_};
        between_hosts_ = backend.lane_->allreduce(sums, c10d::AllreduceOptions());
      }
    }

    bool isCompleted() override {
      return done_ || between_hosts_ == nullptr || between_hosts_->isCompleted();
    }

    bool wait(std::chrono::milliseconds) override {
      if (done_) return true;
      if (between_hosts_ != nullptr) between_hosts_->wait();
      if (average_ && host_sum_.defined()) host_sum_.mul_(1.0 / backend_.size_);
      ShareInHost();
      done_ = true;
      between_hosts_.reset();
      host_sum_.reset();
      finish();
      return true;
    }

    Tensors result() override { return tensors_; }

   private:
    // Each lane's rank gathers the host's sum of its stretch of every turn, one after another.
    void SumInHost() {
      const RowTurns& turns = backend_.turns_;
      const SharedMemoryGang& host = *backend_.host_;
      const int64_t bytes = row_.number_bytes();
      const bool carries = lane_ < lanes_ && row_.numbers() > 0;
      if (carries) host_sum_ = at::empty({LaneNumbers()}, row_.type());
      char* sum = carries ? static_cast<char*>(host_sum_.data_ptr()) : nullptr;
      std::vector<const void*> terms(host.world_size());
      RowTurns::ForEach(row_, [&](int64_t begin, int64_t count) {
        turns.CopyToSlot(row_, begin, count);
        turns.Exchange(type_, row_, static_cast<int>(average_));
        if (!carries) return;
        const Stretch mine = LaneOf(count, lane_, lanes_);
        for (int rank = 0; rank < host.world_size(); ++rank)
          terms[rank] = host.of(rank) + mine.begin * bytes;
        SumRanks(row_.type(), terms, 1.0, mine.count, sum);
        sum += mine.count * bytes;
      });
    }

    void ShareInHost() {
      const RowTurns& turns = backend_.turns_;
      SharedMemoryGang& host = *backend_.host_;
      const int64_t bytes = row_.number_bytes();
      const char* sum =
          host_sum_.defined() ? static_cast<const char*>(host_sum_.data_ptr()) : nullptr;
      RowTurns::ForEach(row_, [&](int64_t begin, int64_t count) {
        if (sum != nullptr) {
          const Stretch mine = LaneOf(count, lane_, lanes_);
          std::memcpy(host.mine() + mine.begin * bytes, sum, mine.count * bytes);
          sum += mine.count * bytes;
        }
        turns.Exchange(type_, row_, RowTurns::kSecondHalf);
        for (int lane = 0; lane < lanes_; ++lane) {
          const Stretch stretch = LaneOf(count, lane, lanes_);
          RowTurns::CopyFrom(host.of(lane) + stretch.begin * bytes, row_, begin + stretch.begin,
                             stretch.count);
        }
      });
    }

    int64_t LaneNumbers() const {
      int64_t numbers = 0;
      RowTurns::ForEach(
          row_, [&](int64_t, int64_t count) { numbers += LaneOf(count, lane_, lanes_).count; });
      return numbers;
    }

    TwoLevelBackend& backend_;
    const c10d::OpType type_;
    const Tensors tensors_;
    const TensorRow row_;
    const bool average_;
    int lanes_ = 1, lane_ = 0;
    at::Tensor host_sum_;  // this lane's stretches; undefined on ranks without a lane
    WorkPtr between_hosts_;
    bool done_ = false;
  };

  void BroadcastBetweenHosts(const TensorRow& row, int root_host) {
    c10d::BroadcastOptions options;
    options.rootRank = root_host;
    for (const at::Tensor& tensor : row.tensors()) {
      if (tensor.numel() == 0) continue;
      // Holds the tensor: Gloo may go on with it after a rank was lost.
      Tensors flat = {at::from_blob(
          tensor.data_ptr(), {static_cast<int64_t>(tensor.nbytes())}, [tensor](void*) {},
          at::kByte)};
      lane_->broadcast(flat, options)->wait();
    }
  }

  const HostLayout layout_;
  const std::unique_ptr<SharedMemoryGang> host_;
  const c10::intrusive_ptr<c10d::Backend> lane_;
  const RowTurns turns_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> MakeTwoLevelBackend(TwoLevelParts parts) {
  return c10::make_intrusive<TwoLevelBackend>(std::move(parts));
}

}  // namespace muster::worker
