#include "worker/agent/exec/exec_call.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/rpc/token.h"
#include "worker/agent/command/command_rules.h"

namespace muster::worker {
namespace {

constexpr size_t kPieceBytes = 32 << 10;
constexpr absl::Duration kHangupPatience = absl::Seconds(2);
// After the program's end so many pieces are read at most, which is all that its pipes hold: more
// comes from processes that it left running.
constexpr int kMaxPiecesAfterEnd = 64;
constexpr int kProbeEveryMs = 1000;
constexpr char kRankHasEnded[] = "its rank has ended";
constexpr char kCallIsOver[] = "the call is over";
// As a shell says it of what it cannot run.
constexpr int kNoSuchProgram = 127;
constexpr int kNotRun = 126;

}  // namespace

ExecCall::ExecCall(std::shared_ptr<v1::WorkerService::Stub> stub, const std::string& token,
                   v1::StartExec start, absl::StatusOr<RankExecContext> rank)
    : stub_(std::move(stub)),
      start_(std::move(start)),
      rank_(std::move(rank)),
      gone_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  AddToken(context_, token);
}

void ExecCall::Run() {
  stream_ = stub_->Exec(&context_);
  if (Begin()) {
    SayEnd(RunProgram());
    stream_->WritesDone();
  }
  AwaitInputsEnd();
  const grpc::Status status = stream_->Finish();
  Log(LogLevel::kInfo, "exec_over",
      {{"job", start_.fence().job_id()},
       {"rank", start_.rank()},
       {"status", status.error_message()}});
}

bool ExecCall::Begin() {
  v1::ExecOutput first;
  first.set_session(start_.session());
  v1::ExecInput answer;
  const bool taken = stream_->Write(first) && stream_->Read(&answer) && answer.accepted();
  MutexLock lock(mutex_);
  if (taken) {
    input_ = Input::kMayBeTaken;
  } else {
    context_.TryCancel();
  }
  changed_.NotifyAll();
  return taken;
}

v1::ExecEnd ExecCall::RunProgram() {
  absl::StatusOr<std::unique_ptr<ExecProgram>> started = StartProgram();
  const std::shared_ptr<ExecProgram> program = started.ok() ? *std::move(started) : nullptr;
  {
    MutexLock lock(mutex_);
    started_ = true;
    program_ = program;
    changed_.NotifyAll();
  }
  v1::ExecEnd end;
  if (program == nullptr) {
    end.set_exit_code(absl::IsNotFound(started.status()) ? kNoSuchProgram : kNotRun);
    end.set_error(std::string(started.status().message()));
    return end;
  }
  end.set_error(PassOutput(*program));
  if (!end.error().empty()) program->Hangup(kHangupPatience);
  const ExitStatus exit = program->Wait();
  end.set_exit_code(exit.code);
  end.set_signal(exit.signal);
  program->StopInput();
  rank_->unfinished.reset();
  return end;
}

absl::StatusOr<std::unique_ptr<ExecProgram>> ExecCall::StartProgram() {
  MUSTER_RETURN_IF_ERROR(rank_.status());
  if (!gone_.valid()) return absl::ResourceExhaustedError("the agent has no descriptor left");
  RankCommand command = rank_->command;
  if (rank_->runtime_words.empty()) {
    const std::string path = FindVariable(command.environment, "PATH").value_or("");
    MUSTER_ASSIGN_OR_RETURN(command.program, FindProgram(start_.argv(0), path, command.directory));
    command.argv = {start_.argv().begin(), start_.argv().end()};
  } else {
    command.argv = rank_->runtime_words;
    command.argv.insert(command.argv.end(), start_.argv().begin(), start_.argv().end());
  }
  std::optional<v1::TerminalSize> terminal;
  if (start_.has_terminal()) {
    terminal = start_.terminal();
    // The first value of a name counts, and the rank's tag stands in front.
    command.environment.insert(command.environment.begin() + !command.environment.empty(),
                               absl::StrCat("TERM=", start_.terminal_type()));
  }
  // To look for the program may have taken long.
  pollfd rank_end = {rank_->rank_end.get(), POLLIN, 0};
  if (::poll(&rank_end, 1, 0) > 0) return absl::FailedPreconditionError(kRankHasEnded);
  return ExecProgram::Start(std::move(command), terminal, launch_);
}

