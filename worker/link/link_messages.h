// What an agent and one rank say to each other: JSON Lines over one Unix stream socket.
//
// A command's processes speak the same, each over a connection of its own to the socket named in
// MUSTER_SOCKET: metrics, progress, result, and checkpoint lines of kind `offer`. They say no hello
// and number nothing.
//
// The trainer inherits the socket as the file descriptor named in MUSTER_LINK_FD, and finds its
// Launch in the file named by its --launch flag. Both sides drop keys and message types that they
// do not know; a line is at most kMaxLineBytes. The codec is pure; it knows no socket. Bytes travel
// as base64. Used by worker/agent and worker/trainer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster::worker {

inline constexpr size_t kMaxLineBytes = 4u << 20;
inline constexpr const char* kLinkFdVariable = "MUSTER_LINK_FD";

// ---- rank -> agent ----

// First line of a rank.
struct HelloLine {
  uint32_t protocol_version = 0;
  uint32_t rank = 0;
  std::string version;
};

// One operation on the gang's rendezvous store; see StoreRequest in worker_service.proto.
struct StoreLine {
  enum class Op { kSet, kGet, kAdd, kCheck, kDelete, kWait, kCount };
  uint64_t id = 0;  // unique within the rank; answered by StoreReplyLine
  Op op = Op::kSet;
  std::vector<std::string> keys;
  std::string value;
  int64_t timeout_ms = 0;
};

// Numbers of one step. Acknowledged by AckLine once they are in the agent's spool; until then the
// rank keeps them, and sends them again when it is asked to. An agent takes them in their order:
// one whose predecessor it has not taken must come again.
struct MetricsLine {
  uint64_t seq = 0;  // 1, 2, ...; a command leaves it out and its agent counts
  // Of so many lines right before this one, those that the agent has not taken will never come: the
  // rank had no room to keep them.
  uint64_t lost = 0;
  int64_t step = 0;
  int64_t time_ms = 0;
  std::map<std::string, double> values;
};

// Where the rank is, for people, and the sign of life that the hang watchdog looks at. Not
// acknowledged.
struct ProgressLine {
  // start, rendezvous, load, train, waiting for data, evaluate, save, done
  std::string phase;
  int64_t step = 0;
  int64_t total_steps = 0;
  double epoch = 0;
  uint64_t beats = 0;  // signs of life since the rank began, where all else stands still
};

// How much memory the rank will need and what to change, in words: for the message if its limit
// ends it. Not acknowledged.
struct MemoryLine {
  std::string need;
};

// A checkpoint's way out, from rank 0:
//   begin   -> (nothing)
//   ready   -> PublishLine, as soon as the agent's lease allows; only then may the rank rename the
//   folder commit  -> CommittedLine, once the controller has made the row durable
//   failed, corrupt, unread -> (nothing)
// From a command:
//   offer   -> CommittedLine, once its agent has copied `path` into a checkpoint and the
//   controller's row is durable
struct CheckpointLine {
  enum class Kind { kBegin, kReady, kCommit, kFailed, kCorrupt, kUnread, kOffer };
  Kind kind = Kind::kBegin;
  int64_t step = 0;
  double epoch = 0;
  std::string path;  // commit, corrupt, unread: of the published folder; offer: a file, or a folder
                     // of files
  std::string manifest_sha256;  // commit: hex
  uint64_t bytes = 0;
  bool best = false;
  std::map<std::string, double> metrics;
  std::string message;
};

// The rank's last word before it exits.
struct ResultLine {
  bool succeeded = false;
  bool stopped = false;       // it left because it was asked to
  std::string failure_class;  // name of muster.v1.FailureClass; empty when it did not fail
  std::string message;
  std::map<std::string, double> results;  // e.g. test_accuracy
};

using RankLine = std::variant<HelloLine, StoreLine, MetricsLine, ProgressLine, CheckpointLine,
                              ResultLine, MemoryLine>;

// ---- agent -> rank ----

struct StoreReplyLine {
  uint64_t id = 0;
  bool found = false;
  std::string value;
  std::string error;  // not empty: failed
  bool timed_out = false;
};

struct AckLine {
  uint64_t seq = 0;    // every MetricsLine up to this one is in the spool
  bool again = false;  // those after it are not: send them again, after a pause
};

// The lease holds: rename now.
struct PublishLine {
  int64_t step = 0;
};

struct CommittedLine {
  int64_t step = 0;
  std::string error;  // not empty: refused (fenced); the rank should expect to be stopped
};

// Please stop: finish the step, save if asked to, and leave.
struct StopLine {
  bool save = false;
  std::string reason;
};

// To a command: its last line was no good and was skipped.
struct ErrorLine {
  std::string message;
};

using AgentLine =
    std::variant<StoreReplyLine, AckLine, PublishLine, CommittedLine, StopLine, ErrorLine>;

// One line, newline included.
std::string Encode(const RankLine& line);
std::string Encode(const AgentLine& line);

// INVALID_ARGUMENT (what is wrong, and where) for anything malformed; NOT_FOUND for an unknown
// type, which the caller skips. `line` may or may not end in a newline.
absl::StatusOr<RankLine> DecodeRankLine(absl::string_view line);
absl::StatusOr<AgentLine> DecodeAgentLine(absl::string_view line);

}  // namespace muster::worker
