#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/base/version.h"
#include "common/protocol/name_rule.h"
#include "common/protocol/value_name.h"
#include "common/spec/packed_spec.h"
#include "controller/api/convert/convert.h"

namespace muster::controller {
namespace {

// Bounds of what an agent may say. A well-behaved one stays far below; more is INVALID_ARGUMENT.
constexpr size_t kIncarnationBytes = 16;
constexpr size_t kIdentityBytes = 16;
constexpr size_t kMaxTextBytes = 256;      // versions, addresses, devices, labels
constexpr size_t kMaxMessageBytes = 4096;  // longer ones are cut: they are for people
constexpr size_t kMaxPathBytes = 4096;
constexpr size_t kMaxRootMessageBytes = 512;  // of each of a worker's roots
constexpr size_t kMaxDataErrorBytes = 1024;
constexpr int kMaxSlots = 1024;
constexpr int kMaxLabels = 64;
constexpr int kMaxRanks = 1024;
constexpr int kMaxRuntimes = 8;
constexpr int kMaxPredecessors = 16;
constexpr size_t kMaxValues = 64;
constexpr int kMaxGaps = 4096;  // in a batch: a spool that was full loses from each rank once
constexpr size_t kMaxPointsPerRecord = 1024;
constexpr size_t kMaxLogBytes = 4 << 20;

absl::Status Bad(absl::string_view what) { return absl::InvalidArgumentError(what); }

bool IsShort(absl::string_view text) {
  if (text.size() > kMaxTextBytes) return false;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  return true;
}

// What one job says must not end its worker's stream, so that nothing of it is refused.
std::string PhaseOf(const v1::RankStatus& rank) {
  std::string phase = CutUtf8(rank.phase(), kMaxTextBytes);
  for (char& c : phase) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = '?';
  }
  return phase;
}

// A name, an IPv4 address, or an IPv6 address without brackets.
bool IsHost(absl::string_view text) {
  const auto is = [](absl::string_view part, const char* marks) {
    return !part.empty() && std::all_of(part.begin(), part.end(), [marks](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
             absl::string_view(marks).find(c) != absl::string_view::npos;
    });
  };
  return text.size() <= kMaxTextBytes && (is(text, ".-_") || is(text, ":.%"));
}

// HOST:PORT, where Prometheus will look for it, behind "https://" where the agent speaks TLS there.
// An agent that listens on all addresses is found at the one that it advertises. Empty: it has
// none.
absl::StatusOr<std::string> MetricsAddressOf(const v1::Hello& hello) {
  const absl::string_view text = hello.metrics_address();
  if (text.empty()) return "";
  const size_t colon = text.rfind(':');
  absl::string_view host = text.substr(0, colon == absl::string_view::npos ? 0 : colon);
  const bool brackets = absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  int port = 0;
  const bool good = IsHost(host) && brackets == absl::StrContains(host, ':') &&
                    absl::SimpleAtoi(text.substr(colon + 1), &port) && port > 0 && port <= 65535;
  if (!good) return Bad("hello: metrics_address: not HOST:PORT with a port of 1 to 65535");
  if ((host == "0.0.0.0" || host == "::") && !hello.advertise_address().empty()) {
    host = hello.advertise_address();
  }
  const std::string address = absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port)
                                                           : absl::StrCat(host, ":", port);
  return hello.metrics_by_tls() ? absl::StrCat("https://", address) : address;
}

std::string Cut(absl::string_view text) { return CutUtf8(text, kMaxMessageBytes); }

// Metrics that people see. Too many, or with a strange name, are left out.
std::map<std::string, double> ValuesOf(const google::protobuf::Map<std::string, double>& values) {
  std::map<std::string, double> out;
  for (const auto& [name, value] : values) {
    if (out.size() < kMaxValues && IsValueName(name)) out.emplace(name, value);
  }
  return out;
}

absl::Status ReadSlots(const v1::Hello& hello, std::vector<Slot>& out) {
  if (hello.slots_size() > kMaxSlots) {
    return Bad(absl::StrCat("hello: more than ", kMaxSlots, " slots"));
  }
  std::set<uint32_t> seen;
  for (const v1::Slot& slot : hello.slots()) {
    if (slot.kind() != v1::CPU && slot.kind() != v1::GPU)
      return Bad("hello: a slot of no known kind");
    if (!seen.insert(slot.index()).second) {
      return Bad(absl::StrCat("hello: slot ", slot.index(), " is there twice"));
    }
    if (!IsShort(slot.device()) || !IsShort(slot.uuid()))
      return Bad("hello: a slot's text is too long");
    out.push_back({slot.index(), static_cast<SlotKind>(slot.kind()), slot.device(), slot.uuid(),
                   slot.memory_bytes()});
  }
  return absl::OkStatus();
}

}  // namespace

