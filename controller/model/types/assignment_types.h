// What the controller tells an agent to do. OutboxRow is what is stored: small, it refers to the
// model. engine/assignment_maker makes an Assignment of the row and the snapshot, the same at each
// repeat; api/convert turns that into the message that goes over the wire.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "controller/model/types/job_types.h"
#include "controller/model/types/root_types.h"

namespace muster::controller {

enum class AssignmentKind : uint8_t { kStart = 1, kStop = 2, kVerify = 3, kDelete = 4 };
enum class StopMode : uint8_t { kKill = 1, kSave = 2, kTerm = 3 };  // as StopRanks.Mode

struct OutboxRow {
  uint64_t seq = 0;  // unique and growing over all workers
  std::string worker;
  std::string incarnation;  // rows of another incarnation are void
  AssignmentKind kind = AssignmentKind::kStart;
  Fence fence;                      // start, stop
  StopMode mode = StopMode::kKill;  // stop
  absl::Duration grace;             // stop
  std::string reason;               // stop
  uint64_t checkpoint_id = 0;       // verify, delete
};

struct StartAssignment {
  Fence fence;
  std::string job_name;
  uint32_t world_size = 0;
  struct Rank {
    uint32_t rank = 0;
    uint32_t local_rank = 0;
    std::vector<uint32_t> slots;
  };
  std::vector<Rank> ranks;
  std::string spec;             // as JobSettings::spec
  std::string checkpoint_root;  // the job's own folder
  struct Resume {
    std::string path;
    int64_t step = 0;
    std::string manifest_sha256;
    bool best = false;
    uint64_t job_id = 0;  // of the job that wrote it, where that is another one
    std::string job_name;
  };
  std::string root;            // as JobNeeds::root
  std::string root_identity;   // empty: not known
  std::vector<Resume> resume;  // newest first; those of another job come last
  uint32_t group_rank = 0;     // this worker among the gang's, in the order of their lowest ranks
  uint32_t group_world_size = 0;
  uint64_t array_id = 0;  // 0: not of an array
  uint32_t array_index = 0;
};

struct StopAssignment {
  Fence fence;
  StopMode mode = StopMode::kKill;
  absl::Duration grace;
  std::string reason;
};

struct VerifyAssignment {
  uint64_t checkpoint_id = 0;
  std::string path;
  std::string manifest_sha256;
  std::string root;  // as StartAssignment's
  std::string root_identity;
};

struct DeleteAssignment {
  uint64_t checkpoint_id = 0;
  std::string path;
  std::string root;  // as StartAssignment's
  std::string root_identity;
};

// Not of the outbox: said anew on each stream, its seq is 0.
struct WatchAssignment {
  std::vector<RootToWatch> roots;
};

// Likewise.
struct CheckDataAssignment {
  std::string key;  // JobNeeds::data
  uint64_t number = 0;
  std::string spec;  // as JobSettings::spec
};

// A program that a person runs beside a rank. Likewise, and sent once.
struct ExecAssignment {
  std::string session;  // names the person's call to the agent
  Fence fence;
  uint32_t rank = 0;
  std::vector<std::string> argv;
  struct Terminal {
    uint32_t rows = 0;
    uint32_t columns = 0;
    std::string type;
  };
  std::optional<Terminal> terminal;
};

struct Assignment {
  uint64_t seq = 0;
  std::variant<StartAssignment, StopAssignment, VerifyAssignment, DeleteAssignment, WatchAssignment,
               CheckDataAssignment, ExecAssignment>
      body;
};

// That this state was put back from a backup (`musterd restore`), and what to tell by whether an
// agent has done more since than the backup knows.
struct RestoredFrom {
  uint64_t term = 0;         // of the controller that made the backup
  uint64_t last_outbox = 0;  // the last assignment that the backup knows
  // Every controller since the restore has a higher term than this one, and every one before it a
  // lower one: an agent that has seen no higher one was not welcomed since.
  uint64_t restored_at_term = 0;
  // What the backup does not know is given up: by --accept-lost-history, or because no worker has
  // done anything since. Until then nothing is placed, ended or deleted.
  bool accepted = false;
};

}  // namespace muster::controller
