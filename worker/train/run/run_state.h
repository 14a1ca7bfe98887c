// Where a run stands between two steps: with weights, buffers and optimizer, all that a resume
// needs. Pure codec.
//
// Goes into a checkpoint's state.json, beside what the reader may want to know about the run.
// Numbers that JSON has no words for are written as "nan", "inf" and "-inf".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster::worker {

// Of fp16 training (loss_scale.h). Scale 0: there was none.
struct LossScaleState {
  double scale = 0;
  int64_t growth_tracker = 0;  // steps since the scale last changed
  int64_t skips_in_row = 0;
  int64_t skipped_steps = 0;
};

// What a rehearsal found out of a rank's memory (memory_estimate.h), in bytes. -1: there was none.
struct RehearsedMemory {
  int64_t activations = -1;
  int64_t program = 0;
  int64_t holes = 0;
};

struct RunState {
  int64_t step = 0;  // steps that are done; the data's cursor follows from it
  double epoch = 0;  // epochs consumed by them
  // Of the newest validation; step -1: none yet.
  int64_t validation_step = -1;
  double validation_accuracy = 0;
  double validation_loss = 0;
  // That of `step` itself was due and had to be left off: it comes before the next step.
  bool validation_owed = false;
  // Of the best validation; step -1: none yet.
  int64_t best_step = -1;
  double best_accuracy = 0;
  double best_loss = 0;
  LossScaleState loss_scale;
  RehearsedMemory rehearsed;
};

// What a resume compares with itself. A change of data or of the teacher is refused; the others
// only end bit-equality, which is said.
struct RunIdentity {
  std::string data_fingerprint;
  uint64_t seed = 0;
  int64_t world_size = 0;
  int64_t threads_per_rank = 0;
  std::string device;       // "cpu" or the kind of device
  std::string device_name;  // of rank 0
  int64_t ranks_on_other_devices = 0;
  std::string precision;
  // How the ranks work together: Collectives::transport(), and of `train.parallel` what else their
  // numbers follow from. Empty and false in states of before these were noted.
  std::string transport;
  std::string compression;
  bool sync_batch_norm = false;
  bool deterministic = false;
  std::string torch_version;
  std::map<std::string, std::string> libraries;  // versions of what computes, by name
  std::string muster_version;
  std::string code_version;  // the commit, or what else tells two builds apart
  int64_t classes = 0;
  std::vector<std::string> class_names;  // of each; empty: the data does not say
  std::string weights_fingerprint;  // of the file that the run began with; empty: fresh weights
  std::string teacher_fingerprint;  // of the teacher's file (distillation.h); empty: there is none
  std::string spec_json;            // the resolved spec, an object
};

// What makes `now` compute other bits than `saved` did, by name, a library with both versions;
// empty: nothing. What an older
// state does not say is not compared.
std::vector<std::string> ChangesOfBits(const RunIdentity& saved, const RunIdentity& now);

// Whether what was found out of the memory of a run that `saved` this holds for `now`: nothing of
// the recipe, the program or the machine differs.
bool SameMemory(const RunIdentity& saved, const RunIdentity& now);

std::string EncodeRunState(const RunState& state, const RunIdentity& identity);

struct DecodedRunState {
  RunState state;
  RunIdentity identity;
};
// DATA_LOSS naming the key that is missing or of the wrong type; FAILED_PRECONDITION for another
// format version. A best validation whose loss is no number counts as none (best.h).
absl::StatusOr<DecodedRunState> DecodeRunState(absl::string_view json);

// What of `train:` differs between two resolved specs, as "train.optimizer", "train.schedule", ...
std::vector<std::string> ChangedRecipe(absl::string_view one, absl::string_view other);

}  // namespace muster::worker
