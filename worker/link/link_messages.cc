#include "worker/link/link_messages.h"

#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/link/link_json.h"

namespace muster::worker {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<StoreLine::Op, const char*>, 7> kOps = {{
    {StoreLine::Op::kSet, "set"},
    {StoreLine::Op::kGet, "get"},
    {StoreLine::Op::kAdd, "add"},
    {StoreLine::Op::kCheck, "check"},
    {StoreLine::Op::kDelete, "delete"},
    {StoreLine::Op::kWait, "wait"},
    {StoreLine::Op::kCount, "count"},
}};

constexpr std::array<std::pair<CheckpointLine::Kind, const char*>, 7> kKinds = {{
    {CheckpointLine::Kind::kBegin, "begin"},
    {CheckpointLine::Kind::kReady, "ready"},
    {CheckpointLine::Kind::kCommit, "commit"},
    {CheckpointLine::Kind::kFailed, "failed"},
    {CheckpointLine::Kind::kCorrupt, "corrupt"},
    {CheckpointLine::Kind::kUnread, "unread"},
    {CheckpointLine::Kind::kOffer, "offer"},
}};

template <typename Table, typename Enum>
const char* NameOf(const Table& table, Enum wanted) {
  for (const auto& [value, name] : table) {
    if (value == wanted) return name;
  }
  MUSTER_CHECK(false, "an enum of link_messages.h has a value without a name");
}

template <typename Table, typename Enum>
void ReadEnum(JsonReader& reader, const char* key, const Table& table, Enum* out) {
  std::string text;
  reader.Required(key, &text);
  if (!reader.status().ok()) return;
  for (const auto& [value, name] : table) {
    if (text == name) {
      *out = value;
      return;
    }
  }
  reader.Fail(key, absl::StrCat("has the unknown value '", text, "'"));
}

json ToJson(const HelloLine& line) {
  return {{"type", "hello"},
          {"protocol_version", line.protocol_version},
          {"rank", line.rank},
          {"version", line.version}};
}

json ToJson(const StoreLine& line) {
  return {{"type", "store"},
          {"id", line.id},
          {"op", NameOf(kOps, line.op)},
          {"keys", line.keys},
          {"value", absl::Base64Escape(line.value)},
          {"timeout_ms", line.timeout_ms}};
}

json ToJson(const MetricsLine& line) {
  return {{"type", "metrics"}, {"seq", line.seq},         {"lost", line.lost},
          {"step", line.step}, {"time_ms", line.time_ms}, {"values", DoublesToJson(line.values)}};
}

json ToJson(const ProgressLine& line) {
  return {{"type", "progress"},
          {"phase", line.phase},
          {"step", line.step},
          {"total_steps", line.total_steps},
          {"epoch", DoubleToJson(line.epoch)},
          {"beats", line.beats}};
}

json ToJson(const MemoryLine& line) { return {{"type", "memory"}, {"need", line.need}}; }

json ToJson(const CheckpointLine& line) {
  return {{"type", "checkpoint"},
          {"kind", NameOf(kKinds, line.kind)},
          {"step", line.step},
          {"epoch", DoubleToJson(line.epoch)},
          {"path", line.path},
          {"manifest_sha256", line.manifest_sha256},
          {"bytes", line.bytes},
          {"best", line.best},
          {"metrics", DoublesToJson(line.metrics)},
          {"message", line.message}};
}

json ToJson(const ResultLine& line) {
  return {{"type", "result"},        {"succeeded", line.succeeded},
          {"stopped", line.stopped}, {"failure_class", line.failure_class},
          {"message", line.message}, {"results", DoublesToJson(line.results)}};
}

json ToJson(const StoreReplyLine& line) {
  return {{"type", "store_reply"}, {"id", line.id},
          {"found", line.found},   {"value", absl::Base64Escape(line.value)},
          {"error", line.error},   {"timed_out", line.timed_out}};
}

json ToJson(const AckLine& line) {
  return {{"type", "ack"}, {"seq", line.seq}, {"again", line.again}};
}

json ToJson(const PublishLine& line) { return {{"type", "publish"}, {"step", line.step}}; }

json ToJson(const CommittedLine& line) {
  return {{"type", "committed"}, {"step", line.step}, {"error", line.error}};
}

json ToJson(const StopLine& line) {
  return {{"type", "stop"}, {"save", line.save}, {"reason", line.reason}};
}

json ToJson(const ErrorLine& line) { return {{"type", "error"}, {"message", line.message}}; }

template <typename Variant>
std::string EncodeVariant(const Variant& line) {
  return std::visit([](const auto& message) { return Dump(ToJson(message)) + "\n"; }, line);
}

void FromJson(JsonReader& reader, HelloLine& line) {
  reader.Required("protocol_version", &line.protocol_version);
  reader.Required("rank", &line.rank);
  reader.Optional("version", &line.version);
}

void FromJson(JsonReader& reader, StoreLine& line) {
  reader.Required("id", &line.id);
  ReadEnum(reader, "op", kOps, &line.op);
  reader.Optional("keys", &line.keys);
  reader.OptionalBytes("value", &line.value);
  reader.Optional("timeout_ms", &line.timeout_ms);
}

void FromJson(JsonReader& reader, MetricsLine& line) {
  reader.Optional("seq", &line.seq);
  reader.Optional("lost", &line.lost);
  reader.Required("step", &line.step);
  reader.Optional("time_ms", &line.time_ms);
  reader.Required("values", &line.values);
}

void FromJson(JsonReader& reader, ProgressLine& line) {
  reader.Required("phase", &line.phase);
  reader.Optional("step", &line.step);
  reader.Optional("total_steps", &line.total_steps);
  reader.Optional("epoch", &line.epoch);
  reader.Optional("beats", &line.beats);
}

void FromJson(JsonReader& reader, MemoryLine& line) { reader.Required("need", &line.need); }

void FromJson(JsonReader& reader, CheckpointLine& line) {
  ReadEnum(reader, "kind", kKinds, &line.kind);
  reader.Required("step", &line.step);
  reader.Optional("epoch", &line.epoch);
  reader.Optional("path", &line.path);
  reader.Optional("manifest_sha256", &line.manifest_sha256);
  reader.Optional("bytes", &line.bytes);
  reader.Optional("best", &line.best);
  reader.Optional("metrics", &line.metrics);
  reader.Optional("message", &line.message);
}

void FromJson(JsonReader& reader, ResultLine& line) {
  reader.Required("succeeded", &line.succeeded);
  reader.Optional("stopped", &line.stopped);
  reader.Optional("failure_class", &line.failure_class);
  reader.Optional("message", &line.message);
  reader.Optional("results", &line.results);
}

void FromJson(JsonReader& reader, StoreReplyLine& line) {
  reader.Required("id", &line.id);
  reader.Optional("found", &line.found);
  reader.OptionalBytes("value", &line.value);
  reader.Optional("error", &line.error);
  reader.Optional("timed_out", &line.timed_out);
}

void FromJson(JsonReader& reader, AckLine& line) {
  reader.Required("seq", &line.seq);
  reader.Optional("again", &line.again);
}

void FromJson(JsonReader& reader, PublishLine& line) { reader.Required("step", &line.step); }

void FromJson(JsonReader& reader, CommittedLine& line) {
  reader.Required("step", &line.step);
  reader.Optional("error", &line.error);
}

void FromJson(JsonReader& reader, StopLine& line) {
  reader.Optional("save", &line.save);
  reader.Optional("reason", &line.reason);
}

void FromJson(JsonReader& reader, ErrorLine& line) { reader.Required("message", &line.message); }

// The object and its type, both checked.
struct Typed {
  json object;
  std::string type;
};

absl::StatusOr<Typed> ParseTyped(absl::string_view line) {
  if (line.size() > kMaxLineBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("line of ", line.size(), " bytes: at most ", kMaxLineBytes));
  }
  MUSTER_ASSIGN_OR_RETURN(json object, ParseObject(absl::StripSuffix(line, "\n")));
  Typed typed;
  JsonReader reader(object, "line");
  reader.Required("type", &typed.type);
  MUSTER_RETURN_IF_ERROR(reader.status());
  typed.object = std::move(object);
  return typed;
}

