#include "cli/commands/checkpoints/ckpt_control.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/calls/change.h"
#include "cli/commands/checkpoints/checkpoint_ref.h"
#include "cli/output/views/views.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

using CkptRequest = v1::ControlCheckpointRequest;

struct CkptControl {
  const char* name;
  const char* help;
  CkptRequest::Verb verb;
};

constexpr CkptControl kCkptControls[] = {
    {"pin", "keep checkpoints, whatever is deleted, until they are unpinned", CkptRequest::PIN},
    {"unpin", "let pinned checkpoints go as others do", CkptRequest::UNPIN},
    {"rm", "have a worker delete checkpoints", CkptRequest::REMOVE},
};

struct CkptControlFlags {
  std::vector<std::string> checkpoints;
  bool force = false;
};

absl::StatusOr<v1::CheckpointInfo> ControlNamed(const std::string& text, CkptRequest::Verb verb,
                                                bool force, Session& session) {
  uint64_t id = 0;
  if (!absl::SimpleAtoi(text, &id)) {
    MUSTER_ASSIGN_OR_RETURN(const v1::CheckpointInfo found, FindCheckpoint(text, session));
    id = found.id();
  }
  return ControlCheckpoint(id, verb, force, session);
}

// Goes on after one that it cannot be done to; the first error decides the exit code.
absl::StatusOr<ExitCode> RunCkptControl(CkptRequest::Verb verb, const CkptControlFlags& flags,
                                        Session& session) {
  std::vector<v1::CheckpointInfo> done;
  absl::Status first;
  for (const std::string& text : flags.checkpoints) {
    absl::StatusOr<v1::CheckpointInfo> answer = ControlNamed(text, verb, flags.force, session);
    if (answer.ok()) {
      done.push_back(*std::move(answer));
    } else if (first.ok()) {
      first = answer.status();
    } else {
      session.host().err << ErrorText(answer.status(), IsJson(session.globals().format));
    }
  }
  if (session.globals().tables()) {
    for (const v1::CheckpointInfo& c : done) {
      session.host().out << absl::StrCat("checkpoint ", c.id(), ": ", CheckpointStateText(c), "\n");
    }
  } else if (!done.empty()) {
    session.PrintList(Table({}), ToJsonList(done), "id");
  }
  if (!first.ok()) return first;
  return ExitCode::kDone;
}

}  // namespace

absl::StatusOr<v1::CheckpointInfo> ControlCheckpoint(uint64_t id, CkptRequest::Verb verb,
                                                     bool force, Session& session) {
  CkptRequest request;
  request.set_checkpoint_id(id);
  request.set_verb(verb);
  request.set_force(force);
  request.set_user(UserName(session.host()));
  MUSTER_ASSIGN_OR_RETURN(v1::ControlCheckpointResponse response,
                          SendChange(session, &Jobs::ControlCheckpoint, request));
  return std::move(*response.mutable_checkpoint());
}

void AddCkptControl(CLI::App& ckpt, Session& session, Verb& verb) {
  for (const CkptControl& control : kCkptControls) {
    CLI::App* command = ckpt.add_subcommand(control.name, control.help);
    const auto flags = std::make_shared<CkptControlFlags>();
    command->add_option("CKPT", flags->checkpoints, kCheckpointRefHelp)->required();
    if (control.verb == CkptRequest::REMOVE) {
      command->add_flag("--force", flags->force, "also where its job has no other verified one");
    }
    command->callback([flags, wanted = control.verb, &session, &verb] {
      verb = [flags, wanted, &session] { return RunCkptControl(wanted, *flags, session); };
    });
  }
}

}  // namespace muster::cli
