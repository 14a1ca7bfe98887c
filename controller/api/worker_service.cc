#include "controller/api/worker_service.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::controller {
template <typename Stream>
absl::Status WorkerService::AdmitLocked(std::vector<std::weak_ptr<Stream>>& streams,
                                        const std::shared_ptr<Stream>& stream) {
  if (stopping_) return Stopping();
  // Those that are gone are looked for only when there might be too many.
  if (streams.size() >= max_streams_) {
    std::erase_if(streams, [](const auto& weak) { return weak.expired(); });
  }
  if (streams.size() >= max_streams_) {
    return absl::ResourceExhaustedError(
        absl::StrCat(max_streams_, " agents' streams of this kind are open already"));
  }
  streams.push_back(stream);
  return absl::OkStatus();
}

void WorkerService::Stop() {
  watch_.Stop();
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
  auto stream = std::make_shared<ControlStream>(gate_, engine_);
  absl::Status allowed = gate_.Check(*context);
  if (allowed.ok()) {
    MutexLock lock(mutex_);
    allowed = AdmitLocked(controls_, stream);
  }
  return ControlStream::Begin(std::move(stream), *context, watch_, allowed);
}

grpc::ServerBidiReactor<v1::BulkBatch, v1::BulkAck>* WorkerService::Bulk(
    grpc::CallbackServerContext* context) {
  auto stream = std::make_shared<BulkStream>(gate_, engine_, ingest_);
  absl::Status allowed = gate_.Check(*context);
  if (allowed.ok()) {
    MutexLock lock(mutex_);
    allowed = AdmitLocked(bulks_, stream);
  }
  return BulkStream::Begin(std::move(stream), *context, watch_, allowed);
}

}  // namespace muster::controller
