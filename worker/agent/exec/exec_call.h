// One program that a person runs beside a rank, and the call to the controller over which its input
// and output pass (WorkerService.Exec). Two side threads block in it: one reads what the program
// writes, the other what the person says.
#pragma once

#include <grpcpp/client_context.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "muster/v1/worker_service.grpc.pb.h"
#include "worker/agent/exec/exec_program.h"
#include "worker/agent/gang/rank_exec_context.h"

namespace muster::worker {

class ExecCall {
 public:
  // `rank`: or why nothing may run there.
  ExecCall(std::shared_ptr<v1::WorkerService::Stub> stub, const std::string& token,
           v1::StartExec start, absl::StatusOr<RankExecContext> rank);

  // From the begin of the call to its end, on a side thread. Once.
  void Run();
  // Passes what the person says to the program, on another one, until the call is over. Once.
  void TakeInput();
  // Ends both soon. Any thread.
  void Cancel() {
    context_.TryCancel();
    launch_.Kill();
  }
  // Kills a program that is not executed yet, whose file may lie on a path that hangs; later it
  // does nothing. Any thread.
  void GiveUpStart() { launch_.Kill(); }

 private:
  // Names the session, and waits until the controller has taken the call. False: it has not.
  bool Begin();
  // From the start of the program to its end.
  v1::ExecEnd RunProgram();
  absl::StatusOr<std::unique_ptr<ExecProgram>> StartProgram();
  // Until the program has ended, or has to: why; empty: it ended by itself.
  std::string PassOutput(ExecProgram& program);
  // False: the call is over.
  bool Pass(int fd, bool is_stderr, bool& is_open);
  void SayEnd(v1::ExecEnd end);
  // Null: it did not start.
  std::shared_ptr<ExecProgram> AwaitProgram();
  // Nothing that the person says is left unread then: the call would not end.
  void AwaitInputsEnd();

  const std::shared_ptr<v1::WorkerService::Stub> stub_;
  const v1::StartExec start_;
  absl::StatusOr<RankExecContext> rank_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ExecOutput, v1::ExecInput>> stream_;
  UniqueFd gone_;  // an eventfd, written when nothing more comes from the person

  LaunchWatch launch_;
  Mutex mutex_;
  CondVar changed_;
  enum class Input { kTooEarly, kMayBeTaken, kTaken, kOver };
  Input input_ MUSTER_GUARDED_BY(mutex_) = Input::kTooEarly;
  bool started_ MUSTER_GUARDED_BY(mutex_) = false;  // or it cannot be
  std::shared_ptr<ExecProgram> program_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::worker