Fence FromProto(const v1::Fence& fence) {
  return {fence.job_id(), fence.attempt(), fence.generation(), fence.term()};
}

v1::Fence ToProto(const Fence& fence) {
  v1::Fence out;
  out.set_job_id(fence.job_id);
  out.set_attempt(fence.attempt);
  out.set_generation(fence.generation);
  out.set_term(fence.term);
  return out;
}

v1::ControllerMessage ToProto(const Assignment& assignment) {
  v1::ControllerMessage message;
  if (const auto* start = std::get_if<StartAssignment>(&assignment.body)) {
    v1::StartRanks* out = message.mutable_start_ranks();
    out->set_outbox_seq(assignment.seq);
    *out->mutable_fence() = ToProto(start->fence);
    out->set_job_name(start->job_name);
    out->set_world_size(start->world_size);
    for (const StartAssignment::Rank& rank : start->ranks) {
      v1::StartRanks::Rank* row = out->add_ranks();
      row->set_rank(rank.rank);
      row->set_local_rank(rank.local_rank);
      for (uint32_t slot : rank.slots) row->add_slots(slot);
    }
    out->set_spec_json(PackedSpecToJson(start->spec));
    out->set_checkpoint_root(start->checkpoint_root);
    out->set_root(start->root);
    out->set_root_identity(start->root_identity);
    out->set_group_rank(start->group_rank);
    out->set_group_world_size(start->group_world_size);
    out->set_array_id(start->array_id);
    out->set_array_index(start->array_index);
    for (const StartAssignment::Resume& resume : start->resume) {
      v1::StartRanks::Resume* row = out->add_resume();
      row->set_path(resume.path);
      row->set_step(resume.step);
      row->set_manifest_sha256(resume.manifest_sha256);
      row->set_best(resume.best);
      row->set_job_id(resume.job_id);
      row->set_job_name(resume.job_name);
    }
  } else if (const auto* stop = std::get_if<StopAssignment>(&assignment.body)) {
    v1::StopRanks* out = message.mutable_stop_ranks();
    out->set_outbox_seq(assignment.seq);
    *out->mutable_fence() = ToProto(stop->fence);
    out->set_mode(static_cast<v1::StopRanks::Mode>(stop->mode));
    out->set_grace_ms(absl::ToInt64Milliseconds(stop->grace));
    out->set_reason(stop->reason);
  } else if (const auto* verify = std::get_if<VerifyAssignment>(&assignment.body)) {
    v1::VerifyCheckpoint* out = message.mutable_verify_checkpoint();
    out->set_outbox_seq(assignment.seq);
    out->set_checkpoint_id(verify->checkpoint_id);
    out->set_path(verify->path);
    out->set_manifest_sha256(verify->manifest_sha256);
    out->set_root(verify->root);
    out->set_root_identity(verify->root_identity);
  } else if (const auto* remove = std::get_if<DeleteAssignment>(&assignment.body)) {
    v1::DeleteCheckpoint* out = message.mutable_delete_checkpoint();
    out->set_outbox_seq(assignment.seq);
    out->set_checkpoint_id(remove->checkpoint_id);
    out->set_path(remove->path);
    out->set_root(remove->root);
    out->set_root_identity(remove->root_identity);
  } else if (const auto* watch = std::get_if<WatchAssignment>(&assignment.body)) {
    v1::WatchRoots* out = message.mutable_watch_roots();
    for (const RootToWatch& root : watch->roots) {
      v1::WatchRoots::Root* row = out->add_roots();
      row->set_path(root.path);
      row->set_identity(root.identity);
      row->set_claim(root.claim);
      for (const std::string& path : root.witnesses) row->add_witnesses(path);
    }
  } else if (const auto* check = std::get_if<CheckDataAssignment>(&assignment.body)) {
    v1::CheckData* out = message.mutable_check_data();
    out->set_key(check->key);
    out->set_number(check->number);
    out->set_spec_json(PackedSpecToJson(check->spec));
  } else if (const auto* exec = std::get_if<ExecAssignment>(&assignment.body)) {
    v1::StartExec* out = message.mutable_start_exec();
    out->set_session(exec->session);
    *out->mutable_fence() = ToProto(exec->fence);
    out->set_rank(exec->rank);
    for (const std::string& word : exec->argv) out->add_argv(word);
    if (exec->terminal.has_value()) {
      out->mutable_terminal()->set_rows(exec->terminal->rows);
      out->mutable_terminal()->set_columns(exec->terminal->columns);
      out->set_terminal_type(exec->terminal->type);
    }
  }
  return message;
}

