// What the controller knows of a worker: plain data.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "controller/model/types/job_types.h"
#include "controller/model/types/root_types.h"

namespace muster::controller {

struct Slot {
  uint32_t index = 0;
  SlotKind kind = SlotKind::kCpu;
  std::string device;
  std::string uuid;
  uint64_t memory_bytes = 0;

  bool operator==(const Slot&) const = default;
};

// What an agent says of one live rank.
struct RankStatus {
  Fence fence;
  uint32_t rank = 0;
  uint32_t pid = 0;
  int64_t step = 0;
  int64_t total_steps = 0;
  double epoch = 0;
  std::string phase;
  std::map<std::string, double> latest;
  // Set by the controller: since boot, when step, phase or epoch last changed.
  absl::Duration progress_at;
};

// What the machine is. Reported in each Hello; durable.
struct WorkerFacts {
  std::string version;
  std::string pool;
  std::map<std::string, std::string> labels;
  std::vector<Slot> slots;
  uint32_t cpus = 0;
  uint64_t memory_bytes = 0;
  std::string advertise_address;
  std::string metrics_address;  // HOST:PORT, behind "https://" where it speaks TLS
  bool allows_commands = false;                 // runs command jobs
  std::vector<std::string> container_runtimes;  // "podman", "apptainer": runs those with an image

  bool operator==(const WorkerFacts&) const = default;
};

// What of the machine is in use, by whomever; for display.
struct WorkerUse {
  double cpus = 0;  // cores that are busy
  uint64_t memory_bytes = 0;
  struct Gpu {
    uint32_t slot = 0;
    double utilization = 0;  // 0 to 1
    uint64_t memory_bytes = 0;
  };
  std::vector<Gpu> gpus;
};

enum class Presence : uint8_t { kReady = 1, kSuspect = 2, kLost = 3 };

// Who holds a slot. A slot stays held until the rank's process is confirmed dead.
struct SlotHolder {
  uint64_t job_id = 0;
  uint32_t attempt = 0;
  uint32_t rank = 0;
  // What the rank holds besides slots; with its first slot only, zero with the others.
  uint32_t cpus = 0;
  uint64_t memory_bytes = 0;
};

// One failure that began on a worker: evidence, not yet a quarantine
// (policy/health/quarantine_rules).
struct WorkerFailure {
  absl::Time time;
  uint64_t job_id = 0;
  uint32_t attempt = 0;
  FailureClass failure_class = FailureClass::kNone;
  std::string cause;

  bool operator==(const WorkerFailure&) const = default;
};

// What a worker says of the data of some jobs, which are known by JobNeeds::data.
struct DataView {
  uint64_t number = 0;      // of the newest question
  absl::Duration asked_at;  // since boot
  bool answered = false;    // that one
  bool overdue = false;     // not answered for long: ranks go elsewhere until it is
  // The time of the newest answer, since boot. The infinite past: none came on this stream.
  absl::Duration seen_at = -absl::InfiniteDuration();
  std::string fault;        // as DataReport.Verdict.fault
  std::string error;        // beside a fault
  std::string fingerprint;  // empty: not known
  uint32_t failures = 0;    // answers with a fault, in a row

  bool seen() const { return seen_at != -absl::InfiniteDuration(); }
  bool failed() const { return seen() && !fault.empty(); }
};
using DataViews = std::map<std::string, DataView>;  // by JobNeeds::data

// Views of one worker that are kept; the one that was asked for longest ago makes room.
inline constexpr size_t kMaxDataViews = 256;

// One answer.
struct DataVerdict {
  std::string key;
  uint64_t number = 0;
  std::string fault;
  std::string error;
  std::string fingerprint;
};

// What is known of a worker since its last message: in memory only, so that a heartbeat writes
// nothing. A controller that starts anew hears it again.
struct WorkerPulse {
  uint64_t stream = 0;     // the newest Control stream
  bool connected = false;  // has a Control stream; false after a controller start until its Hello
  bool suspect = false;    // silent for a while, but not for so long that it is lost
  // The machine is going away, as its notice said. False: the agent only drains. A restarted
  // controller does not know it until the agent says it again.
  bool leaving = false;
  absl::Time last_heartbeat = absl::InfinitePast();  // stored with the row whenever that is written
  absl::Duration last_seen_at;                       // since boot
  // Its Hello freed slots while the disk was full: they are released with a later heartbeat.
  bool owes_release = false;
  std::map<uint32_t, SlotHolder> holders;  // by slot index; follows from the ranks of attempts
  std::shared_ptr<const std::vector<RankStatus>> ranks;  // of the last report; null: none yet
  std::shared_ptr<const WorkerUse> use;                  // likewise
  // On this stream; null: not said yet, nothing asked yet.
  std::shared_ptr<const RootViews> roots;
  std::shared_ptr<const std::vector<RootToWatch>> watches;
  bool checks_data = false;               // it answers CheckData
  std::shared_ptr<const DataViews> data;  // on this stream; null: nothing asked yet
};

// Stored, but for its pulse.
struct Worker {
  uint64_t id = 0;  // dense, the controller's own
  std::string name;
  std::string incarnation;  // 16 random bytes of the agent that holds the name
  std::vector<std::string>
      past_incarnations;  // fenced ones, newest first, at most kMaxPastIncarnations
  std::string identity;   // of its agent's data folder: 16 random bytes; empty: not said
  WorkerFacts facts;
  bool lost = false;      // silent for so long that its ranks were given up
  bool draining = false;  // gave notice: gets nothing new
  bool cordoned = false;  // drained by a person: gets nothing new until undrained
  std::string cordon_reason;
  std::vector<WorkerFailure> failures;  // oldest first, at most kMaxWorkerFailures
  // Gets nothing new before this ledger time, which outlives the controller; InfinitePast: not in
  // quarantine.
  absl::Time quarantined_until = absl::InfinitePast();
  // The evidence in one sentence, kept after the quarantine; or why it is exempt, while it is.
  std::string quarantine_reason;
  uint32_t quarantines = 0;  // in a row: each is twice as long as the one before
  absl::Time quarantine_ended = absl::InfinitePast();  // earlier failures count no more
  // Highest event_seq of this incarnation that is durable, here or at another controller. The next
  // one must be +1, unless it is not known yet.
  uint64_t event_seq = 0;
  bool event_seq_known = false;
  WorkerPulse pulse;

  Presence presence() const {
    if (lost) return Presence::kLost;
    return pulse.suspect ? Presence::kSuspect : Presence::kReady;
  }
  bool quarantined() const { return quarantined_until != absl::InfinitePast(); }
};

inline constexpr size_t kMaxWorkerFailures = 16;
inline constexpr size_t kMaxPastIncarnations = 16;
// Names of workers that are known at a time: far more than one controller can serve.
inline constexpr size_t kMaxWorkers = 65'536;

// "ready", "suspect", "quarantined", "drained", "draining" or "lost"; the last that is true.
absl::string_view WorkerStateName(const Worker& worker);

}  // namespace muster::controller
