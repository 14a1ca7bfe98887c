#include "controller/api/exec_service.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::controller {

void ExecService::Stop() {
  watch_.Stop();
  std::vector<std::weak_ptr<PersonExec>> calls;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    calls.swap(calls_);
  }
  for (const auto& weak : calls) {
    if (const auto call = weak.lock()) call->Close(Stopping());
  }
}

absl::Status ExecService::KeepUntilStop(const std::shared_ptr<PersonExec>& call) {
  MutexLock lock(mutex_);
  if (stopping_) return Stopping();
  std::erase_if(calls_, [](const auto& open) { return open.expired(); });
  if (calls_.size() >= kMostCalls) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kMostCalls, " programs of people run beside ranks already: try again later"));
  }
  calls_.push_back(call);
  return absl::OkStatus();
}

grpc::ServerBidiReactor<v1::ExecRequest, v1::ExecOutput>* ExecService::Exec(
    grpc::CallbackServerContext* context) {
  absl::StatusOr<Caller> caller = gate_.Enter(*context, "ExecService/Exec");
  absl::Status allowed = caller.status();
  auto call = std::make_shared<PersonExec>(gate_, engine_, sessions_,
                                           caller.ok() ? *std::move(caller) : Caller());
  if (allowed.ok()) allowed = KeepUntilStop(call);
  return PersonExec::Begin(std::move(call), *context, watch_, allowed);
}

}  // namespace muster::controller