template <typename Message, typename Variant>
absl::StatusOr<Variant> DecodeAs(const Typed& typed) {
  Message message;
  JsonReader reader(typed.object, absl::StrCat(typed.type, " line"));
  FromJson(reader, message);
  MUSTER_RETURN_IF_ERROR(reader.status());
  return Variant(std::move(message));
}

absl::Status UnknownType(const std::string& type) {
  return absl::NotFoundError(absl::StrCat("unknown line type '", type, "'"));
}

}  // namespace

std::string Encode(const RankLine& line) { return EncodeVariant(line); }
std::string Encode(const AgentLine& line) { return EncodeVariant(line); }

absl::StatusOr<RankLine> DecodeRankLine(absl::string_view line) {
  MUSTER_ASSIGN_OR_RETURN(const Typed typed, ParseTyped(line));
  if (typed.type == "hello") return DecodeAs<HelloLine, RankLine>(typed);
  if (typed.type == "store") return DecodeAs<StoreLine, RankLine>(typed);
  if (typed.type == "metrics") return DecodeAs<MetricsLine, RankLine>(typed);
  if (typed.type == "progress") return DecodeAs<ProgressLine, RankLine>(typed);
  if (typed.type == "checkpoint") return DecodeAs<CheckpointLine, RankLine>(typed);
  if (typed.type == "memory") return DecodeAs<MemoryLine, RankLine>(typed);
  if (typed.type == "result") return DecodeAs<ResultLine, RankLine>(typed);
  return UnknownType(typed.type);
}

absl::StatusOr<AgentLine> DecodeAgentLine(absl::string_view line) {
  MUSTER_ASSIGN_OR_RETURN(const Typed typed, ParseTyped(line));
  if (typed.type == "store_reply") return DecodeAs<StoreReplyLine, AgentLine>(typed);
  if (typed.type == "ack") return DecodeAs<AckLine, AgentLine>(typed);
  if (typed.type == "publish") return DecodeAs<PublishLine, AgentLine>(typed);
  if (typed.type == "committed") return DecodeAs<CommittedLine, AgentLine>(typed);
  if (typed.type == "stop") return DecodeAs<StopLine, AgentLine>(typed);
  if (typed.type == "error") return DecodeAs<ErrorLine, AgentLine>(typed);
  return UnknownType(typed.type);
}

}  // namespace muster::worker
