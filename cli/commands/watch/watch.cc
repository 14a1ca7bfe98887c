// `muster watch`: one job, live.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/calls/follow.h"
#include "cli/commands/commands.h"
#include "cli/output/views/watch_view.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

// Where lines are printed one under the other, progress alone brings a new one no sooner than this.
constexpr absl::Duration kLineInterval = absl::Seconds(2);
constexpr uint32_t kHistoryPoints = 200;

class Display {
 public:
  explicit Display(Session& session) : session_(session) {}

  WatchHistory& history() { return history_; }

  void Show(const v1::JobSummary& job) {
    const absl::Duration now = SteadyNow();
    history_.Observe(now, job);
    if (IsJson(session_.globals().format)) {
      session_.host().out << JsonLine(ToJson(job)) << std::flush;
    } else if (session_.host().terminal) {
      Redraw(job);
    } else {
      Line(now, job);
    }
  }

 private:
  void Redraw(const v1::JobSummary& job) {
    Host& host = session_.host();
    std::string text;
    if (drawn_ > 0 && said_ == session_.said()) text = absl::StrCat("\x1b[", drawn_, "A");
    const auto lines = WatchBlock(job, history_, host.width - 1, host.unicode);
    for (const std::string& line : lines) absl::StrAppend(&text, "\r\x1b[2K", line, "\n");
    drawn_ = lines.size();
    said_ = session_.said();
    host.out << text << std::flush;
  }

  void Line(absl::Duration now, const v1::JobSummary& job) {
    const std::string what = absl::StrCat(job.state(), " ", job.attempt(), " ", job.message());
    const std::string where = absl::StrCat(job.step(), " ", job.phase());
    if (what == last_what_ && (now - last_line_ < kLineInterval || where == last_where_)) return;
    last_what_ = what;
    last_where_ = where;
    last_line_ = now;
    session_.host().out << WatchLine(job, history_) << std::endl;
  }

  Session& session_;
  WatchHistory history_;
  size_t drawn_ = 0;
  int said_ = 0;
  std::string last_what_;
  std::string last_where_;
  absl::Duration last_line_;
};

// The curve so far. Without it the display only starts empty, so an error here is no error of the
// watch, nor is an interrupt: FollowJob, which comes next, ends with it.
void FillHistory(Session& session, InterruptGuard& guard, Client& client, const v1::JobRef& job,
                 WatchHistory& history) {
  v1::QueryMetricsRequest request;
  *request.mutable_job() = job;
  request.add_names("loss");
  request.set_max_points(kHistoryPoints);
  const auto points = client.Call(&Jobs::QueryMetrics, request, session.timeout(), &guard);
  if (!points.ok()) return;
  for (const v1::MetricPoint& point : points->points())
    history.AddLoss(point.step(), point.value());
}

}  // namespace

absl::StatusOr<ExitCode> WatchJob(Session& session, const v1::JobRef& job) {
  MUSTER_RETURN_IF_ERROR(session.CheckLineFormat());
  InterruptGuard guard;
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  Display display(session);
  FillHistory(session, guard, *client, job, display.history());
  MUSTER_ASSIGN_OR_RETURN(
      const v1::JobSummary summary,
      FollowJob(session, guard, job, [&](const v1::JobSummary& s) { display.Show(s); }));
  if (!IsJson(session.globals().format)) session.host().out << OutcomeText(summary) << std::endl;
  return ExitCodeOf(summary);
}

void AddWatch(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command = app.add_subcommand("watch",
                                         "see a job train: progress, loss, throughput, memory, "
                                         "accuracy; ends with the job and its exit code");
  const auto job = std::make_shared<std::string>();
  command->add_option("JOB", *job, "its id or name")->required();
  command->callback([job, &session, &verb] {
    verb = [job, &session]() -> absl::StatusOr<ExitCode> {
      MUSTER_ASSIGN_OR_RETURN(const v1::JobRef ref, ParseJobRef(*job));
      return WatchJob(session, ref);
    };
  });
}

}  // namespace muster::cli
