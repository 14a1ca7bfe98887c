// `muster metrics`: a job's numbers as a summary, as curves, or as data.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/commands/commands.h"
#include "cli/output/chart.h"
#include "cli/output/metric_fold.h"
#include "cli/output/text.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

constexpr size_t kPlotHeight = 12;
constexpr size_t kCurveWidth = 30;

struct MetricsFlags {
  std::string job;
  std::vector<std::string> names;
  std::vector<std::string> plot;
  std::optional<uint32_t> rank;
  int64_t from_step = 0;
  int64_t to_step = 0;
  uint32_t max_points = 0;
  bool logarithmic = false;
};

// More than a plot has columns.
constexpr uint32_t kMostPlotted = 2'000;

using Page = google::protobuf::RepeatedPtrField<v1::MetricPoint>;
using Curves = std::map<std::string, std::vector<PlotPoint>>;

absl::Status CheckPlotted(const MetricsFlags& flags, const std::set<std::string>& missing) {
  for (const std::string& name : flags.plot) {
    if (missing.count(name) == 0) continue;
    return WithHint(
        absl::NotFoundError(absl::StrCat("job ", flags.job, ": no metric '", name, "' reported")),
        absl::StrCat("`muster metrics ", flags.job, "` shows the names there are"));
  }
  return absl::OkStatus();
}

// Gives the points page by page: by name, then step. NOT_FOUND: there are none of one that is to be
// drawn.
absl::Status ForEachPage(const MetricsFlags& flags, Session& session,
                         absl::FunctionRef<void(const Page&)> take) {
  v1::QueryMetricsRequest request;
  MUSTER_ASSIGN_OR_RETURN(*request.mutable_job(), ParseJobRef(flags.job));
  for (const std::string& name : flags.plot.empty() ? flags.names : flags.plot)
    request.add_names(name);
  request.set_from_step(flags.from_step);
  request.set_to_step(flags.to_step);
  request.set_max_points(flags.max_points);
  if (flags.rank.has_value()) request.set_rank(*flags.rank);
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  std::set<std::string> missing(flags.plot.begin(), flags.plot.end());
  do {
    MUSTER_ASSIGN_OR_RETURN(const v1::QueryMetricsResponse page,
                            client->Call(&Jobs::QueryMetrics, request, session.timeout()));
    for (const v1::MetricPoint& point : page.points()) missing.erase(point.name());
    take(page.points());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && session.host().out);
  if (!session.host().out) return absl::OkStatus();  // RunMuster says so
  return CheckPlotted(flags, missing);
}

Table Summary(const std::map<std::string, MetricFold>& metrics, bool unicode) {
  Table table({{"NAME", false, true},
               {"POINTS", true},
               {"FIRST", true},
               {"LEAST", true},
               {"MOST", true},
               {"LAST", true},
               {"CURVE"}});
  for (const auto& [name, fold] : metrics) {
    const bool bytes = absl::EndsWith(name, "_bytes");
    const auto shown = [bytes](double value) { return bytes ? Bytes(value) : Number(value); };
    table.Add({name, absl::StrCat(fold.count()), shown(fold.first()), shown(fold.least()),
               shown(fold.most()), shown(fold.last()),
               Sparkline(fold.Curve(), kCurveWidth, unicode)});
  }
  return table;
}

absl::Status PrintSummary(const MetricsFlags& flags, Session& session) {
  std::map<std::string, MetricFold> metrics;
  MUSTER_RETURN_IF_ERROR(ForEachPage(flags, session, [&](const Page& page) {
    for (const v1::MetricPoint& point : page) metrics[point.name()].Add(point.value());
  }));
  if (metrics.empty()) {
    session.Say(absl::StrCat("job ", flags.job, ": nothing reported yet"));
  } else {
    session.PrintList(Summary(metrics, session.host().unicode), {}, "name");
  }
  return absl::OkStatus();
}

// Every point. Lines are printed as they come; JSON and YAML are one document of all.
absl::Status PrintPoints(const MetricsFlags& flags, Session& session) {
  const Format format = session.globals().format;
  const bool whole = format == Format::kJson || format == Format::kYaml;
  std::vector<Json> items;
  bool first = true;
  MUSTER_RETURN_IF_ERROR(ForEachPage(flags, session, [&](const Page& page) {
    for (const v1::MetricPoint& point : page) items.push_back(ToJson(point));
    if (whole) return;
    std::string text = RenderList(format, items, "name");
    // The header stands above the first page alone.
    if (format == Format::kCsv && !first) text.erase(0, text.find('\n') + 1);
    session.host().out << text;
    first = first && items.empty();
    items.clear();
  }));
  if (whole) session.PrintList(Table({}), items, "name");
  return absl::OkStatus();
}

absl::Status PrintPlots(MetricsFlags flags, Session& session) {
  if (flags.max_points == 0) flags.max_points = kMostPlotted;
  Curves curves;
  MUSTER_RETURN_IF_ERROR(ForEachPage(flags, session, [&](const Page& page) {
    for (const v1::MetricPoint& point : page)
      curves[point.name()].push_back({point.step(), point.value()});
  }));
  const Host& host = session.host();
  for (const std::string& name : flags.plot) {
    session.host().out << Plot(name, curves.at(name),
                               {.width = std::min(host.width, kTableWidth),
                                .height = kPlotHeight,
                                .unicode = host.unicode,
                                .logarithmic = flags.logarithmic});
  }
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> RunMetrics(const MetricsFlags& flags, Session& session) {
  if (!session.globals().tables()) {
    MUSTER_RETURN_IF_ERROR(PrintPoints(flags, session));
  } else if (flags.plot.empty()) {
    MUSTER_RETURN_IF_ERROR(PrintSummary(flags, session));
  } else {
    MUSTER_RETURN_IF_ERROR(PrintPlots(flags, session));
  }
  return ExitCode::kDone;
}

}  // namespace

void AddMetrics(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("metrics", "a job's numbers; -o csv or json gives every point");
  const auto flags = std::make_shared<MetricsFlags>();
  command->add_option("JOB", flags->job, "its id or name")->required();
  command->add_option("--names", flags->names, "only these, comma-separated")->delimiter(',');
  CLI::Option* plot =
      command->add_option("--plot", flags->plot, "draw these as curves, comma-separated: loss,lr");
  plot->delimiter(',');
  command->add_flag("--log", flags->logarithmic, "draw them on a logarithmic scale")->needs(plot);
  command->add_option("--rank", flags->rank, "of this rank (default: rank 0)");
  command->add_option("--from-step", flags->from_step, "from this step on");
  command->add_option("--to-step", flags->to_step, "up to this step");
  command->add_option("--max-points", flags->max_points,
                      "at most so many of each name, evenly spread");
  command->callback([flags, &session, &verb] {
    verb = [flags, &session] { return RunMetrics(*flags, session); };
  });
}

}  // namespace muster::cli