absl::StatusOr<WorkerHello> FromProto(const v1::Hello& hello) {
  if (!IsName(hello.worker_name())) {
    return Bad(absl::StrCat("hello: worker name: 1 to ", kMostNameBytes,
                            " lower-case letters, digits and inner dashes"));
  }
  if (hello.incarnation().size() != kIncarnationBytes)
    return Bad("hello: incarnation: must be 16 bytes");
  if (!hello.identity().empty() && hello.identity().size() != kIdentityBytes) {
    return Bad("hello: identity: must be 16 bytes");
  }
  if (hello.last_controller().size() > kIdentityBytes) {
    return Bad("hello: last_controller: more than 16 bytes");
  }
  if (hello.predecessors_size() > kMaxPredecessors) return Bad("hello: too many predecessors");
  for (const std::string& predecessor : hello.predecessors()) {
    if (predecessor.size() != kIncarnationBytes) {
      return Bad("hello: predecessors: each must be 16 bytes");
    }
  }
  if (!IsName(hello.pool())) return Bad("hello: pool: not a valid name");
  if (hello.labels_size() > kMaxLabels) {
    return Bad(absl::StrCat("hello: more than ", kMaxLabels, " labels"));
  }
  WorkerHello out;
  out.worker = hello.worker_name();
  out.incarnation = hello.incarnation();
  out.identity = hello.identity();
  out.predecessors.assign(hello.predecessors().begin(), hello.predecessors().end());
  for (const auto& [key, value] : hello.labels()) {
    if (key.empty() || !IsShort(key) || !IsShort(value))
      return Bad("hello: a label is empty or too long");
    out.facts.labels.emplace(key, value);
  }
  for (const std::string* text :
       {&hello.version(), &hello.advertise_address(), &hello.metrics_address()}) {
    if (!IsShort(*text)) return Bad("hello: a version or an address is too long");
  }
  if (!hello.advertise_address().empty() && !IsHost(hello.advertise_address())) {
    return Bad("hello: advertise_address: not the name or address of a host");
  }
  MUSTER_ASSIGN_OR_RETURN(out.facts.metrics_address, MetricsAddressOf(hello));
  MUSTER_RETURN_IF_ERROR(ReadSlots(hello, out.facts.slots));
  out.facts.version = hello.version();
  out.facts.pool = hello.pool();
  out.facts.cpus = hello.cpus();
  out.facts.memory_bytes = hello.memory_bytes();
  out.facts.advertise_address = hello.advertise_address();
  out.facts.allows_commands = hello.allows_commands();
  if (hello.container_runtimes_size() > kMaxRuntimes) return Bad("hello: too many runtimes");
  for (const std::string& runtime : hello.container_runtimes()) {
    // They stand in one text of the store, with commas between.
    if (!IsShort(runtime) || absl::StrContains(runtime, ','))
      return Bad("hello: a container runtime is no name");
    out.facts.container_runtimes.push_back(runtime);
  }
  out.last_controller = hello.last_controller();
  out.last_term = hello.last_term();
  if (hello.has_acknowledged_event_seq()) {
    out.acknowledged_event_seq = hello.acknowledged_event_seq();
  }
  out.last_assignment_seq = hello.last_assignment_seq();
  if (hello.last_started_ns() != 0) out.last_started = absl::FromUnixNanos(hello.last_started_ns());
  out.takes_no_work = hello.takes_no_work();
  out.checks_data = hello.checks_data();
  MUSTER_ASSIGN_OR_RETURN(out.ranks, FromProto(hello.ranks()));
  return out;
}

