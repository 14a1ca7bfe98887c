#include "worker/trainer/rank/link_adapters.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

// Of store operations that wait for nobody else.
constexpr absl::Duration kShortOperation = absl::Minutes(1);

StoreLine Operation(StoreLine::Op op, std::vector<std::string> keys, absl::Duration timeout) {
  StoreLine line;
  line.op = op;
  line.keys = std::move(keys);
  line.timeout_ms = absl::ToInt64Milliseconds(timeout);
  return line;
}

absl::StatusOr<int64_t> ToNumber(const std::string& text) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) {
    return absl::InvalidArgumentError(absl::StrCat("rendezvous store: not a number: ", text));
  }
  return value;
}

CheckpointLine ToLine(CheckpointLine::Kind kind, const CheckpointNews& news) {
  CheckpointLine line;
  line.kind = kind;
  line.step = news.step;
  line.epoch = news.epoch;
  line.path = news.path;
  line.manifest_sha256 = news.manifest_sha256;
  line.bytes = news.bytes;
  line.best = news.best;
  line.metrics = news.metrics;
  return line;
}

}  // namespace

absl::Status LinkKeyValue::Set(const std::string& key, const std::string& value) {
  StoreLine line = Operation(StoreLine::Op::kSet, {key}, kShortOperation);
  line.value = value;
  return link_.Request(std::move(line)).status();
}

absl::StatusOr<std::string> LinkKeyValue::Get(const std::string& key, absl::Duration timeout) {
  MUSTER_ASSIGN_OR_RETURN(StoreReplyLine reply,
                          link_.Request(Operation(StoreLine::Op::kGet, {key}, timeout)));
  return std::move(reply.value);
}

absl::StatusOr<int64_t> LinkKeyValue::Add(const std::string& key, int64_t delta) {
  StoreLine line = Operation(StoreLine::Op::kAdd, {key}, kShortOperation);
  line.value = absl::StrCat(delta);
  MUSTER_ASSIGN_OR_RETURN(const StoreReplyLine reply, link_.Request(std::move(line)));
  return ToNumber(reply.value);
}

absl::StatusOr<bool> LinkKeyValue::Check(const std::vector<std::string>& keys) {
  MUSTER_ASSIGN_OR_RETURN(const StoreReplyLine reply,
                          link_.Request(Operation(StoreLine::Op::kCheck, keys, kShortOperation)));
  return reply.found;
}

absl::StatusOr<bool> LinkKeyValue::Delete(const std::string& key) {
  MUSTER_ASSIGN_OR_RETURN(const StoreReplyLine reply,
                          link_.Request(Operation(StoreLine::Op::kDelete, {key}, kShortOperation)));
  return reply.found;
}

absl::Status LinkKeyValue::Wait(const std::vector<std::string>& keys, absl::Duration timeout) {
  return link_.Request(Operation(StoreLine::Op::kWait, keys, timeout)).status();
}

absl::StatusOr<int64_t> LinkKeyValue::Count() {
  MUSTER_ASSIGN_OR_RETURN(const StoreReplyLine reply,
                          link_.Request(Operation(StoreLine::Op::kCount, {}, kShortOperation)));
  return ToNumber(reply.value);
}

void LinkPublisher::Begin(int64_t step) {
  CheckpointLine line;
  line.kind = CheckpointLine::Kind::kBegin;
  line.step = step;
  (void)link_.Send(line);  // for people; a lost agent shows in AwaitPublish
}

absl::Status LinkPublisher::AwaitPublish(const CheckpointNews& news) {
  MUSTER_RETURN_IF_ERROR(link_.Send(ToLine(CheckpointLine::Kind::kReady, news)));
  return link_.AwaitPublish(news.step);
}

absl::Status LinkPublisher::AwaitCommitted(const CheckpointNews& news) {
  MUSTER_RETURN_IF_ERROR(link_.Send(ToLine(CheckpointLine::Kind::kCommit, news)));
  return link_.AwaitCommitted(news.step);
}

void LinkPublisher::Failed(int64_t step, const absl::Status& status) {
  CheckpointLine line;
  line.kind = CheckpointLine::Kind::kFailed;
  line.step = step;
  line.message = status.ToString();
  (void)link_.Send(line);
}

RequestedStop LinkHost::requested_stop() {
  const LinkClient::Stop stop = link_.stop();
  return {stop.wanted, stop.save};
}

void LinkHost::Progress(const std::string& phase, int64_t step, int64_t total_steps, double epoch) {
  progress_.phase = phase;
  progress_.step = step;
  progress_.total_steps = total_steps;
  progress_.epoch = epoch;
  (void)link_.Send(progress_);
}

void LinkHost::KeepAlive() {
  ++progress_.beats;
  (void)link_.Send(progress_);
}

void LinkHost::MemoryEstimated(const std::string& need) {
  (void)link_.Send(MemoryLine{.need = need});
}

void LinkHost::Metrics(int64_t step, const std::map<std::string, double>& values) {
  MetricsLine line;
  line.step = step;
  line.time_ms = absl::ToUnixMillis(absl::Now());
  line.values = values;
  link_.SendMetrics(std::move(line));
}

void LinkHost::CorruptCheckpoint(const std::string& path, int64_t step,
                                 const std::string& message) {
  (void)link_.Send(CheckpointLine{
      .kind = CheckpointLine::Kind::kCorrupt, .step = step, .path = path, .message = message});
}

void LinkHost::UnreadCheckpoint(const std::string& path, int64_t step, const std::string& message) {
  (void)link_.Send(CheckpointLine{
      .kind = CheckpointLine::Kind::kUnread, .step = step, .path = path, .message = message});
}

}  // namespace muster::worker
