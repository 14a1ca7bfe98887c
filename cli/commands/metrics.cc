// `muster metrics`: a job's numbers as a summary, as curves, or as data.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/commands/commands.h"
#include "cli/output/chart.h"
#include "cli/output/text.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

constexpr size_t kPlotHeight = 12;
constexpr size_t kCurveWidth = 30;

struct Flags {
  std::string job;
  std::vector<std::string> names;
  std::vector<std::string> plot;
  std::optional<uint32_t> rank;
  int64_t from_step = 0;
  int64_t to_step = 0;
  uint32_t max_points = 0;
  bool logarithmic = false;
};

using Points = std::vector<v1::MetricPoint>;
using Curves = std::map<std::string, std::vector<PlotPoint>>;

absl::StatusOr<Points> Query(const Flags& flags, Session& session) {
  v1::QueryMetricsRequest request;
  MUSTER_ASSIGN_OR_RETURN(*request.mutable_job(), ParseJobRef(flags.job));
  for (const std::string& name : flags.plot.empty() ? flags.names : flags.plot)
    request.add_names(name);
  request.set_from_step(flags.from_step);
  request.set_to_step(flags.to_step);
  request.set_max_points(flags.max_points);
  if (flags.rank.has_value()) request.set_rank(*flags.rank);
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  Points points;
  do {
    MUSTER_ASSIGN_OR_RETURN(const v1::QueryMetricsResponse page,
                            client->Call(rpc::kQueryMetrics, request, session.timeout()));
    points.insert(points.end(), page.points().begin(), page.points().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return points;
}

Curves ByName(const Points& points) {
  Curves curves;
  for (const v1::MetricPoint& point : points)
    curves[point.name()].push_back({point.step(), point.value()});
  return curves;
}

Table Summary(const Curves& curves, bool unicode) {
  Table table({{"NAME", false, true},
               {"POINTS", true},
               {"FIRST", true},
               {"LEAST", true},
               {"MOST", true},
               {"LAST", true},
               {"CURVE"}});
  for (const auto& [name, points] : curves) {
    std::vector<double> values;
    for (const PlotPoint& point : points) values.push_back(point.value);
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    const bool bytes = absl::EndsWith(name, "_bytes");
    const auto shown = [bytes](double value) { return bytes ? Bytes(value) : Number(value); };
    table.Add({name, absl::StrCat(points.size()), shown(values.front()), shown(*least),
               shown(*most), shown(values.back()), Sparkline(values, kCurveWidth, unicode)});
  }
  return table;
}

absl::Status CheckPlotted(const Flags& flags, const Curves& curves) {
  for (const std::string& name : flags.plot) {
    if (curves.count(name) > 0) continue;
    return WithHint(
        absl::NotFoundError(absl::StrCat("job ", flags.job, ": no metric '", name, "' reported")),
        absl::StrCat("`muster metrics ", flags.job, "` shows the names there are"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> Run(const Flags& flags, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(const Points points, Query(flags, session));
  const Curves curves = ByName(points);
  MUSTER_RETURN_IF_ERROR(CheckPlotted(flags, curves));
  const Host& host = session.host();
  if (flags.plot.empty() || !session.globals().tables()) {
    if (session.globals().tables() && points.empty()) {
      session.Say(absl::StrCat("job ", flags.job, ": nothing reported yet"));
    } else {
      session.PrintList(Summary(curves, host.unicode), ToJsonList(points), "name");
    }
    return ExitCode::kDone;
  }
  for (const std::string& name : flags.plot) {
    session.host().out << Plot(name, curves.at(name),
                               {.width = std::min(host.width, kTableWidth),
                                .height = kPlotHeight,
                                .unicode = host.unicode,
                                .logarithmic = flags.logarithmic});
  }
  return ExitCode::kDone;
}

}  // namespace

void AddMetrics(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("metrics", "a job's numbers; -o csv or json gives every point");
  const auto flags = std::make_shared<Flags>();
  command->add_option("JOB", flags->job, "its id or name")->required();
  command->add_option("--names", flags->names, "only these, comma-separated")->delimiter(',');
  CLI::Option* plot = command->add_option("--plot", flags->plot,
                                          "draw these as curves, comma-separated: loss,lr");
  plot->delimiter(',');
  command->add_flag("--log", flags->logarithmic, "draw them on a logarithmic scale")->needs(plot);
  command->add_option("--rank", flags->rank, "of this rank (default: rank 0)");
  command->add_option("--from-step", flags->from_step, "from this step on");
  command->add_option("--to-step", flags->to_step, "up to this step");
  command->add_option("--max-points", flags->max_points,
                      "at most so many of each name, evenly spread");
  command->callback(
      [flags, &session, &verb] { verb = [flags, &session] { return Run(*flags, session); }; });
}

}  // namespace muster::cli
