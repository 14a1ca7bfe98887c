// `muster ckpt ls / show / verify`: what jobs saved.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/commands/commands.h"
#include "cli/output/views.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

// Rereading a large checkpoint takes its time.
constexpr absl::Duration kVerifyTimeout = absl::Minutes(10);
constexpr char kRefHelp[] = "its id, or JOB@STEP, JOB@best, JOB@newest";

using Checkpoints = std::vector<v1::CheckpointInfo>;

absl::StatusOr<Checkpoints> List(const v1::JobRef& job, Session& session) {
  v1::ListCheckpointsRequest request;
  *request.mutable_job() = job;
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  Checkpoints checkpoints;
  do {
    MUSTER_ASSIGN_OR_RETURN(
        const v1::ListCheckpointsResponse page,
        client->Call(&v1::JobService::Stub::ListCheckpoints, request, session.timeout()));
    checkpoints.insert(checkpoints.end(), page.checkpoints().begin(), page.checkpoints().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return checkpoints;
}

// JOB@which. Deleted and corrupt ones are found by their step only.
absl::StatusOr<v1::CheckpointInfo> FindOfJob(const std::string& job, const std::string& which,
                                             Session& session) {
  int64_t step = 0;
  const bool by_step = absl::SimpleAtoi(which, &step);
  if (!by_step && which != "best" && which != "newest") {
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint ", job, "@", which, ": a checkpoint is ", kRefHelp));
  }
  MUSTER_ASSIGN_OR_RETURN(const v1::JobRef ref, ParseJobRef(job));
  MUSTER_ASSIGN_OR_RETURN(const Checkpoints checkpoints, List(ref, session));
  const auto it =
      std::find_if(checkpoints.begin(), checkpoints.end(), [&](const v1::CheckpointInfo& c) {
        if (by_step) return c.step() == step;
        const bool whole = c.state() == v1::COMMITTED || c.state() == v1::VERIFIED;
        return whole && (which == "newest" || c.best());
      });
  if (it != checkpoints.end()) return *it;
  return WithHint(
      absl::NotFoundError(absl::StrCat("checkpoint ", job, "@", which, ": there is none")),
      absl::StrCat("`muster ckpt ls ", job, "` shows those there are"));
}

// By id alone the protocol has no call, so the jobs are gone through, newest first.
absl::StatusOr<v1::CheckpointInfo> FindById(uint64_t id, Session& session) {
  constexpr uint32_t kMostJobs = 1000;
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  v1::ListJobsRequest request;
  request.set_page_size(kMostJobs);
  MUSTER_ASSIGN_OR_RETURN(
      const v1::ListJobsResponse jobs,
      client->Call(&v1::JobService::Stub::ListJobs, request, session.timeout()));
  for (const v1::JobSummary& job : jobs.jobs()) {
    v1::JobRef ref;
    ref.set_id(job.id());
    MUSTER_ASSIGN_OR_RETURN(const Checkpoints checkpoints, List(ref, session));
    for (const v1::CheckpointInfo& checkpoint : checkpoints) {
      if (checkpoint.id() == id) return checkpoint;
    }
  }
  return WithHint(
      absl::NotFoundError(absl::StrCat("checkpoint ", id, ": not among those of the newest ",
                                       jobs.jobs_size(), " jobs")),
      "`muster ckpt ls JOB` shows a job's checkpoints");
}

absl::StatusOr<v1::CheckpointInfo> Find(const std::string& text, Session& session) {
  if (text.find('@') != std::string::npos) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('@', 1));
    return FindOfJob(parts.first, parts.second, session);
  }
  uint64_t id = 0;
  if (absl::SimpleAtoi(text, &id)) return FindById(id, session);
  return absl::InvalidArgumentError(
      absl::StrCat("checkpoint ", text, ": a checkpoint is ", kRefHelp));
}

absl::StatusOr<ExitCode> RunLs(const std::string& job, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(const v1::JobRef ref, ParseJobRef(job));
  MUSTER_ASSIGN_OR_RETURN(const Checkpoints checkpoints, List(ref, session));
  session.PrintList(CheckpointTable(checkpoints, WallNow(), session.globals().wide()),
                    ToJsonList(checkpoints), "id");
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> RunShow(const std::string& text, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(const v1::CheckpointInfo checkpoint, Find(text, session));
  session.PrintOne(CheckpointPage(checkpoint, WallNow()), ToJson(checkpoint), "id");
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> RunVerify(const std::string& text, Session& session) {
  v1::VerifyCheckpointRequest request;
  uint64_t id = 0;
  if (!absl::SimpleAtoi(text, &id)) {
    MUSTER_ASSIGN_OR_RETURN(const v1::CheckpointInfo found, Find(text, session));
    id = found.id();
  }
  request.set_checkpoint_id(id);
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  session.Say(absl::StrCat("checkpoint ", id, ": a worker rereads it"));
  MUSTER_ASSIGN_OR_RETURN(const v1::VerifyCheckpointResponse response,
                          client->Call(&v1::JobService::Stub::VerifyCheckpoint, request,
                                       session.timeout(kVerifyTimeout)));
  const v1::CheckpointInfo& checkpoint = response.checkpoint();
  session.PrintOne(
      absl::StrCat(
          "checkpoint ", checkpoint.id(), ": ", v1::CheckpointState_Name(checkpoint.state()),
          checkpoint.message().empty() ? "" : absl::StrCat(": ", checkpoint.message()), "\n"),
      ToJson(checkpoint), "id");
  return checkpoint.state() == v1::VERIFIED ? ExitCode::kDone : ExitCode::kInternal;
}

void AddOne(CLI::App* parent, const char* name, const char* help, const char* argument,
            const char* argument_help,
            absl::StatusOr<ExitCode> (*run)(const std::string&, Session&), Session& session,
            Verb& verb) {
  CLI::App* command = parent->add_subcommand(name, help);
  const auto text = std::make_shared<std::string>();
  command->add_option(argument, *text, argument_help)->required();
  command->callback([=, &session, &verb] { verb = [=, &session] { return run(*text, session); }; });
}

}  // namespace

void AddCkpt(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("ckpt", "checkpoints: list, show, verify")->require_subcommand(1);
  AddOne(command, "ls", "list a job's checkpoints, newest first", "JOB", "its id or name", RunLs,
         session, verb);
  AddOne(command, "show", "all about one checkpoint", "CKPT", kRefHelp, RunShow, session, verb);
  AddOne(command, "verify", "have a worker reread one; 0: whole, 1: not", "CKPT", kRefHelp,
         RunVerify, session, verb);
}

}  // namespace muster::cli
