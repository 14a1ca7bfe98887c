// The gang's checkpoints: resume from the newest good one, save behind the training, load the best
// at the end.
//
// A run may begin from a checkpoint of another job (checkpoint.resume_from): its weights, optimizer
// and step go on, its validations and its best one do not count. What else differs is said, and no
// hindrance, if only the tensors fit.
//
// Which rank saves and reads what is the strategy's to say; in data parallelism rank 0 alone
// touches the disk, and the others have what it read. Every function but Poll is a collective: all
// ranks call it, at the same step. Where rank 0 reads or waits for long, all wait with it in turns
// (rank_zero_work.h), and the RunHost hears that they do. One thread. Nothing is thrown: what the
// collectives throw becomes a failure as torch_guard.h says.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/ckpt/checkpoint_finder.h"
#include "common/ckpt/checkpoint_root.h"
#include "common/fs/file_system.h"
#include "worker/checkpoint/named_tensor.h"
#include "worker/checkpoint/publisher.h"
#include "worker/checkpoint/saver.h"
#include "worker/train/rank_zero_work.h"
#include "worker/train/run/run_host.h"
#include "worker/train/run/run_state.h"
#include "worker/train/step/trainer.h"

namespace muster::worker {

struct CheckpointsOptions {
  std::string root;       // the job's own folder
  CheckpointRoot holder;  // in which that lies
  uint64_t job_id = 0;
  std::string job_name;
  uint32_t attempt = 0;
  uint32_t generation = 0;
  uint64_t nonce_seed = 0;
  std::vector<CheckpointCandidate> candidates;  // as the controller gave them
  RunIdentity identity;
  bool has_accuracy = true;  // a validated checkpoint says its own
};

// What the checkpoints talk to. All must outlive them.
struct CheckpointsServices {
  FileSystem& fs;
  Publisher& publisher;
  RunHost& host;
};

class Checkpoints {
 public:
  // Who saves something starts a saver. What is saved and loaded are the trainer's weights and the
  // state of its optimizer; with averages beside the weights as "ema.<name>", with a pruner its
  // masks beside the optimizer's state as "mask.<name>". CHECKPOINT_FAILED when the folder cannot
  // be made; STORAGE_UNAVAILABLE, here and below, when the checkpoint root is not to be seen.
  static absl::StatusOr<std::unique_ptr<Checkpoints>> Create(const Trainer& trainer,
                                                             const CheckpointsServices& services,
                                                             CheckpointsOptions options);

  // Loads the newest good checkpoint into model and optimizer of every rank and returns where it
  // stood; the state of a fresh run when there is no candidate at all. One that is whole but cannot
  // be read is passed over like a broken one. Else fails: CORRUPTION when none of them is good,
  // CHECKPOINT_FAILED when they cannot be read now, DATA_ERROR when the data is not the one that it
  // was trained on, or another job's does not fit. Never from scratch in silence.
  absl::StatusOr<RunState> Restore();

  // What the run began with, for the record of its checkpoints. A resume restores it.
  void SetWeightsFingerprint(const std::string& fingerprint) {
    options_.identity.weights_fingerprint = fingerprint;
  }

  // Shares the buffers, then copies what this rank saves and returns; the saver's thread does the
  // rest. `urgent`: the run is about to leave, and nothing that is on its way may hold this up.
  // Fails when there is no such save; how it ends Poll notes.
  absl::Status Save(const RunState& state, bool best, bool urgent = false);

  // Waits until no save is on its way, however those end. Before the run's last save, which must
  // not be skipped because a better one is still waiting for the controller. False: rank 0 was
  // asked to leave meanwhile, and that save is urgent.
  absl::StatusOr<bool> Drain(absl::Duration timeout);

  // Notes where there is a saver how saves ended, and logs those that failed: training goes on
  // without them.
  void Poll();

  // Waits until the newest save is durable. CHECKPOINT_FAILED when it is not within the timeout.
  absl::Status Finish(absl::Duration timeout);

  // Loads the model of the checkpoint of `state.best_step` into every rank. CHECKPOINT_FAILED when
  // it cannot be read.
  absl::Status LoadBest(const RunState& state);

 private:
  Checkpoints(const Trainer& trainer, const CheckpointsServices& services,
              CheckpointsOptions options);

  absl::Status ClassifyHere(const absl::Status& status, absl::string_view failure_class,
                            absl::string_view context) const;
  absl::StatusOr<RunState> RestoreTogether();
  absl::StatusOr<std::string> FindAndLoad(const OnProgress& on_progress);
  absl::Status Load(const FoundCheckpoint& found, std::string& state_json,
                    const OnProgress& on_progress);
  SaveRequest RequestOf(const RunState& state, bool best, bool urgent) const;
  absl::StatusOr<std::string> Settle(absl::Duration timeout, bool may_hurry);
  void KeepAlive();
  absl::Status CannotLoad(const FoundCheckpoint& found, const absl::Status& status) const;
  absl::StatusOr<std::string> StateOfOtherJob(const std::string& state_json);
  absl::Status Register(const FoundCheckpoint& found, const OnProgress& on_progress);
  void PassOver(const CheckpointCandidate& candidate, const absl::Status& status);
  const CheckpointCandidate* OwnCandidate(int64_t step) const;
  absl::StatusOr<std::string> BestPath(int64_t step, const OnProgress& on_progress) const;
  absl::StatusOr<std::string> StateOfOwnJob(const std::string& state_json,
                                            const OnProgress& on_progress);
  void WarnOfChanges(const RunIdentity& saved) const;
  void WarnOfOtherJob(const RunIdentity& saved) const;

  FileSystem& fs_;
  Publisher& publisher_;
  RunHost& host_;
  // A file of a checkpoint.
  struct State {
    std::vector<at::Tensor> all;  // on every rank
    NamedTensors own;             // what this one saves and reads
  };
  State ToState(NamedTensors tensors) const;

  Collectives& gang_;
  Strategy& strategy_;
  Model& model_;
  CheckpointsOptions options_;
  const State model_state_;
  const State optimizer_state_;
  std::unique_ptr<Saver> saver_;           // of who saves something
  std::vector<CheckpointNews> published_;  // by this process
  absl::Status newest_outcome_;
};

}  // namespace muster::worker
