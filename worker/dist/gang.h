// The gang as one of its ranks holds it: a handle that stays, while the ranks behind it may change.
//
// Formed once for each generation: at the start of a run, and again, by Reform, when a rank has
// left or others have come. It is the Collectives of the generation that it is in. So whoever keeps
// a Collectives& or a Strategy from step to step (the training step, batch norm, the strategy
// itself) goes through it, and has the new ranks after a Reform. Checkpoints and the order of
// batches go by the rank that this one had when they were made: they are to be made anew. Between
// generations there is nobody to talk to, and every collective throws as where a rank was lost.
//
// One thread at a time, but for Check, which is not called while the gang ends or forms.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/dist/base/key_value.h"
#include "worker/dist/collectives.h"
#include "worker/dist/strategy/strategy.h"

namespace muster::worker {

struct ProcessGroup;

// How CPU ranks reach each other. GPU ranks always use NCCL.
enum class Transport {
  // Shared memory where all ranks run on one host; where some of several hosts have several ranks,
  // shared memory inside the hosts and Gloo between them; else, and where memory cannot be shared,
  // Gloo.
  kAuto,
  kGloo,          // TCP
  kSharedMemory,  // or fail
};

struct CollectivesOptions {
  int rank = 0;
  int world_size = 1;
  std::string advertise_address = "127.0.0.1";  // where the other ranks reach this one
  int gpu = -1;                                 // index of the CUDA device, or -1: CPU
  absl::Duration timeout = absl::Minutes(10);   // of the rendezvous and of each collective
  std::string prefix;  // of every key in the store; fresh for each life of the group
  Transport transport = Transport::kAuto;
  Compression compression = Compression::kNone;
  // Every step uses the same parameters, and each as often: then those that the loss does not
  // depend on hold up no bucket, and a parameter may get its gradient in several parts.
  bool static_graph = false;
};

// What the buffers of a data-parallel strategy (Strategy::buffer_bytes) hold in a gang that is not
// there yet. Where only its making will tell how its ranks reach each other, they are taken to
// share a host. Pure.
int64_t PlannedBufferBytes(const std::vector<at::Tensor>& parameters,
                           const CollectivesOptions& options);

class Gang final : public Collectives {
 public:
  // Waits for all ranks of options.world_size; throws when they do not come. One rank alone needs
  // no store. FAILED_PRECONDITION, on all ranks, that says why: the transport that was asked for
  // cannot be had.
  static absl::StatusOr<std::unique_ptr<Gang>> Form(std::shared_ptr<KeyValue> store,
                                                    const CollectivesOptions& options);
  // A gang of one talks to nobody.
  static std::unique_ptr<Gang> OfOne();
  ~Gang() override;

  // Leaves the generation, whatever is on its way in it: ranks that still wait for this one lose
  // it.
  void End();

  // Ends it, and forms the gang of another generation. `options` are this rank's there: its number,
  // how many they are, and a prefix that no generation had before. As Form; where it fails or
  // throws the gang has ended, and may be formed again.
  absl::Status Reform(std::shared_ptr<KeyValue> store, const CollectivesOptions& options);

  int rank() const override { return options_.rank; }
  int world_size() const override { return options_.world_size; }
  std::string transport() const override;
  void Check() const override;
  void AllReduceSum(at::Tensor& tensor) override;
  void Broadcast(at::Tensor& tensor, int root) override;
  void BroadcastText(std::string& text, int root) override;
  void Barrier() override;

  // Data parallelism over this gang, which must outlive it, through all its generations.
  // Parameters: leaves that require a gradient, the same ones in the same order on every rank, on
  // the gang's device. Compression and static_graph are those of now.
  std::unique_ptr<Strategy> MakeStrategy(const std::vector<at::Tensor>& parameters,
                                         const StrategyOptions& options) const;

 private:
  Gang();

  CollectivesOptions options_;
  const std::unique_ptr<ProcessGroup> group_;  // a new one in its place in each generation
};

}  // namespace muster::worker
