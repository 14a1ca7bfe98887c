#include "controller/api/streams/exec_sessions.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/os/secrets.h"
#include "controller/api/calls/known_jobs.h"

namespace muster::controller {
namespace {

constexpr size_t kSessionBytes = 16;
constexpr int kMaxWords = 1024;
constexpr size_t kMaxWordBytes = 128 << 10;
constexpr size_t kMaxPieceBytes = 64 << 10;
constexpr size_t kMaxTerminalTypeBytes = 64;
constexpr uint32_t kMaxTerminalSize = 10'000;
constexpr char kPersonIsGone[] = "the person's call is over";

absl::Status CheckSize(const v1::TerminalSize& size) {
  if (size.rows() <= kMaxTerminalSize && size.columns() <= kMaxTerminalSize) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("terminal: at most ", kMaxTerminalSize, " rows and columns"));
}

absl::Status CheckStart(const v1::ExecStart& start) {
  size_t bytes = 0;
  bool has_nul = false;
  for (const std::string& word : start.argv()) {
    bytes += word.size();
    has_nul |= word.find('\0') != std::string::npos;
  }
  if (start.argv_size() == 0 || start.argv(0).empty()) {
    return absl::InvalidArgumentError("argv: names no program");
  }
  if (start.argv_size() > kMaxWords || bytes > kMaxWordBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("argv: at most ", kMaxWords, " words and ", kMaxWordBytes, " bytes"));
  }
  const std::string& type = start.terminal_type();
  has_nul |= type.find('\0') != std::string::npos;
  if (has_nul) return absl::InvalidArgumentError("argv and terminal_type: no word has a NUL");
  if (type.size() > kMaxTerminalTypeBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("terminal_type: at most ", kMaxTerminalTypeBytes, " bytes"));
  }
  return CheckSize(start.terminal());
}

// What passes on may not hold any number of bytes.
absl::Status CheckInput(const v1::ExecInput& input) {
  if (input.accepted()) {
    return absl::InvalidArgumentError("accepted: only the controller says that");
  }
  if (input.stdin().size() > kMaxPieceBytes) {
    return absl::InvalidArgumentError(absl::StrCat("stdin: at most ", kMaxPieceBytes, " bytes"));
  }
  return CheckSize(input.resize());
}

absl::Status CheckOutput(const v1::ExecOutput& output) {
  if (output.has_session()) return absl::InvalidArgumentError("a session is named once");
  const size_t bytes =
      output.stdout().size() + output.stderr().size() + output.end().error().size();
  if (bytes <= kMaxPieceBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("output: at most ", kMaxPieceBytes, " bytes"));
}

// The rank of the job's live attempt.
absl::StatusOr<const Rank*> FindRank(const Job& job, uint32_t rank) {
  if (job.current == nullptr || !job.current->live()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id, " does not run now: nothing can be run beside it"));
  }
  const std::vector<Rank>& ranks = job.current->ranks;
  const auto found = std::find_if(ranks.begin(), ranks.end(),
                                  [rank](const Rank& each) { return each.rank == rank; });
  if (found == ranks.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, ": job ", job.id, " has ranks 0 to ", ranks.size() - 1));
  }
  return &*found;
}

}  // namespace

absl::Status ExecSessions::Open(const std::string& session, const std::string& worker,
                                std::weak_ptr<ClientExecStream> person) {
  MutexLock lock(mutex_);
  size_t of_worker = 0;
  for (const auto& [id, open] : sessions_) of_worker += open.worker == worker;
  if (of_worker >= kMaxPerWorker) {
    return absl::ResourceExhaustedError(
        absl::StrCat(of_worker, " programs of `muster exec` run on worker ", worker,
                     " already: try again when one has ended"));
  }
  sessions_[session] = {worker, std::move(person)};
  return absl::OkStatus();
}

void ExecSessions::Close(const std::string& session) {
  MutexLock lock(mutex_);
  sessions_.erase(session);
}

