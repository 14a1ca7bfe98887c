#include "controller/api/worker_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::controller {
template <typename Stream>
absl::Status WorkerService::AdmitLocked(std::vector<Opened<Stream>>& streams,
                                        const std::shared_ptr<Stream>& stream, PeerNames sender) {
  if (stopping_) return Stopping();
  // Those that are gone are looked for only when there might be too many.
  if (streams.size() >= max_streams_) {
    std::erase_if(streams, [](const auto& opened) { return opened.stream.expired(); });
  }
  if (streams.size() >= max_streams_) {
    return absl::ResourceExhaustedError(
        absl::StrCat(max_streams_, " agents' streams of this kind are open already"));
  }
  streams.push_back({stream, std::move(sender)});
  return absl::OkStatus();
}

absl::Status WorkerService::CheckShown(const grpc::ServerContextBase& context) const {
  if (check_certificate_ == nullptr) return absl::OkStatus();
  return check_certificate_(PeerCertificateOf(context));
}

void WorkerService::Stop() {
  watch_.Stop();
  std::vector<Opened<ControlStream>> controls;
  std::vector<Opened<BulkStream>> bulks;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    controls.swap(controls_);
    bulks.swap(bulks_);
  }
  for (const auto& opened : controls) {
    if (const auto stream = opened.stream.lock()) stream->Close(Stopping());
  }
  for (const auto& opened : bulks) {
    if (const auto stream = opened.stream.lock()) stream->Close(Stopping());
  }
}

void WorkerService::CloseOf(const std::string& name) {
  const auto is_of = [&](const PeerNames& sender) {
    return sender.has_value() && std::find(sender->begin(), sender->end(), name) != sender->end();
  };
  std::vector<std::shared_ptr<ControlStream>> controls;
  std::vector<std::shared_ptr<BulkStream>> bulks;
  {
    MutexLock lock(mutex_);
    for (const auto& opened : controls_) {
      if (is_of(opened.sender)) controls.push_back(opened.stream.lock());
    }
    for (const auto& opened : bulks_) {
      if (is_of(opened.sender)) bulks.push_back(opened.stream.lock());
    }
  }
  const absl::Status revoked =
      absl::PermissionDeniedError(absl::StrCat("the certificate of worker ", name, " was revoked"));
  for (const auto& stream : controls) {
    if (stream != nullptr) stream->Close(revoked);
  }
  for (const auto& stream : bulks) {
    if (stream != nullptr) stream->Close(revoked);
  }
}

grpc::ServerBidiReactor<v1::WorkerMessage, v1::ControllerMessage>* WorkerService::Control(
    grpc::CallbackServerContext* context) {
  PeerNames sender = PeerNamesOf(*context);
  auto stream = std::make_shared<ControlStream>(gate_, engine_, sender);
  absl::Status allowed = gate_.Check(*context);
  if (allowed.ok()) {
    MutexLock lock(mutex_);
    allowed = AdmitLocked(controls_, stream, std::move(sender));
  }
  if (allowed.ok()) allowed = CheckShown(*context);
  return ControlStream::Begin(std::move(stream), *context, watch_, allowed);
}

grpc::ServerBidiReactor<v1::BulkBatch, v1::BulkAck>* WorkerService::Bulk(
    grpc::CallbackServerContext* context) {
  PeerNames sender = PeerNamesOf(*context);
  auto stream = std::make_shared<BulkStream>(gate_, engine_, ingest_, sender);
  absl::Status allowed = gate_.Check(*context);
  if (allowed.ok()) {
    MutexLock lock(mutex_);
    allowed = AdmitLocked(bulks_, stream, std::move(sender));
  }
  if (allowed.ok()) allowed = CheckShown(*context);
  return BulkStream::Begin(std::move(stream), *context, watch_, allowed);
}

}  // namespace muster::controller
