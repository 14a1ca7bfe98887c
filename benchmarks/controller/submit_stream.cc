#include "benchmarks/controller/submit_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "benchmarks/controller/target.h"
#include "common/rpc/token.h"

namespace muster::benchmarks {

std::shared_ptr<SubmitStreamClient> SubmitStreamClient::Start(v1::JobService::Stub& stub,
                                                              StreamLoad& load) {
  std::shared_ptr<SubmitStreamClient> client(new SubmitStreamClient(load));
  client->self_ = client;
  AddToken(client->context_, load.token);
  stub.async()->SubmitJobs(&client->context_, client.get());
  client->AddHold();  // until the last read
  client->StartRead(&client->incoming_);
  client->StartCall();
  std::lock_guard<std::mutex> lock(client->mutex_);
  client->free_ = load.in_flight;
  client->WriteLocked();
  return client;
}

void SubmitStreamClient::WriteLocked() {
  if (writing_ || said_all_) return;
  if (SteadySeconds() >= load_.end) {
    said_all_ = true;
    StartWritesDone();
    return;
  }
  const int share = std::min(std::max(1, load_.in_flight / kMessages), kMostInMessage);
  if (free_ < share) return;
  outgoing_.Clear();
  for (int i = 0; i < share; ++i) {
    v1::SubmitRequest& submit = *outgoing_.add_submits();
    submit = load_.request;
    submit.set_idempotency_key(FreshKey());
    if (load_.own_names) submit.mutable_spec()->set_name(absl::StrCat("bench-", FreshNumber()));
  }
  free_ -= share;
  writing_ = true;
  sent_at_.push_back(SteadySeconds());
  StartWrite(&outgoing_);
}

void SubmitStreamClient::OnWriteDone(bool ok) {
  std::lock_guard<std::mutex> lock(mutex_);
  writing_ = false;
  if (ok) WriteLocked();
}

void SubmitStreamClient::OnReadDone(bool ok) {
  if (!ok) {
    RemoveHold();
    return;
  }
  const double now = SteadySeconds();
  uint64_t good = 0;
  for (const v1::SubmitOutcome& outcome : incoming_.outcomes()) {
    if (outcome.code() == 0 && outcome.job_id() != 0) {
      ++good;
      continue;
    }
    ++load_.failed;
    std::lock_guard<std::mutex> lock(load_.mutex);
    load_.last_error = outcome.message();
  }
  const int freed = incoming_.outcomes_size();
  double sent = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    sent = sent_at_.front();
    sent_at_.pop_front();
    free_ += freed;
    WriteLocked();
  }
  if (now >= load_.measured_from && now < load_.end) {
    load_.answered += good;
    std::lock_guard<std::mutex> lock(load_.mutex);
    if (sent >= load_.measured_from) load_.latencies.Add(now - sent);
  }
  StartRead(&incoming_);
}

void SubmitStreamClient::OnDone(const grpc::Status& status) {
  if (!status.ok()) {
    ++load_.failed;
    std::lock_guard<std::mutex> lock(load_.mutex);
    load_.last_error = status.error_message();
  }
  const std::shared_ptr<SubmitStreamClient> self = std::move(self_);
  std::lock_guard<std::mutex> lock(mutex_);
  done_ = true;
  over_.notify_all();
}

void SubmitStreamClient::Join() {
  std::unique_lock<std::mutex> lock(mutex_);
  over_.wait(lock, [this] { return done_; });
}

}  // namespace muster::benchmarks
