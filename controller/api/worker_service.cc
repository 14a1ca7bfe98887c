#include "controller/api/worker_service.h"

#include <utility>

namespace muster::controller {
namespace {

absl::Status Stopping() {
  return absl::UnavailableError("the controller is stopping: connect again soon");
}

// Remembers a stream and forgets those that are gone.
template <typename Stream>
void Remember(std::vector<std::weak_ptr<Stream>>& streams, const std::shared_ptr<Stream>& stream) {
  std::erase_if(streams, [](const auto& weak) { return weak.expired(); });
  streams.push_back(stream);
}

}  // namespace

absl::Status WorkerService::Allow(grpc::CallbackServerContext* context) {
  absl::Status status = gate_.Check(*context);
  MutexLock lock(mutex_);
  return status.ok() && stopping_ ? Stopping() : status;
}

void WorkerService::Stop() {
  std::vector<std::weak_ptr<ControlStream>> controls;
  std::vector<std::weak_ptr<BulkStream>> bulks;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    controls.swap(controls_);
    bulks.swap(bulks_);
  }
  for (const auto& weak : controls) {
    if (const auto stream = weak.lock()) stream->Close(Stopping());
  }
  for (const auto& weak : bulks) {
    if (const auto stream = weak.lock()) stream->Close(Stopping());
  }
}

grpc::ServerBidiReactor<v1::WorkerMessage, v1::ControllerMessage>* WorkerService::Control(
    grpc::CallbackServerContext* context) {
  const absl::Status allowed = Allow(context);
  auto stream = std::make_shared<ControlStream>(gate_, engine_);
  {
    MutexLock lock(mutex_);
    Remember(controls_, stream);
  }
  return ControlStream::Begin(std::move(stream), allowed);
}

grpc::ServerBidiReactor<v1::BulkBatch, v1::BulkAck>* WorkerService::Bulk(
    grpc::CallbackServerContext* context) {
  const absl::Status allowed = Allow(context);
  auto stream = std::make_shared<BulkStream>(gate_, engine_, ingest_);
  {
    MutexLock lock(mutex_);
    Remember(bulks_, stream);
  }
  return BulkStream::Begin(std::move(stream), allowed);
}

}  // namespace muster::controller
