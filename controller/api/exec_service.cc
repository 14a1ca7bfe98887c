#include "controller/api/exec_service.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::controller {

namespace {

constexpr size_t kMaxCalls = 256;
constexpr size_t kMaxPerCaller = 8;

}  // namespace

ExecService::ExecService(Engine& engine, CallGate& gate, ExecSessions& sessions)
    : engine_(engine),
      gate_(gate),
      sessions_(sessions),
      watch_(gate.patience()),
      calls_({.all = kMaxCalls,
              .of_caller = kMaxPerCaller,
              .all_taken = absl::StrCat(kMaxCalls,
                                        " programs of `muster exec` run already: try again later"),
              .of_caller_taken = absl::StrCat("you run ", kMaxPerCaller,
                                              " programs of `muster exec` already: end one")}) {}

void ExecService::Stop() {
  watch_.Stop();
  calls_.Stop();
}

grpc::ServerBidiReactor<v1::ExecRequest, v1::ExecOutput>* ExecService::Exec(
    grpc::CallbackServerContext* context) {
  absl::StatusOr<Caller> caller = gate_.Enter(*context, "ExecService/Exec");
  absl::Status allowed = caller.status();
  const std::string share = caller.ok() ? caller->Share() : "";
  auto call = std::make_shared<ClientExecStream>(gate_, engine_, sessions_,
                                                 caller.ok() ? *std::move(caller) : Caller());
  if (allowed.ok()) allowed = calls_.Keep(call, share);
  return ClientExecStream::Begin(std::move(call), *context, watch_, allowed);
}

}  // namespace muster::controller