absl::StatusOr<std::shared_ptr<ClientExecStream>> ExecSessions::Find(const std::string& session,
                                                                     const PeerNames& sender) {
  MutexLock lock(mutex_);
  const auto found = sessions_.find(session);
  std::shared_ptr<ClientExecStream> person;
  if (found != sessions_.end()) person = found->second.person.lock();
  if (person == nullptr) return absl::NotFoundError(kPersonIsGone);
  MUSTER_RETURN_IF_ERROR(CheckPeerIs(found->second.worker, sender));
  return person;
}

absl::Status ClientExecStream::Take(v1::ExecRequest& message) {
  const bool is_first = session_.empty();
  if (message.has_start() != is_first) {
    return absl::InvalidArgumentError("the first message, and no other one, is `start`");
  }
  if (is_first) return TakeStart(message.start());
  MUSTER_RETURN_IF_ERROR(CheckInput(message.input()));
  std::shared_ptr<AgentExecStream> agent;
  {
    MutexLock lock(state_);
    agent = agent_.lock();
  }
  if (agent != nullptr) agent->Enqueue(std::move(*message.mutable_input()));
  return absl::OkStatus();
}

absl::Status ClientExecStream::TakeStart(const v1::ExecStart& start) {
  MUSTER_RETURN_IF_ERROR(CheckStart(start));
  MUSTER_ASSIGN_OR_RETURN(Place place, FindPlace(start));
  MUSTER_ASSIGN_OR_RETURN(session_, RandomBytes(kSessionBytes));
  place.assignment.session = session_;
  MUSTER_RETURN_IF_ERROR(sessions_.Open(session_, place.worker, weak_from_this()));
  {
    MutexLock lock(mutex_);
    started_ = true;
  }
  {
    MutexLock lock(state_);
    project_ = place.project;
    owner_ = place.owner;
    worker_ = place.worker;
  }
  const std::string project = place.project;
  const std::string object = place.object;
  gate_.RecordChange(caller_, project, object,
                     [self = shared_from_this(), place = std::move(place)] { self->Ask(place); });
  return absl::OkStatus();
}

absl::StatusOr<ClientExecStream::Place> ClientExecStream::FindPlace(const v1::ExecStart& start) {
  KnownJobs jobs(engine_, gate_.ReadsOf(caller_));
  MUSTER_ASSIGN_OR_RETURN(const Job* job, jobs.Find(start.job()));
  MUSTER_RETURN_IF_ERROR(gate_.CheckJob(caller_, *job, jobs.NoSuchJob(start.job())));
  MUSTER_ASSIGN_OR_RETURN(const Rank* rank, FindRank(*job, start.rank()));
  if (rank->state != RankState::kRunning && rank->state != RankState::kStarted) {
    return absl::FailedPreconditionError(absl::StrCat(
        "rank ", rank->rank, " of job ", job->id, " does not run: `muster show ", job->id, "`"));
  }
  const Worker* worker = jobs.snapshot().FindWorker(rank->worker);
  if (worker != nullptr && !worker->facts.allows_commands) {
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", rank->worker, " was started without --allow-commands"));
  }
  const Attempt& attempt = *job->current;
  Place place{.worker = rank->worker,
              .incarnation = rank->incarnation,
              .project = job->settings->project,
              .owner = job->owner,
              .object = absl::StrCat("job ", job->id, ": exec beside rank ", rank->rank, " on ",
                                     rank->worker),
              .assignment = {}};
  place.assignment.fence = {attempt.job_id, attempt.number, attempt.generation, attempt.term};
  place.assignment.rank = rank->rank;
  place.assignment.argv = {start.argv().begin(), start.argv().end()};
  if (start.has_terminal()) {
    place.assignment.terminal = {start.terminal().rows(), start.terminal().columns(),
                                 start.terminal_type()};
  }
  return place;
}

