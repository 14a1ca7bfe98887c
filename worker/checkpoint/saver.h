// Saves checkpoints behind the training: the loop pays for a copy to host memory; a thread writes,
// hashes, syncs, publishes and waits for the commit.
//
// One save is in flight. A snapshot that comes meanwhile waits; a newer one takes its place, unless
// the waiting one is the best by validation and the newer is not: then the newer is skipped. So the
// loop never waits, however long the disk or the controller takes, at the price of a second
// snapshot in memory in that case. While the checkpoint root is not to be seen the save in flight
// waits for it, and nothing is made in what stands in its place.
//
// An urgent save, of a rank that is about to leave, never waits for that: what is in flight is
// given up, wherever it stands. A best one alone is still written and renamed first, for the run's
// result depends on it; nobody waits for its commit.
//
// Only rank 0 has a saver. Save, TakeOutcomes and Flush are for one thread, the training loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/ckpt/checkpoint_root.h"
#include "common/fs/file_system.h"
#include "worker/checkpoint/named_tensor.h"
#include "worker/checkpoint/publisher.h"

namespace muster::worker {

struct SaverOptions {
  std::string root;  // the job's own checkpoint folder; made when it is not there
  uint64_t job_id = 0;
  std::string job_name;
  uint32_t attempt = 0;
  uint32_t generation = 0;
  uint64_t nonce_seed = 0;  // names the temporary folders: random, new in each process
  CheckpointRoot holder;    // in which `root` lies
};

struct SaveRequest {
  int64_t step = 0;
  double epoch = 0;
  bool best = false;
  bool urgent = false;
  std::map<std::string, double> metrics;
  const NamedTensors* model = nullptr;      // model.safetensors
  const NamedTensors* optimizer = nullptr;  // optimizer.safetensors
  std::string state_json;                   // state.json
  // Asked once the tensors are copied: throws where what came of them is not to be kept. May be
  // none.
  std::function<void()> check;
};

enum class SaveAdmission {
  kStarted,  // in flight
  kWaiting,  // behind the one in flight; it may have taken the place of an older one
  kSkipped,  // a waiting best one kept its place
};

// How one save ended. Not OK: training can go on; RESOURCE_EXHAUSTED means that the disk is full,
// FAILED_PRECONDITION that the controller refused this rank, ABORTED that an urgent one came. The
// temporary folder is removed.
struct SaveOutcome {
  CheckpointNews news;
  absl::Status status;
  absl::Duration copy_time;   // what the loop paid
  absl::Duration write_time;  // behind it, without the waiting for publish and commit
};

class Saver {
 public:
  // Removes what earlier attempts left half written, and starts the thread. `fs` and `publisher`
  // must outlive the saver. Fails when the checkpoint root is not to be seen (UNAVAILABLE), or
  // `options.root` cannot be made or read (fs's codes).
  static absl::StatusOr<std::unique_ptr<Saver>> Create(FileSystem& fs, Publisher& publisher,
                                                       SaverOptions options);
  // Drops a waiting snapshot and waits for the one in flight: make the publisher return first.
  ~Saver();

  // Copies the tensors and returns. The caller may change them at once. Throws what torch and the
  // request's check throw: then there is no save.
  SaveAdmission Save(const SaveRequest& request);

  // What ended since the last call, oldest first.
  std::vector<SaveOutcome> TakeOutcomes();

  // Waits until nothing is in flight or waiting. DEADLINE_EXCEEDED when that takes longer than
  // `timeout`; OK says nothing about how the saves ended: TakeOutcomes does.
  absl::Status Flush(absl::Duration timeout);

 private:
  class Impl;
  explicit Saver(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::worker
