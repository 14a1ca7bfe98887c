// `muster exec`: runs a program beside a rank of a job, in the rank's environment.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/commands/commands.h"
#include "cli/commands/watch/exec_terminal.h"
#include "common/base/status_macros.h"
#include "common/base/unique_fd.h"

namespace muster::cli {
namespace {

constexpr size_t kPieceBytes = 32 << 10;
constexpr int kSignalled = 128;  // and the signal's number, as a shell says it

using ExecStream = grpc::ClientReaderWriter<v1::ExecRequest, v1::ExecOutput>;

struct ExecFlags {
  std::string job;
  uint32_t rank = 0;
  bool interactive = false;
  bool tty = false;
};

// Passes standard input to the program on a thread of its own, until it is destroyed.
class InputPump {
 public:
  // `stream` and `context` outlive it, and the stream is written by nobody else. `terminal` may be
  // null.
  InputPump(ExecStream& stream, grpc::ClientContext& context, bool interactive,
            const ExecTerminal* terminal)
      : stream_(stream),
        context_(context),
        terminal_(terminal),
        stop_(::eventfd(0, EFD_CLOEXEC)),
        thread_([this, interactive] { Run(interactive); }) {}
  ~InputPump() {
    ::eventfd_write(stop_.get(), 1);
    thread_.join();
  }
  InputPump(const InputPump&) = delete;
  InputPump& operator=(const InputPump&) = delete;

 private:
  void Run(bool interactive) {
    bool is_open = interactive;
    if (!interactive) Say([](v1::ExecInput& input) { input.set_stdin_end(true); });
    while (true) {
      pollfd waits[] = {{stop_.get(), POLLIN, 0},
                        {is_open ? STDIN_FILENO : -1, POLLIN, 0},
                        {terminal_ != nullptr ? terminal_->resized() : -1, POLLIN, 0}};
      if (::poll(waits, 3, -1) < 0 && errno != EINTR) return;
      if (waits[0].revents != 0) return;
      if (waits[2].revents != 0) {
        eventfd_t count = 0;
        ::eventfd_read(terminal_->resized(), &count);
        Say([&](v1::ExecInput& input) { *input.mutable_resize() = terminal_->size(); });
      }
      if (waits[1].revents != 0) is_open = PassPiece();
    }
  }

  // False: nothing more comes.
  bool PassPiece() {
    std::string piece(kPieceBytes, '\0');
    const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) return true;
    if (got <= 0) {
      Say([](v1::ExecInput& input) { input.set_stdin_end(true); });
      return false;
    }
    piece.resize(static_cast<size_t>(got));
    bool leave = false;
    if (terminal_ != nullptr) piece = leave_keys_.Pass(piece, leave);
    if (leave) context_.TryCancel();
    return Say([&](v1::ExecInput& input) { input.set_stdin(std::move(piece)); });
  }

  // False: the call is over.
  template <typename Fill>
  bool Say(Fill fill) {
    v1::ExecRequest request;
    fill(*request.mutable_input());
    return stream_.Write(request);
  }

  ExecStream& stream_;
  grpc::ClientContext& context_;
  const ExecTerminal* const terminal_;
  LeaveKeys leave_keys_;
  const UniqueFd stop_;
  std::thread thread_;  // last: it uses all of the above
};

absl::StatusOr<v1::ExecStart> StartOf(const ExecFlags& flags,
                                      const std::vector<std::string>& program) {
  if (program.empty()) {
    return absl::InvalidArgumentError("what is to run stands behind `--`: muster exec JOB -- CMD");
  }
  v1::ExecStart start;
  MUSTER_ASSIGN_OR_RETURN(*start.mutable_job(), ParseJobRef(flags.job));
  start.set_rank(flags.rank);
  for (const std::string& word : program) start.add_argv(word);
  return start;
}

// What the program writes, until it has ended.
std::optional<v1::ExecEnd> PassOutput(ExecStream& stream, Host& host) {
  v1::ExecOutput output;
  while (host.out && stream.Read(&output)) {
    if (output.has_end()) return output.end();
    if (output.has_stdout()) host.out << output.stdout() << std::flush;
    if (output.has_stderr()) host.err << output.stderr() << std::flush;
  }
  return std::nullopt;
}

// As a shell says it. What was cut short has not done what it was to do, whatever it says itself.
int CodeOf(const v1::ExecEnd& end) {
  if (end.signal() != 0) return kSignalled + end.signal();
  const bool was_cut = !end.error().empty() && end.exit_code() == 0;
  return was_cut ? kSignalled + SIGHUP : end.exit_code();
}

absl::StatusOr<ExitCode> RunExec(const ExecFlags& flags, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(v1::ExecStart start, StartOf(flags, session.globals().program));
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  std::unique_ptr<ExecTerminal> terminal;
  if (flags.tty) {
    MUSTER_ASSIGN_OR_RETURN(terminal, ExecTerminal::Take());
    *start.mutable_terminal() = terminal->size();
    start.set_terminal_type(session.host().env("TERM").value_or("xterm"));
  }
  InterruptGuard guard;
  const absl::Duration limit = session.timeout(absl::InfiniteDuration());
  StubCall call(client->endpoint(), limit, &guard);
  const auto stream = v1::ExecService::Stub(call.channel()).Exec(&call.context());
  v1::ExecRequest first;
  *first.mutable_start() = std::move(start);
  stream->Write(first);
  std::optional<v1::ExecEnd> end;
  {
    const InputPump input(*stream, call.context(), flags.interactive || flags.tty, terminal.get());
    end = PassOutput(*stream, session.host());
    // So that no write waits any more.
    if (!session.host().out || end.has_value()) call.context().TryCancel();
  }
  const CallEnd call_end = call.End(stream->Finish());
  const bool terminal_was_taken = std::exchange(terminal, nullptr) != nullptr;
  const bool left = terminal_was_taken && absl::IsCancelled(call_end.status) && !end.has_value();
  if (guard.interrupted() || left) return Interrupted("interrupted: the program was ended");
  if (!session.host().out) return ExitCode::kDone;  // RunMuster says so
  if (!end.has_value()) return client->Explain(call_end, limit);
  if (!end->error().empty()) session.Say(absl::StrCat("muster: ", end->error()));
  return static_cast<ExitCode>(CodeOf(*end));
}

}  // namespace

void AddExec(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command = app.add_subcommand(
      "exec",
      "run a program beside a rank that runs, in its environment, and stay: `-- CMD ARGS...`; its "
      "output, its exit code");
  const auto flags = std::make_shared<ExecFlags>();
  command->add_option("JOB", flags->job, "its id or name")->required();
  command->add_option("--rank", flags->rank, "beside this rank (0)");
  command->add_flag("-i,--interactive", flags->interactive, "pass standard input to it");
  command->add_flag("-t,--tty", flags->tty,
                    "give it a terminal, which this one becomes: `muster exec -t JOB -- bash`");
  command->callback(
      [flags, &session, &verb] { verb = [flags, &session] { return RunExec(*flags, session); }; });
}

}  // namespace muster::cli
