#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"
#include "common/spec/packed_spec.h"
#include "controller/api/convert.h"

namespace muster::controller {
namespace {

// Bounds of what an agent may say. A well-behaved one stays far below; more is INVALID_ARGUMENT.
constexpr size_t kIncarnationBytes = 16;
constexpr size_t kMaxNameBytes = 63;
constexpr size_t kMaxTextBytes = 256;      // versions, addresses, devices, labels
constexpr size_t kMaxMessageBytes = 4096;  // longer ones are cut: they are for people
constexpr size_t kMaxPathBytes = 4096;
constexpr int kMaxSlots = 1024;
constexpr int kMaxLabels = 64;
constexpr int kMaxRanks = 1024;
constexpr int kMaxRuntimes = 8;
constexpr size_t kMaxValues = 64;
constexpr int kMaxGaps = 4096;  // in a batch: a spool that was full loses from each rank once
constexpr size_t kMaxPointsPerRecord = 1024;
constexpr size_t kMaxLogBytes = 4 << 20;

absl::Status Bad(absl::string_view what) { return absl::InvalidArgumentError(what); }

bool IsName(absl::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool alnum = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    const bool inside = i > 0 && i + 1 < name.size();
    if (!alnum && !(inside && c == '-')) return false;
  }
  return true;
}

// Host names have upper case and dots; a worker's name may too.
bool IsWorkerName(absl::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  for (const char c : name) {
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
          c == '.' || c == '_')) {
      return false;
    }
  }
  return true;
}

bool IsShort(absl::string_view text) {
  if (text.size() > kMaxTextBytes) return false;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  return true;
}

std::string Cut(absl::string_view text) { return CutUtf8(text, kMaxMessageBytes); }

// Metrics that people see. Too many, or with a strange name, are left out.
std::map<std::string, double> ValuesOf(const google::protobuf::Map<std::string, double>& values) {
  std::map<std::string, double> out;
  for (const auto& [name, value] : values) {
    if (out.size() < kMaxValues && IsShort(name)) out.emplace(name, value);
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
  } else if (const auto* remove = std::get_if<DeleteAssignment>(&assignment.body)) {
    v1::DeleteCheckpoint* out = message.mutable_delete_checkpoint();
    out->set_outbox_seq(assignment.seq);
    out->set_checkpoint_id(remove->checkpoint_id);
    out->set_path(remove->path);
  }
  return message;
}

absl::StatusOr<WorkerHello> FromProto(const v1::Hello& hello) {
  if (!IsWorkerName(hello.worker_name())) {
    return Bad(absl::StrCat("hello: worker name: 1 to ", kMaxNameBytes,
                            " letters, digits, dots, dashes or underscores"));
  }
  if (hello.incarnation().size() != kIncarnationBytes)
    return Bad("hello: incarnation: must be 16 bytes");
  if (!IsName(hello.pool())) return Bad("hello: pool: not a valid name");
  if (hello.labels_size() > kMaxLabels) {
    return Bad(absl::StrCat("hello: more than ", kMaxLabels, " labels"));
  }
  WorkerHello out;
  out.worker = hello.worker_name();
  out.incarnation = hello.incarnation();
  for (const auto& [key, value] : hello.labels()) {
    if (key.empty() || !IsShort(key) || !IsShort(value))
      return Bad("hello: a label is empty or too long");
    out.facts.labels.emplace(key, value);
  }
  for (const std::string* text :
       {&hello.version(), &hello.advertise_address(), &hello.metrics_address()}) {
    if (!IsShort(*text)) return Bad("hello: a version or an address is too long");
  }
  MUSTER_RETURN_IF_ERROR(ReadSlots(hello, out.facts.slots));
  out.facts.version = hello.version();
  out.facts.pool = hello.pool();
  out.facts.cpus = hello.cpus();
  out.facts.memory_bytes = hello.memory_bytes();
  out.facts.advertise_address = hello.advertise_address();
  out.facts.metrics_address = hello.metrics_address();
  out.facts.allows_commands = hello.allows_commands();
  if (hello.container_runtimes_size() > kMaxRuntimes) return Bad("hello: too many runtimes");
  for (const std::string& runtime : hello.container_runtimes()) {
    // They stand in one text of the store, with commas between.
    if (!IsShort(runtime) || absl::StrContains(runtime, ','))
      return Bad("hello: a container runtime is no name");
    out.facts.container_runtimes.push_back(runtime);
  }
  out.last_term = hello.last_term();
  out.last_assignment_seq = hello.last_assignment_seq();
  MUSTER_ASSIGN_OR_RETURN(out.ranks, FromProto(hello.ranks()));
  return out;
}

absl::StatusOr<std::vector<RankStatus>> FromProto(
    const google::protobuf::RepeatedPtrField<v1::RankStatus>& ranks) {
  if (ranks.size() > kMaxRanks)
    return Bad(absl::StrCat("more than ", kMaxRanks, " ranks on one worker"));
  std::vector<RankStatus> out;
  for (const v1::RankStatus& rank : ranks) {
    if (!IsShort(rank.phase())) return Bad("a rank's phase is too long");
    RankStatus status;
    status.fence = FromProto(rank.fence());
    status.rank = rank.rank();
    status.pid = rank.pid();
    status.step = rank.step();
    status.total_steps = rank.total_steps();
    status.epoch = rank.epoch();
    status.phase = rank.phase();
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

absl::StatusOr<RankReport> FromProto(const v1::RankEvent& event, const ReportSource& source) {
  if (event.kind() < v1::RankEvent::STARTED || event.kind() > v1::RankEvent::EXITED) {
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
  if (event.kind() < v1::CheckpointEvent::BEGIN || event.kind() > v1::CheckpointEvent::CORRUPT) {
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
  return {source.worker,          source.incarnation, source.event_seq,     result.outbox_seq(),
          result.checkpoint_id(), result.ok(),        Cut(result.message())};
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
                        record.text()});
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
