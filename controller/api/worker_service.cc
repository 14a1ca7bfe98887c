#include "controller/api/worker_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::controller {
namespace {

template <typename Streams>
void CloseAll(const Streams& streams, const absl::Status& status) {
  for (const auto& opened : streams) {
    if (const auto stream = opened.stream.lock()) stream->Close(status);
  }
}

template <typename Streams>
Streams ThoseOf(const Streams& streams, const std::string& name) {
  Streams found;
  for (const auto& opened : streams) {
    const PeerNames& sender = opened.sender;
    if (!sender.has_value()) continue;
    if (std::find(sender->begin(), sender->end(), name) != sender->end()) found.push_back(opened);
  }
  return found;
}

}  // namespace

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
  std::vector<Opened<AgentExecStream>> execs;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    controls.swap(controls_);
    bulks.swap(bulks_);
    execs.swap(execs_);
  }
  CloseAll(controls, Stopping());
  CloseAll(bulks, Stopping());
  CloseAll(execs, Stopping());
}

void WorkerService::CloseOf(const std::string& name) {
  std::vector<Opened<ControlStream>> controls;
  std::vector<Opened<BulkStream>> bulks;
  std::vector<Opened<AgentExecStream>> execs;
  {
    MutexLock lock(mutex_);
    controls = ThoseOf(controls_, name);
    bulks = ThoseOf(bulks_, name);
    execs = ThoseOf(execs_, name);
  }
  const absl::Status revoked =
      absl::PermissionDeniedError(absl::StrCat("the certificate of worker ", name, " was revoked"));
  CloseAll(controls, revoked);
  CloseAll(bulks, revoked);
  CloseAll(execs, revoked);
}

template <typename Stream>
auto* WorkerService::Open(std::shared_ptr<Stream> stream,
                          std::vector<Opened<Stream>> WorkerService::*opened,
                          grpc::CallbackServerContext& context) {
  absl::Status allowed = gate_.Check(context);
  if (allowed.ok()) {
    MutexLock lock(mutex_);
    allowed = AdmitLocked(this->*opened, stream, PeerNamesOf(context));
  }
  if (allowed.ok()) allowed = CheckShown(context);
  return Stream::Begin(std::move(stream), context, watch_, allowed);
}

grpc::ServerBidiReactor<v1::WorkerMessage, v1::ControllerMessage>* WorkerService::Control(
    grpc::CallbackServerContext* context) {
  return Open(std::make_shared<ControlStream>(gate_, engine_, PeerNamesOf(*context)),
              &WorkerService::controls_, *context);
}

grpc::ServerBidiReactor<v1::BulkBatch, v1::BulkAck>* WorkerService::Bulk(
    grpc::CallbackServerContext* context) {
  return Open(std::make_shared<BulkStream>(gate_, engine_, ingest_, PeerNamesOf(*context)),
              &WorkerService::bulks_, *context);
}

grpc::ServerBidiReactor<v1::ExecOutput, v1::ExecInput>* WorkerService::Exec(
    grpc::CallbackServerContext* context) {
  return Open(std::make_shared<AgentExecStream>(gate_, exec_sessions_, PeerNamesOf(*context)),
              &WorkerService::execs_, *context);
}

}  // namespace muster::controller