std::string ExecCall::PassOutput(ExecProgram& program) {
  bool out_open = true;
  bool err_open = program.err() >= 0;
  bool ended = false;
  int pieces_after_end = 0;
  while (true) {
    pollfd waits[] = {{out_open ? program.out() : -1, POLLIN, 0},
                      {err_open ? program.err() : -1, POLLIN, 0},
                      {gone_.get(), POLLIN, 0},
                      {rank_->rank_end.get(), POLLIN, 0},
                      {ended ? -1 : program.exit_fd(), POLLIN, 0}};
    // After its end what it had written is passed on, but what it left running is not waited for.
    const int ready = ::poll(waits, 5, ended ? 0 : kProbeEveryMs);
    if (ready < 0 && errno != EINTR) return "cannot wait for it";
    // The other thread hears of the call's end only while it reads, and not while the program takes
    // no input.
    if (ready == 0 && !ended && !stream_->Write(v1::ExecOutput())) return kCallIsOver;
    if (waits[2].revents != 0) return "the person is gone";
    if (waits[3].revents != 0) return kRankHasEnded;
    const bool has_output = waits[0].revents != 0 || waits[1].revents != 0;
    if (ended && (!has_output || ++pieces_after_end > kMaxPiecesAfterEnd)) return "";
    if (waits[0].revents != 0 && !Pass(program.out(), false, out_open)) return kCallIsOver;
    if (waits[1].revents != 0 && !Pass(program.err(), true, err_open)) return kCallIsOver;
    ended |= waits[4].revents != 0;
  }
}

bool ExecCall::Pass(int fd, bool is_stderr, bool& is_open) {
  std::string piece(kPieceBytes, '\0');
  const ssize_t got = ::read(fd, piece.data(), piece.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (got <= 0) {  // a terminal's end is an error, EIO
    is_open = false;
    return true;
  }
  piece.resize(static_cast<size_t>(got));
  v1::ExecOutput output;
  if (is_stderr) {
    output.set_stderr(std::move(piece));
  } else {
    output.set_stdout(std::move(piece));
  }
  return stream_->Write(output);
}

void ExecCall::SayEnd(v1::ExecEnd end) {
  v1::ExecOutput output;
  *output.mutable_end() = std::move(end);
  stream_->Write(output);
}

void ExecCall::TakeInput() {
  {
    MutexLock lock(mutex_);
    while (input_ == Input::kTooEarly) changed_.Wait(mutex_);
    if (input_ != Input::kMayBeTaken) return;
    input_ = Input::kTaken;
  }
  v1::ExecInput input;
  while (stream_->Read(&input)) {
    const std::shared_ptr<ExecProgram> program = AwaitProgram();
    if (program == nullptr) continue;
    if (!input.stdin().empty()) program->Write(input.stdin());
    if (input.stdin_end()) program->EndInput();
    if (input.has_resize()) program->Resize(input.resize());
  }
  ::eventfd_write(gone_.get(), 1);
  launch_.Kill();
  MutexLock lock(mutex_);
  input_ = Input::kOver;
  changed_.NotifyAll();
}

std::shared_ptr<ExecProgram> ExecCall::AwaitProgram() {
  MutexLock lock(mutex_);
  while (!started_) changed_.Wait(mutex_);
  return program_;
}

void ExecCall::AwaitInputsEnd() {
  {
    MutexLock lock(mutex_);
    while (input_ == Input::kTaken) changed_.Wait(mutex_);
    input_ = Input::kOver;
    changed_.NotifyAll();
  }
  v1::ExecInput input;
  while (stream_->Read(&input)) {
  }
}

}  // namespace muster::worker
