#include "controller/api/streams/log_stream.h"

#include <algorithm>
#include <utility>

#include "controller/model/ledger_rules.h"

namespace muster::controller {
namespace {

constexpr uint32_t kMaxTailLines = 1'000'000;
constexpr size_t kMaxLineBytes = 64 << 10;  // a longer line is sent in pieces

}  // namespace

absl::Status LogStream::ParseRequest(const v1::StreamLogsRequest& request, LogQuery& query) {
  if (request.since_ms() < 0 || request.until_ms() < 0) {
    return absl::InvalidArgumentError("since_ms and until_ms: Unix time, not below 0");
  }
  if (request.follow() && request.until_ms() != 0) {
    return absl::InvalidArgumentError("until_ms does not go with follow");
  }
  query.follow = request.follow();
  query.tail_lines = std::min(request.tail(), kMaxTailLines);
  if (request.has_rank()) query.rank = request.rank();
  if (request.has_attempt()) query.attempt = request.attempt();
  query.since_ms = request.since_ms();
  query.until_ms = request.until_ms();
  return absl::OkStatus();
}

LogStream::LogStream(CallGate& gate, const Engine& engine, MetricsReader& metrics, Clock& clock,
                     const LogQuery& query)
    : OutStream(gate, "StreamLogs"),
      engine_(engine),
      metrics_(metrics),
      clock_(clock),
      query_(query) {
  // Over before the call began: what its ranks told of is still waited for, and nothing else. What
  // was written in a time that has passed is not waited for.
  if (!JobIsOver() || query_.until_ms != 0) return;
  over_at_ = -absl::InfiniteDuration();
  query_.follow = true;
}

bool LogStream::Turn() {
  if (ended()) return false;
  ReadOn();
  return true;
}

void LogStream::OnDrained() {
  {
    MutexLock lock(mutex_);
    if (read_all_) return;
  }
  ReadOn();
}

void LogStream::ReadOn() {
  if (!idle()) return;
  {
    MutexLock lock(mutex_);
    if (reading_) return;
    reading_ = true;
  }
  // Asked before the read: what was stored by then is in it.
  if (over_at_ == absl::InfiniteDuration() && JobIsOver()) over_at_ = clock_.SinceBoot();
  metrics_.ReadLogs(query_, position_, [self = shared_from_this()](absl::StatusOr<LogPage> page) {
    self->OnPage(std::move(page));
  });
}

void LogStream::OnPage(absl::StatusOr<LogPage> page) {
  if (absl::IsResourceExhausted(page.status())) {  // too many read: at the next turn
    MutexLock lock(mutex_);
    reading_ = false;
    return;
  }
  if (!page.ok()) {
    End(page.status());
    return;
  }
  position_ = std::move(page->position);
  for (const StoredLogChunk& chunk : page->chunks) Deliver(chunk);
  const bool read_all = page->chunks.empty();
  if (read_all && (!query_.follow || IsDrained())) {
    FlushLines();
    End(absl::OkStatus());
  }
  {
    MutexLock lock(mutex_);
    reading_ = false;
    read_all_ = read_all;
  }
  // Nothing of the page may have been a whole line: then no write will call us back.
  if (!read_all && !ended()) ReadOn();
}

void LogStream::Deliver(const StoredLogChunk& stored) {
  const LogChunk& chunk = stored.chunk;
  uint64_t skip = 0;
  const auto tail = position_.tails.find(chunk.key.rank);
  if (tail != position_.tails.end()) {
    const LogCursor& start = tail->second.start;
    const auto here = std::tie(chunk.key.attempt, stored.id);
    if (here < std::tie(start.attempt, start.id)) return;
    if (here == std::tie(start.attempt, start.id)) {
      skip = std::min<uint64_t>(tail->second.skip_bytes, chunk.text.size());
    }
  }
  const StreamKey key{chunk.key.attempt, chunk.key.generation, chunk.key.rank, chunk.is_stderr};
  const uint64_t offset = chunk.offset + skip;
  const auto [found, is_new] = streams_.try_emplace(key);
  Stream& stream = found->second;
  if (is_new) stream.next_offset = SkipsBegin() ? offset : 0;
  if (offset > stream.next_offset) {
    // The missing bytes end the line that they tore.
    if (!stream.line.empty()) SendText(key, stream, std::exchange(stream.line, ""));
    // Of a time, what is missing may have been written at another.
    if (!query_.has_times()) stream.lost_bytes = offset - stream.next_offset;
    stream.next_offset = offset;
  }
  stream.written_ms = chunk.written_ms;
  std::string text = std::exchange(stream.line, "") + chunk.text.substr(skip);
  stream.next_offset = offset + chunk.text.size() - skip;
  const size_t last_end = text.rfind('\n');
  size_t whole = last_end == std::string::npos ? 0 : last_end + 1;
  if (text.size() - whole > kMaxLineBytes) whole = text.size();
  stream.line = text.substr(whole);
  text.resize(whole);
  if (!text.empty()) SendText(key, stream, std::move(text));
}

void LogStream::SendText(const StreamKey& key, Stream& stream, std::string text) {
  v1::StreamLogsResponse response;
  response.set_attempt(std::get<0>(key));
  response.set_rank(std::get<2>(key));
  response.set_is_stderr(std::get<3>(key));
  response.set_offset(stream.next_offset - stream.line.size() - text.size());
  response.set_lost_bytes(std::exchange(stream.lost_bytes, 0));
  response.set_written_ms(stream.written_ms);
  response.set_text(std::move(text));
  Send(std::move(response));
}

void LogStream::FlushLines() {
  for (auto& [key, stream] : streams_) {
    if (stream.line.empty()) continue;
    SendText(key, stream, std::exchange(stream.line, ""));
  }
}

bool LogStream::JobIsOver() {
  const std::shared_ptr<const Snapshot> snapshot = engine_.snapshot();
  const Job* job = snapshot->FindJob(query_.job_id);
  return job == nullptr || IsTerminal(job->state);
}

bool LogStream::IsDrained() {
  if (over_at_ == absl::InfiniteDuration()) return false;
  const std::shared_ptr<const Snapshot> snapshot = engine_.snapshot();
  const Job* job = snapshot->FindJob(query_.job_id);
  bool all_told = false;
  if (job != nullptr && job->current != nullptr) {
    const Attempt& attempt = *job->current;
    const absl::Time now = snapshot->LedgerTime(clock_.SinceBoot());
    const bool waits = now - HeldUntil(attempt) < kMissingGrace;
    all_told = true;
    for (const Rank& rank : attempt.ranks) {
      if (waits && IsMissing(attempt, rank)) return false;
      all_told &= rank.log_bytes.has_value();
    }
  }
  return all_told || clock_.SinceBoot() - over_at_ >= kDrainGrace;
}

bool LogStream::IsMissing(const Attempt& attempt, const Rank& rank) const {
  if (!rank.log_bytes.has_value() || query_.rank.value_or(rank.rank) != rank.rank ||
      query_.attempt.value_or(attempt.number) != attempt.number) {
    return false;
  }
  for (const bool is_stderr : {false, true}) {
    const auto sent = streams_.find({attempt.number, attempt.generation, rank.rank, is_stderr});
    const uint64_t sent_bytes = sent == streams_.end() ? 0 : sent->second.next_offset;
    // A tail need not have anything of a stream.
    const bool left_out = sent == streams_.end() && SkipsBegin();
    if (!left_out && sent_bytes < (*rank.log_bytes)[is_stderr]) return true;
  }
  return false;
}

}  // namespace muster::controller
