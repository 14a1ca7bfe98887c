// `muster top`: the machines and what runs on them, again and again.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/calls/all_workers.h"
#include "cli/commands/foreground.h"
#include "cli/output/proto_json.h"
#include "cli/output/views/top_view.h"
#include "cli/session/interrupt.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

constexpr uint32_t kMaxPage = 1000;
// Lines of a screen that are no rows: the sum, two blanks, two headers, two "and N further".
constexpr size_t kFixedLines = 7;

struct TopFlags {
  bool once = false;
  std::string interval = "2s";
};

size_t TerminalLines() {
  struct winsize size {};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
  return known ? size.ws_row : 30;
}

// CANCELLED: interrupted.
absl::StatusOr<TopPicture> FetchTop(Client& client, Session& session, InterruptGuard& guard) {
  TopPicture picture;
  MUSTER_ASSIGN_OR_RETURN(picture.workers, AllWorkers(session, &guard));
  v1::ListJobsRequest request;
  request.set_page_size(kMaxPage);
  for (const v1::JobState state : {v1::STARTING, v1::RUNNING, v1::RECOVERING, v1::STOPPING}) {
    request.add_states(state);
  }
  do {
    MUSTER_ASSIGN_OR_RETURN(const v1::ListJobsResponse running,
                            client.Call(&Jobs::ListJobs, request, session.timeout(), &guard));
    picture.jobs.insert(picture.jobs.end(), running.jobs().begin(), running.jobs().end());
    request.set_page_token(running.next_page_token());
  } while (!request.page_token().empty());
  request.clear_states();
  request.add_states(v1::PENDING);
  MUSTER_ASSIGN_OR_RETURN(const v1::ListJobsResponse waiting,
                          client.Call(&Jobs::ListJobs, request, session.timeout(), &guard));
  picture.waiting = static_cast<size_t>(waiting.jobs_size());
  picture.more_waiting = !waiting.next_page_token().empty();
  return picture;
}

void ShowFrame(const TopPicture& picture, bool redraw, Session& session) {
  Host& host = session.host();
  if (!session.globals().tables()) {
    const Json json = {{"workers", ToJsonList(picture.workers)},
                       {"jobs", ToJsonList(picture.jobs)},
                       {"waiting", picture.waiting}};
    session.PrintOne("", json, "waiting");
    host.out << std::flush;
    return;
  }
  constexpr size_t kNoLimit = 10'000;
  const size_t width = redraw ? host.width : session.globals().wide() ? kNoLimit : kTableWidth;
  const size_t rows = redraw ? std::max(TerminalLines(), kFixedLines + 4) - kFixedLines : 0;
  const std::vector<std::string> lines = TopLines(picture, WallNow(), width, rows / 2);
  if (!redraw) {
    host.out << absl::StrJoin(lines, "\n") << "\n" << std::flush;
    return;
  }
  // From the top left corner, over what was there, and nothing below.
  std::string text = "\x1b[H";
  for (const std::string& line : lines) absl::StrAppend(&text, line, "\x1b[K\r\n");
  host.out << text << "\x1b[J" << std::flush;
}

absl::StatusOr<ExitCode> RunTop(const TopFlags& flags, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(const absl::Duration interval, ParseDuration(flags.interval));
  if (interval < absl::Milliseconds(100)) {
    return absl::InvalidArgumentError("--interval: must be at least 100ms");
  }
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  const bool redraw = session.host().terminal && session.globals().tables() && !flags.once;
  InterruptGuard guard;
  if (redraw) session.host().out << "\x1b[2J";
  while (true) {
    const absl::StatusOr<TopPicture> picture = FetchTop(*client, session, guard);
    // Looking is all that it does: an interrupt is its usual end, unless one look was asked for.
    if (!picture.ok() && guard.interrupted()) {
      return flags.once ? ExitCode::kInterrupted : ExitCode::kDone;
    }
    MUSTER_RETURN_IF_ERROR(picture.status());
    ShowFrame(*picture, redraw, session);
    if (flags.once || !guard.Pause(interval)) return ExitCode::kDone;
    if (!redraw && session.globals().tables()) session.host().out << "\n";
  }
}

}  // namespace

void AddTop(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command = app.add_subcommand(
      "top", "see workers and running jobs, refreshed: slots, CPUs, memory and GPUs in use");
  const auto flags = std::make_shared<TopFlags>();
  command->add_flag("--once", flags->once, "look once and end");
  command->add_option("--interval", flags->interval, "time between two refreshes")
      ->capture_default_str();
  command->callback(
      [flags, &session, &verb] { verb = [flags, &session] { return RunTop(*flags, session); }; });
}

}  // namespace muster::cli
