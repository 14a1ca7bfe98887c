#include "controller/api/exec_service.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::controller {

void ExecService::Stop() {
  watch_.Stop();
  std::vector<Open> open;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    open.swap(open_);
  }
  for (const Open& one : open) {
    if (const auto call = one.call.lock()) call->Close(Stopping());
  }
}

absl::Status ExecService::KeepUntilStop(const std::shared_ptr<ClientExecStream>& call,
                                        const std::string& caller) {
  MutexLock lock(mutex_);
  if (stopping_) return Stopping();
  std::erase_if(open_, [](const Open& one) { return one.call.expired(); });
  if (open_.size() >= kMaxCalls) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kMaxCalls, " programs of people run beside ranks already: try again later"));
  }
  CallerShares::Place place = shares_.Take(caller);
  if (place == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("you run ", kMaxPerCaller, " programs beside ranks already: end one"));
  }
  open_.push_back({call, std::move(place)});
  return absl::OkStatus();
}

grpc::ServerBidiReactor<v1::ExecRequest, v1::ExecOutput>* ExecService::Exec(
    grpc::CallbackServerContext* context) {
  absl::StatusOr<Caller> caller = gate_.Enter(*context, "ExecService/Exec");
  absl::Status allowed = caller.status();
  const std::string share = caller.ok() ? caller->Share() : "";
  auto call = std::make_shared<ClientExecStream>(gate_, engine_, sessions_,
                                                 caller.ok() ? *std::move(caller) : Caller());
  if (allowed.ok()) allowed = KeepUntilStop(call, share);
  return ClientExecStream::Begin(std::move(call), *context, watch_, allowed);
}

}  // namespace muster::controller
