// What the agent does on which event, as pure functions: which assignments it takes, how a rank is
// brought to its end, and what its end means.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/agent/command/command_rules.h"
#include "worker/agent/container/container_rules.h"
#include "worker/link/link_messages.h"

namespace muster::worker {

// ---- taking assignments ----

// What the agent needs of a job's spec; the rest is the trainer's.
struct SpecSettings {
  uint32_t threads_per_rank = 1;
  absl::Duration controller_lost_timeout;
  std::optional<CommandSettings> command;  // else it is the trainer's
  // What each rank gets; 0 and empty: not asked for.
  uint32_t gpus = 0;
  std::string gpu_type;
  uint32_t cpus = 0;
  uint64_t memory_bytes = 0;
};
// INVALID_ARGUMENT naming the key that is missing or no good.
absl::StatusOr<SpecSettings> ReadSpecSettings(absl::string_view spec_json);

// The same, with the last answer kept: the tasks of an array come one after the other, all with one
// spec.
class SpecReader {
 public:
  const absl::StatusOr<SpecSettings>& Read(const std::string& spec_json);

 private:
  std::string spec_json_;
  absl::StatusOr<SpecSettings> settings_;
};

// Which attempts of which jobs are over for this agent, newest jobs kept. A StartRanks that comes
// late, after its own StopRanks or after a newer attempt, finds itself fenced.
class AttemptFences {
 public:
  static constexpr size_t kMaxJobs = 10'000;
  // Attempts below `attempt` may not start any more.
  void RaiseTo(uint64_t job_id, uint32_t attempt);
  bool Allows(uint64_t job_id, uint32_t attempt) const;

 private:
  std::map<uint64_t, uint32_t> lowest_;
};

struct StartContext {
  bool draining = false;
  bool allow_commands = false;
  ContainerRuntimes runtimes;
  uint64_t session_term = 0;  // of the controller that sent it
  // Of the slots that the assignment names:
  std::set<uint32_t> slots;       // those that this worker has
  std::set<uint32_t> busy_slots;  // those held by ranks that are not confirmed dead
};
// What its spec says, or why the assignment is refused: UNAVAILABLE (draining), ABORTED (fenced),
// FAILED_PRECONDITION (a slot is held or not there, nothing runs its image here), PERMISSION_DENIED
// (no commands here), INVALID_ARGUMENT (the message contradicts itself).
absl::StatusOr<SpecSettings> CheckStart(const v1::StartRanks& start, const StartContext& context,
                                        const AttemptFences& fences, SpecReader& specs);

// Null: there is no such slot.
const v1::Slot* FindSlot(const std::vector<v1::Slot>& slots, uint32_t index);

// FAILED_PRECONDITION unless each rank gets as many GPUs, and of the type, as its spec asks for:
// placing them was the controller's work, giving them is this worker's.
absl::Status CheckDevices(const v1::StartRanks& start, const SpecSettings& settings,
                          const std::vector<v1::Slot>& slots);

// ---- what a rank says ----

// What one line of a rank may hold; the controller refuses more, and one refused record would hold
// up all behind it.
inline constexpr size_t kMaxValuesPerLine = 256;
inline constexpr size_t kMaxPhaseBytes = 64;
inline constexpr size_t kMaxMemoryNeedBytes = 4096;
inline constexpr size_t kMaxPathBytes = 4096;
inline constexpr size_t kMaxStoreKeys = 1024;
// So that a double holds each step, and sums of a few do not overflow.
inline constexpr int64_t kMaxStep = int64_t{1} << 53;
// INVALID_ARGUMENT naming what is too long, too many, out of range or missing: the rank broke the
// link's rules.
absl::Status CheckRankLine(const RankLine& line);

// ---- ending a rank ----

struct StopRequest {
  v1::StopRanks::Mode mode = v1::StopRanks::KILL;
  absl::Duration grace;
  std::string reason;
};

enum class StopAction { kWait, kAskToSave, kTerminate, kKill };
struct StopStep {
  StopAction action = StopAction::kWait;
  absl::Duration next_in;  // look again then; infinite after kKill
};

// After a SAVE's grace the rank gets this long between SIGTERM and SIGKILL.
inline constexpr absl::Duration kTermGraceAfterSave = absl::Seconds(2);

// The step that is due `elapsed` after the request, given the last one taken. Each is given once:
// SAVE asks over the link, then SIGTERM after the grace, then SIGKILL; TERM starts with SIGTERM;
// KILL is SIGKILL at once.
StopStep NextStopStep(const StopRequest& request, absl::Duration elapsed, StopAction last_taken);

// True when `next` should replace `current`: a harsher mode, or the same one that ends sooner.
bool IsHarsher(const StopRequest& next, const StopRequest& current);

// ---- what an end means ----

struct ExitFacts {
  absl::Status start_error;  // not OK: it never ran
  int exit_code = 0;
  int signal = 0;                    // 0: it exited by itself
  std::optional<ResultLine> result;  // its last word
  std::optional<StopRequest> stop;   // it was asked to leave
  bool result_before_stop = false;   // it had spoken its last word before it was asked
  std::string broken_link;           // not empty: the agent ended it for what it said on the link
  bool is_command = false;           // any program: its exit code is its word
  std::string over_memory;           // not empty: the agent ended it for using too much
};

// Fills succeeded, stopped, failure_class, missing, message, exit_code, signal and results of an
// EXITED event.
void ClassifyExit(const ExitFacts& facts, v1::RankEvent& event);

// True once lines show that the rank finished a step or an evaluation; then for ever.
class FirstStep {
 public:
  bool Seen(const RankLine& line);

 private:
  std::optional<int64_t> first_train_step_;
  bool seen_ = false;
};

}  // namespace muster::worker
