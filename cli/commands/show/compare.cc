// `muster compare A B`: what two jobs have in common, and what not.
#include <memory>
#include <string>

#include "cli/commands/commands.h"
#include "cli/output/views/compare_view.h"
#include "common/base/status_macros.h"
#include "common/spec/spec_writer.h"

namespace muster::cli {
namespace {

// Of a run of millions of steps a curve needs no more.
constexpr uint32_t kMostCompared = 2'000;

struct CompareFlags {
  std::string first;
  std::string second;
};

absl::StatusOr<ComparedJob> AskForCompared(const std::string& text, Session& session) {
  v1::GetJobRequest get;
  MUSTER_ASSIGN_OR_RETURN(*get.mutable_job(), ParseJobRef(text));
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  MUSTER_ASSIGN_OR_RETURN(const v1::GetJobResponse job,
                          client->Call(&Jobs::GetJob, get, session.timeout()));
  ComparedJob compared;
  compared.summary = job.summary();
  compared.spec = Json::parse(SpecToJson(job.spec()), nullptr, /*allow_exceptions=*/false);
  v1::QueryMetricsRequest query;
  query.mutable_job()->set_id(job.summary().id());
  query.set_max_points(kMostCompared);
  do {
    MUSTER_ASSIGN_OR_RETURN(const v1::QueryMetricsResponse page,
                            client->Call(&Jobs::QueryMetrics, query, session.timeout()));
    for (const v1::MetricPoint& point : page.points()) {
      compared.metrics[point.name()].Add(point.value());
    }
    query.set_page_token(page.next_page_token());
  } while (!query.page_token().empty());
  v1::GetGoodputRequest goodput;
  goodput.mutable_job()->set_id(job.summary().id());
  MUSTER_ASSIGN_OR_RETURN(const v1::GetGoodputResponse answer,
                          client->Call(&Jobs::GetGoodput, goodput, session.timeout()));
  compared.ledger = answer.total();
  return compared;
}

absl::StatusOr<ExitCode> RunCompare(const CompareFlags& flags, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(const ComparedJob first, AskForCompared(flags.first, session));
  MUSTER_ASSIGN_OR_RETURN(const ComparedJob second, AskForCompared(flags.second, session));
  session.PrintOne(ComparePage(first, second, session.host().unicode), CompareJson(first, second),
                   "jobs");
  return ExitCode::kDone;
}

}  // namespace

void AddCompare(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command = app.add_subcommand(
      "compare",
      "two jobs: where their specs differ, their curves, what their slots were good for");
  const auto flags = std::make_shared<CompareFlags>();
  command->add_option("JOB", flags->first, "its id or name")->required();
  command->add_option("OTHER", flags->second, "that of the other one")->required();
  command->callback([flags, &session, &verb] {
    verb = [flags, &session] { return RunCompare(*flags, session); };
  });
}

}  // namespace muster::cli
