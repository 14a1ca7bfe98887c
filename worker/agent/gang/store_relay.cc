#include "worker/agent/gang/store_relay.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace muster::worker {
namespace {

v1::StoreRequest::Op ToProto(StoreLine::Op op) {
  switch (op) {
    case StoreLine::Op::kSet:
      return v1::StoreRequest::SET;
    case StoreLine::Op::kGet:
      return v1::StoreRequest::GET;
    case StoreLine::Op::kAdd:
      return v1::StoreRequest::ADD;
    case StoreLine::Op::kCheck:
      return v1::StoreRequest::CHECK;
    case StoreLine::Op::kDelete:
      return v1::StoreRequest::DELETE;
    case StoreLine::Op::kWait:
      return v1::StoreRequest::WAIT;
    case StoreLine::Op::kCount:
      return v1::StoreRequest::COUNT;
  }
  return v1::StoreRequest::OP_UNSPECIFIED;
}

constexpr char kStoreLost[] =
    "the controller restarted during rendezvous and its store is gone; the gang must start over";

}  // namespace

void StoreRelay::Request(const v1::Fence& fence, uint32_t rank, bool running, StoreLine line,
                         absl::Duration now) {
  Pending pending;
  pending.key = MakeRankKey(fence, rank);
  pending.line_id = line.id;
  pending.running = running;
  pending.deadline = now + absl::Milliseconds(std::max<int64_t>(0, line.timeout_ms)) + kAnswerGrace;
  v1::StoreRequest& request = pending.request;
  *request.mutable_fence() = fence;
  request.set_rank(rank);
  request.set_op(ToProto(line.op));
  for (std::string& key : line.keys) request.add_keys(std::move(key));
  request.set_value(std::move(line.value));
  request.set_timeout_ms(line.timeout_ms);
  size_t& count = pending_count_[pending.key];
  if (count >= kMaxPendingPerRank) return Fail(pending, "too many store operations at a time");
  if (up_ && !StoreIsTheSame(pending)) return Fail(pending, kStoreLost);
  ++count;
  const uint64_t id = next_request_++;
  request.set_request_id(id);
  Pending& kept = pending_.emplace(id, std::move(pending)).first->second;
  if (up_) Send(kept);
}

bool StoreRelay::StoreIsTheSame(const Pending& pending) {
  const auto it = first_term_.emplace(pending.key, term_).first;
  return pending.running || it->second == term_;
}

void StoreRelay::Send(Pending& pending) {
  pending.sent = true;
  v1::WorkerMessage message;
  *message.mutable_store_request() = pending.request;
  callbacks_.send(std::move(message));
}

void StoreRelay::Fail(const Pending& pending, const char* error, bool timed_out) {
  callbacks_.reply(pending.key, {.id = pending.line_id, .error = error, .timed_out = timed_out});
}

void StoreRelay::OnReply(const v1::StoreReply& reply) {
  const auto it = pending_.find(reply.request_id());
  if (it == pending_.end()) return;
  const Pending pending = std::move(it->second);
  pending_.erase(it);
  --pending_count_[pending.key];
  callbacks_.reply(pending.key, {.id = pending.line_id,
                                 .found = reply.found(),
                                 .value = reply.value(),
                                 .error = reply.error(),
                                 .timed_out = reply.timed_out()});
}

void StoreRelay::SessionUp(uint64_t term) {
  up_ = true;
  term_ = term;
  std::vector<std::pair<Pending, const char*>> failed;
  for (auto it = pending_.begin(); it != pending_.end();) {
    Pending& pending = it->second;
    const char* error = nullptr;
    if (!StoreIsTheSame(pending)) error = kStoreLost;
    if (pending.sent && pending.request.op() == v1::StoreRequest::ADD) {
      error =
          "the connection to the controller broke during an add; nobody knows whether it was done";
    }
    if (error == nullptr) {
      Send(pending);
      ++it;
      continue;
    }
    --pending_count_[pending.key];
    failed.emplace_back(std::move(pending), error);
    it = pending_.erase(it);
  }
  for (const auto& [pending, error] : failed) Fail(pending, error);
}

void StoreRelay::Forget(const RankKey& key) {
  std::erase_if(pending_, [&](const auto& entry) { return entry.second.key == key; });
  pending_count_.erase(key);
  first_term_.erase(key);
}

void StoreRelay::Sweep(absl::Duration now) {
  std::vector<Pending> late;
  for (auto it = pending_.begin(); it != pending_.end();) {
    if (it->second.deadline > now) {
      ++it;
      continue;
    }
    --pending_count_[it->second.key];
    late.push_back(std::move(it->second));
    it = pending_.erase(it);
  }
  for (const Pending& pending : late) {
    Fail(pending, "no answer from the controller in time", /*timed_out=*/true);
  }
}

}  // namespace muster::worker
