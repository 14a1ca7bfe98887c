// `muster ckpt ls / show / verify`: what jobs saved. Other verbs of it have their own files.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/commands/checkpoints/checkpoint_ref.h"
#include "cli/commands/checkpoints/ckpt_control.h"
#include "cli/commands/checkpoints/ckpt_export.h"
#include "cli/commands/checkpoints/ckpt_gc.h"
#include "cli/commands/checkpoints/ckpt_import.h"
#include "cli/commands/commands.h"
#include "cli/commands/list_flags.h"
#include "cli/output/text.h"
#include "cli/output/views/views.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

// Rereading a large checkpoint takes its time.
constexpr absl::Duration kVerifyTimeout = absl::Minutes(10);

std::vector<ListKey> CheckpointKeys() {
  return {{"size", "bytes"},
          {"validation", "validation_accuracy"},
          {"age", "created_ms", /*age=*/true},
          {"note", "message"}};
}

absl::StatusOr<ExitCode> ListOfJob(const std::string& job, const ListRequest& list,
                                   Session& session) {
  MUSTER_ASSIGN_OR_RETURN(
      const ListView view,
      ListView::Create(list, CheckpointKeys(), ToJson(v1::CheckpointInfo()), WallNow()));
  MUSTER_ASSIGN_OR_RETURN(const v1::JobRef ref, ParseJobRef(job));
  MUSTER_ASSIGN_OR_RETURN(Checkpoints checkpoints, ListCheckpoints(ref, session));
  checkpoints = view.Arrange(checkpoints);
  MUSTER_RETURN_IF_ERROR(
      PrintListView(view, CheckpointTable(checkpoints, WallNow(), NeedsWideTable(view, session)),
                    ToJsonList(checkpoints), "id", session));
  return ExitCode::kDone;
}

// Of all jobs, those that take room.
absl::StatusOr<ExitCode> ListKept(const JobsWanted& wanted, const ListRequest& list,
                                  Session& session) {
  MUSTER_ASSIGN_OR_RETURN(
      const ListView view,
      ListView::Create(list, CheckpointKeys(), ToJson(v1::CheckpointInfo()), WallNow()));
  Checkpoints kept;
  std::map<uint64_t, std::string> names;
  uint64_t bytes = 0;
  MUSTER_RETURN_IF_ERROR(ForEachJobsCheckpoints(
      wanted, session, [&](const v1::JobSummary& job, Checkpoints checkpoints) {
        for (v1::CheckpointInfo& c : checkpoints) {
          if (c.state() == v1::DELETED) continue;
          names.emplace(job.id(), JobName(job));
          bytes += c.bytes();
          kept.push_back(std::move(c));
        }
      }));
  const size_t count = kept.size();
  kept = view.Arrange(kept);
  MUSTER_RETURN_IF_ERROR(
      PrintListView(view, CheckpointTable(kept, WallNow(), NeedsWideTable(view, session), &names),
                    ToJsonList(kept), "id", session));
  session.Say(absl::StrCat(count, count == 1 ? " checkpoint of " : " checkpoints of ", names.size(),
                           names.size() == 1 ? " job, " : " jobs, ",
                           Bytes(static_cast<double>(bytes))));
  return ExitCode::kDone;
}

void AddCheckpointList(CLI::App* parent, Session& session, Verb& verb) {
  CLI::App* command = parent->add_subcommand(
      "ls",
      "list a job's checkpoints, newest first, or those that all jobs keep, with their sizes");
  const auto job = std::make_shared<std::string>();
  const auto list = std::make_shared<ListRequest>();
  const auto wanted = std::make_shared<JobsWanted>();
  CLI::Option* of_job =
      command->add_option("JOB", *job, "its id or name; none: all jobs, archived ones too");
  command->add_option("--project", wanted->project, "only of jobs of this project")
      ->excludes(of_job);
  command->add_option("--owner", wanted->owner, "only of jobs of this user")->excludes(of_job);
  AddListFlags(*command, *list);
  command->callback([=, &session, &verb] {
    verb = [=, &session] {
      return job->empty() ? ListKept(*wanted, *list, session) : ListOfJob(*job, *list, session);
    };
  });
}

absl::StatusOr<ExitCode> ShowCheckpoint(const std::string& text, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(const v1::CheckpointInfo checkpoint, FindCheckpoint(text, session));
  session.PrintOne(CheckpointPage(checkpoint, WallNow()), ToJson(checkpoint), "id");
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> VerifyCheckpoint(const std::string& text, Session& session) {
  v1::VerifyCheckpointRequest request;
  uint64_t id = 0;
  if (!absl::SimpleAtoi(text, &id)) {
    MUSTER_ASSIGN_OR_RETURN(const v1::CheckpointInfo found, FindCheckpoint(text, session));
    id = found.id();
  }
  request.set_checkpoint_id(id);
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  session.Say(absl::StrCat("checkpoint ", id, ": a worker rereads it"));
  MUSTER_ASSIGN_OR_RETURN(
      const v1::VerifyCheckpointResponse response,
      client->CallOnce(&Jobs::VerifyCheckpoint, request, session.timeout(kVerifyTimeout)));
  const v1::CheckpointInfo& checkpoint = response.checkpoint();
  session.PrintOne(
      absl::StrCat(
          "checkpoint ", checkpoint.id(), ": ", v1::CheckpointState_Name(checkpoint.state()),
          checkpoint.message().empty() ? "" : absl::StrCat(": ", Plain(checkpoint.message())),
          "\n"),
      ToJson(checkpoint), "id");
  return checkpoint.state() == v1::VERIFIED ? ExitCode::kDone : ExitCode::kInternal;
}

void AddCheckpointVerb(CLI::App* parent, const char* name, const char* help, const char* argument,
                       const char* argument_help,
                       absl::StatusOr<ExitCode> (*run)(const std::string&, Session&),
                       Session& session, Verb& verb) {
  CLI::App* command = parent->add_subcommand(name, help);
  const auto text = std::make_shared<std::string>();
  command->add_option(argument, *text, argument_help)->required();
  command->callback([=, &session, &verb] { verb = [=, &session] { return run(*text, session); }; });
}

}  // namespace

void AddCkpt(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("ckpt", "checkpoints: list, show, verify, keep, delete, import, export")
          ->require_subcommand(1);
  AddCheckpointList(command, session, verb);
  AddCheckpointVerb(command, "show", "all about one checkpoint", "CKPT", kCheckpointRefHelp,
                    ShowCheckpoint, session, verb);
  AddCheckpointVerb(command, "verify", "have a worker reread one; 0: whole, 1: not", "CKPT",
                    kCheckpointRefHelp, VerifyCheckpoint, session, verb);
  AddCkptControl(*command, session, verb);
  AddCkptGc(*command, session, verb);
  AddCkptImport(*command, session, verb);
  AddCkptExport(*command, session, verb);
}

}  // namespace muster::cli