v1::Welcome WelcomeOf(const Snapshot& snapshot, const std::vector<StaleRank>& stale,
                      absl::Duration heartbeat_interval, absl::Duration lease) {
  v1::Welcome welcome;
  welcome.set_term(snapshot.term);
  welcome.set_controller_id(snapshot.controller_id);
  welcome.set_started_ns(absl::ToUnixNanos(snapshot.started));
  welcome.set_heartbeat_interval_ms(absl::ToInt64Milliseconds(heartbeat_interval));
  welcome.set_lease_ms(absl::ToInt64Milliseconds(lease));
  welcome.set_controller_version(Version());
  for (const StaleRank& rank : stale) {
    v1::Welcome::StaleRank* row = welcome.add_stale();
    row->set_job_id(rank.job_id);
    row->set_attempt(rank.attempt);
    row->set_rank(rank.rank);
  }
  return welcome;
}

absl::StatusOr<std::vector<RankStatus>> FromProto(
    const google::protobuf::RepeatedPtrField<v1::RankStatus>& ranks) {
  if (ranks.size() > kMaxRanks)
    return Bad(absl::StrCat("more than ", kMaxRanks, " ranks on one worker"));
  std::vector<RankStatus> out;
  for (const v1::RankStatus& rank : ranks) {
    RankStatus status;
    status.fence = FromProto(rank.fence());
    status.rank = rank.rank();
    status.pid = rank.pid();
    status.step = rank.step();
    status.total_steps = rank.total_steps();
    status.epoch = rank.epoch();
    status.phase = PhaseOf(rank);
    status.latest = ValuesOf(rank.latest());
    out.push_back(std::move(status));
  }
  return out;
}

absl::StatusOr<std::shared_ptr<const WorkerUse>> UseOf(const v1::Heartbeat& heartbeat) {
  if (!heartbeat.has_use()) return std::shared_ptr<const WorkerUse>();
  const v1::WorkerUse& use = heartbeat.use();
  if (use.gpus_size() > kMaxSlots) return Bad("heartbeat: more GPUs than a worker may have slots");
  auto out = std::make_shared<WorkerUse>();
  out->cpus = use.cpus();
  out->memory_bytes = use.memory_bytes();
  for (const v1::WorkerUse::Gpu& gpu : use.gpus()) {
    out->gpus.push_back({gpu.slot(), gpu.utilization(), gpu.memory_bytes()});
  }
  return std::shared_ptr<const WorkerUse>(std::move(out));
}

absl::StatusOr<std::shared_ptr<const RootViews>> RootsOf(const v1::Heartbeat& heartbeat) {
  if (!heartbeat.has_roots()) return std::shared_ptr<const RootViews>();
  const v1::RootReport& said = heartbeat.roots();
  if (static_cast<size_t>(said.roots_size()) > kMaxRootsInUse) {
    return Bad(absl::StrCat("heartbeat: more than ", kMaxRootsInUse, " checkpoint roots"));
  }
  auto out = std::make_shared<RootViews>();
  for (const v1::RootReport::Root& root : said.roots()) {
    if (root.path().size() > kMaxPathBytes) return Bad("heartbeat: the path of a root is too long");
    if (root.identity().size() > kMostNameBytes + 1 || !IsShort(root.identity())) {
      return Bad("heartbeat: what identifies a root is too long");
    }
    (*out)[root.path()] = {.identity = root.identity(),
                           .message = CutUtf8(root.message(), kMaxRootMessageBytes)};
  }
  return std::shared_ptr<const RootViews>(std::move(out));
}

absl::StatusOr<std::vector<DataVerdict>> DataVerdictsOf(const v1::Heartbeat& heartbeat) {
  const v1::DataReport& said = heartbeat.data();
  if (static_cast<size_t>(said.verdicts_size()) > kMaxDataViews) {
    return Bad(absl::StrCat("heartbeat: more than ", kMaxDataViews, " verdicts of data"));
  }
  std::vector<DataVerdict> out;
  for (const v1::DataReport::Verdict& verdict : said.verdicts()) {
    out.push_back({.key = CutUtf8(verdict.key(), kMaxTextBytes),
                   .number = verdict.number(),
                   .fault = CutUtf8(verdict.fault(), kMaxTextBytes),
                   .error = CutUtf8(verdict.error(), kMaxDataErrorBytes),
                   .fingerprint = CutUtf8(verdict.fingerprint(), kMaxDataErrorBytes)});
  }
  return out;
}