void ClientExecStream::Ask(const Place& place) {
  {
    MutexLock lock(state_);
    asked_at_ = gate_.Now();
  }
  // What could not be recorded is not done.
  if (const absl::Status recorded = gate_.CanRecord(); !recorded.ok()) return Close(recorded);
  if (engine_.SendOnce(place.worker, place.incarnation, Assignment{.body = place.assignment}))
    return;
  Close(absl::UnavailableError(
      absl::StrCat("worker ", place.worker, " is not connected now: try again")));
}

absl::Status ClientExecStream::StillAllowed() const {
  std::string project;
  std::string owner;
  {
    MutexLock lock(state_);
    if (worker_.empty()) return absl::OkStatus();
    if (!attached_ && gate_.Now() - asked_at_ > kAnswerPatience) {
      return absl::UnavailableError(absl::StrCat(
          "worker ", worker_, " did not answer within ", HumanDuration(kAnswerPatience),
          ": its agent is too old for `muster exec`, or has too many programs open (its log "
          "says exec_left_off)"));
    }
    project = project_;
    owner = owner_;
  }
  return gate_.CheckJobAgain(caller_, project, owner);
}

absl::Status ClientExecStream::Attach(const std::shared_ptr<AgentExecStream>& agent) {
  MutexLock lock(state_);
  if (over_) return absl::NotFoundError(kPersonIsGone);
  if (std::exchange(attached_, true)) {
    return absl::FailedPreconditionError("an agent has taken this session already");
  }
  agent_ = agent;
  return absl::OkStatus();
}

void ClientExecStream::StartForwarding(const std::shared_ptr<AgentExecStream>& agent) {
  SetPeer(agent);
}

void ClientExecStream::OnOutput(v1::ExecOutput output) {
  const bool is_end = output.has_end();
  if (is_end) {
    MutexLock lock(state_);
    told_end_ = true;
  }
  // Its place is another's now: a person may take long to read the rest.
  if (is_end) sessions_.Close(session_);
  Enqueue(std::move(output));
  if (is_end) Close(absl::OkStatus());
}

void ClientExecStream::OnPeerClosed(const absl::Status& why) {
  std::string worker;
  {
    MutexLock lock(state_);
    if (told_end_) return;
    worker = worker_;
  }
  Close(absl::UnavailableError(
      absl::StrCat("worker ", worker,
                   ": the call over which the program ran has ended, and the program with it: ",
                   why.message())));
}

void ClientExecStream::OnOver() {
  sessions_.Close(session_);
  std::shared_ptr<AgentExecStream> agent;
  bool is_done = false;
  {
    MutexLock lock(state_);
    over_ = true;
    agent = agent_.lock();
    is_done = told_end_;
  }
  if (agent == nullptr) return;
  agent->OnPeerClosed(is_done ? absl::OkStatus() : absl::CancelledError(kPersonIsGone));
}

absl::Status AgentExecStream::Take(v1::ExecOutput& message) {
  if (person_ != nullptr) {
    MUSTER_RETURN_IF_ERROR(CheckOutput(message));
    if (message.body_case() == v1::ExecOutput::BODY_NOT_SET) return absl::OkStatus();
    const bool is_end = message.has_end();
    person_->OnOutput(std::move(message));
    if (is_end) Close(absl::OkStatus());  // however long the person takes to read the rest
    return absl::OkStatus();
  }
  if (!message.has_session()) {
    return absl::InvalidArgumentError("the first message must name the session");
  }
  MUSTER_ASSIGN_OR_RETURN(person_, sessions_.Find(message.session(), sender_));
  {
    MutexLock lock(mutex_);
    started_ = true;
  }
  if (const absl::Status attached = person_->Attach(shared_from_this()); !attached.ok()) {
    person_ = nullptr;
    return attached;
  }
  SetPeer(person_);
  v1::ExecInput accepted;  // before all that the person says
  accepted.set_accepted(true);
  Enqueue(std::move(accepted));
  person_->StartForwarding(shared_from_this());
  return absl::OkStatus();
}

void AgentExecStream::OnOver() {
  if (person_ != nullptr)
    person_->OnPeerClosed(absl::CancelledError("its agent or the connection is gone"));
}

}  // namespace muster::controller
