// The verbs: their flags, their help, and what they do. `run` and `top` are in foreground.h,
// `model`, `check` and `data` in trainer/model.h; app.cc lists all. One file a verb, of its name,
// or of what several share.
//
// AddX declares the verb on the command line. When it is the one that was asked for, parsing sets
// `verb` to what runs it, which returns the exit code, or the error to print. Session and verb must
// outlive the App.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <functional>

#include "absl/status/statusor.h"
#include "cli/session/cli_session.h"

namespace muster::cli {

using Verb = std::function<absl::StatusOr<ExitCode>()>;

void AddAdmin(CLI::App& app, Session& session, Verb& verb);
void AddCancel(CLI::App& app, Session& session, Verb& verb);
void AddCkpt(CLI::App& app, Session& session, Verb& verb);
void AddCompare(CLI::App& app, Session& session, Verb& verb);
void AddControl(CLI::App& app, Session& session, Verb& verb);  // hold, release, suspend, ...
void AddDebug(CLI::App& app, Session& session, Verb& verb);
void AddEvents(CLI::App& app, Session& session, Verb& verb);
void AddExec(CLI::App& app, Session& session, Verb& verb);
void AddExplain(CLI::App& app, Session& session, Verb& verb);
void AddGoodput(CLI::App& app, Session& session, Verb& verb);
void AddHistory(CLI::App& app, Session& session, Verb& verb);
void AddLocal(CLI::App& app, Session& session, Verb& verb);
void AddLogs(CLI::App& app, Session& session, Verb& verb);
void AddLs(CLI::App& app, Session& session, Verb& verb);
void AddMetrics(CLI::App& app, Session& session, Verb& verb);
void AddNodes(CLI::App& app, Session& session, Verb& verb);
void AddProject(CLI::App& app, Session& session, Verb& verb);  // project, quota, share
void AddShow(CLI::App& app, Session& session, Verb& verb);
void AddSubmit(CLI::App& app, Session& session, Verb& verb);
void AddUpdate(CLI::App& app, Session& session, Verb& verb);
void AddVersion(CLI::App& app, Session& session, Verb& verb);
void AddWait(CLI::App& app, Session& session, Verb& verb);
void AddWatch(CLI::App& app, Session& session, Verb& verb);

// Shared by `watch` and `submit --watch`: shows the job until it has ended, then says how. Redraws
// in place on a terminal, prints lines elsewhere, JSON lines with -o json or jsonl.
absl::StatusOr<ExitCode> WatchJob(Session& session, const v1::JobRef& job);

// Shared by `wait` and `submit --wait`: progress on stderr, the job as it ended on stdout.
absl::StatusOr<ExitCode> WaitForJob(Session& session, const v1::JobRef& job);
// The job as it ended; progress on stderr.
absl::StatusOr<v1::JobSummary> FollowToEnd(Session& session, const v1::JobRef& job,
                                           absl::Duration began = SteadyNow());

}  // namespace muster::cli