absl::StatusOr<RankReport> FromProto(const v1::RankEvent& event, const ReportSource& source) {
  if (event.kind() < v1::RankEvent::STARTED || event.kind() > v1::RankEvent::UNKILLABLE) {
    return Bad("rank event: of no known kind");
  }
  RankReport out;
  out.worker = source.worker;
  out.incarnation = source.incarnation;
  out.event_seq = source.event_seq;
  out.fence = FromProto(event.fence());
  out.rank = event.rank();
  out.kind = static_cast<RankReport::Kind>(event.kind());
  out.pid = event.pid();
  out.exit_code = event.exit_code();
  out.signal = event.signal();
  out.succeeded = event.succeeded();
  out.stopped = event.stopped();
  // A class that only a newer agent knows is still a failure of the job's own.
  out.failure_class = v1::FailureClass_IsValid(event.failure_class())
                          ? static_cast<FailureClass>(event.failure_class())
                          : FailureClass::kApplication;
  // Where only a newer agent knows of: as if it had not said.
  out.missing = v1::RankEvent::Missing_IsValid(event.missing())
                    ? static_cast<Missing>(event.missing())
                    : Missing::kNothing;
  out.message = Cut(event.message());
  out.last_step = event.last_step();
  out.results = ValuesOf(event.results());
  if (event.has_stdout_bytes() && event.has_stderr_bytes()) {
    out.log_bytes = {event.stdout_bytes(), event.stderr_bytes()};
  }
  return out;
}

absl::StatusOr<CheckpointReport> FromProto(const v1::CheckpointEvent& event,
                                           const ReportSource& source) {
  if (event.kind() < v1::CheckpointEvent::BEGIN || event.kind() > v1::CheckpointEvent::UNREAD) {
    return Bad("checkpoint event: of no known kind");
  }
  if (event.path().size() > kMaxPathBytes) return Bad("checkpoint event: the path is too long");
  if (event.manifest_sha256().size() > kMaxTextBytes) return Bad("checkpoint event: not a SHA-256");
  CheckpointReport out;
  out.worker = source.worker;
  out.incarnation = source.incarnation;
  out.event_seq = source.event_seq;
  out.fence = FromProto(event.fence());
  out.kind = static_cast<CheckpointReport::Kind>(event.kind());
  out.step = event.step();
  out.path = event.path();
  out.manifest_sha256 = event.manifest_sha256();
  out.bytes = event.bytes();
  out.epoch = event.epoch();
  out.metrics = ValuesOf(event.metrics());
  out.best = event.best();
  out.message = Cut(event.message());
  return out;
}

VerifyReport FromProto(const v1::VerifyResult& result, const ReportSource& source) {
  return {source.worker,          source.incarnation, source.event_seq,      result.outbox_seq(),
          result.checkpoint_id(), result.ok(),        Cut(result.message()), result.missing()};
}

DeleteReport FromProto(const v1::DeleteResult& result, const ReportSource& source) {
  return {source.worker,          source.incarnation, source.event_seq,     result.outbox_seq(),
          result.checkpoint_id(), result.ok(),        Cut(result.message())};
}

absl::StatusOr<MetricsBatch> FromProto(const v1::BulkBatch& batch) {
  MetricsBatch out;
  for (const v1::MetricRecord& record : batch.metrics()) {
    if (record.seq() == 0) return Bad("metric record: seq starts at 1");
    if (static_cast<size_t>(record.points_size()) > kMaxPointsPerRecord) {
      return Bad(absl::StrCat("metric record: more than ", kMaxPointsPerRecord, " points"));
    }
    PointRecord row;
    row.key = {record.job_id(), record.attempt(), record.generation(), record.rank()};
    row.seq = record.seq();
    for (const v1::MetricPoint& point : record.points()) {
      row.points.push_back({point.name(), point.step(), point.time_ms(), point.value()});
    }
    out.points.push_back(std::move(row));
  }
  for (const v1::LogRecord& record : batch.logs()) {
    if (record.text().size() > kMaxLogBytes) {
      return Bad(absl::StrCat("log record: more than ", kMaxLogBytes, " bytes"));
    }
    out.logs.push_back({{record.job_id(), record.attempt(), record.generation(), record.rank()},
                        record.is_stderr(),
                        record.offset(),
                        record.text(),
                        std::max<int64_t>(record.written_ms(), 0)});
  }
  if (batch.gaps_size() > kMaxGaps) {
    return Bad(absl::StrCat("bulk batch: more than ", kMaxGaps, " gaps"));
  }
  for (const v1::GapRecord& record : batch.gaps()) {
    out.gaps.push_back({{record.job_id(), record.attempt(), record.generation(), record.rank()},
                        record.first_seq(),
                        record.last_seq(),
                        record.log_bytes()});
  }
  return out;
}

}  // namespace muster::controller
