#include "cli/output/views/compare_view.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/output/chart.h"
#include "cli/output/table.h"
#include "cli/output/text.h"
#include "cli/output/views/views.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

constexpr size_t kComparedCurveWidth = 16;

std::string ComparedValue(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void AddDifferences(const std::string& path, const Json& first, const Json& second,
                    std::vector<SpecDifference>* out) {
  if (first == second) return;
  const bool mappings =
      (first.is_object() || first.is_null()) && (second.is_object() || second.is_null());
  if (!mappings) {
    out->push_back({path, first, second});
    return;
  }
  std::set<std::string> names;
  for (const Json* each : {&first, &second}) {
    if (!each->is_object()) continue;
    for (const auto& [name, value] : each->items()) names.insert(name);
  }
  const auto at = [](const Json& json, const std::string& name) {
    return json.is_object() && json.contains(name) ? json.at(name) : Json();
  };
  for (const std::string& name : names) {
    AddDifferences(path.empty() ? name : absl::StrCat(path, ".", name), at(first, name),
                   at(second, name), out);
  }
}

std::vector<Column> TwoColumns(const std::string& title, const ComparedJob& first,
                               const ComparedJob& second) {
  return {{title},
          {JobName(first.summary), false, false, /*wrap=*/true},
          {JobName(second.summary), false, false, /*wrap=*/true}};
}

template <typename Value>
std::optional<double> Given(bool has, Value value) {
  return has ? std::optional<double>(value) : std::nullopt;
}

// Lines of which neither job has anything are left out.
Table SummaryTable(const ComparedJob& first, const ComparedJob& second) {
  Table table(TwoColumns("JOB", first, second));
  const auto line = [&](const char* name, auto text) {
    const std::string a = text(first.summary);
    const std::string b = text(second.summary);
    const auto none = [](const std::string& cell) { return cell.empty() || cell == kNothing; };
    if (!none(a) || !none(b)) table.Add({name, a, b});
  };
  line("state", [](const v1::JobSummary& job) { return v1::JobState_Name(job.state()); });
  line("ranks", [](const v1::JobSummary& job) { return absl::StrCat(job.ranks()); });
  line("step", [](const v1::JobSummary& job) { return StepText(job); });
  line("loss", [](const v1::JobSummary& job) { return Number(Given(job.has_loss(), job.loss())); });
  line("best validation", [](const v1::JobSummary& job) {
    return Percent(Given(job.has_best_validation_accuracy(), job.best_validation_accuracy()));
  });
  line("validation loss", [](const v1::JobSummary& job) {
    return Number(Given(job.has_validation_loss(), job.validation_loss()));
  });
  line("test accuracy", [](const v1::JobSummary& job) {
    return Percent(Given(job.has_test_accuracy(), job.test_accuracy()));
  });
  line("samples/s", [](const v1::JobSummary& job) {
    return Number(Given(job.has_samples_per_second(), job.samples_per_second()));
  });
  line("memory peak", [](const v1::JobSummary& job) {
    return Bytes(Given(job.has_memory_peak_bytes(), job.memory_peak_bytes()));
  });
  line("restarts", [](const v1::JobSummary& job) { return absl::StrCat(job.restarts()); });
  line("ran", [](const v1::JobSummary& job) {
    return job.ran_ms() == 0
               ? std::string()
               : HumanDuration(absl::Floor(absl::Milliseconds(job.ran_ms()), absl::Seconds(1)));
  });
  line("goodput",
       [](const v1::JobSummary& job) { return Percent(Given(job.has_goodput(), job.goodput())); });
  return table;
}

Table DifferenceTable(const ComparedJob& first, const ComparedJob& second) {
  Table table(TwoColumns("SPEC", first, second));
  for (const SpecDifference& difference : SpecDifferences(first.spec, second.spec)) {
    table.Add({difference.path, ComparedValue(difference.first), ComparedValue(difference.second)});
  }
  return table;
}

std::set<std::string> MetricNames(const ComparedJob& first, const ComparedJob& second) {
  std::set<std::string> names;
  for (const ComparedJob* job : {&first, &second}) {
    for (const auto& [name, fold] : job->metrics) names.insert(name);
  }
  return names;
}

const MetricFold* FoldOf(const ComparedJob& job, const std::string& name) {
  const auto fold = job.metrics.find(name);
  return fold == job.metrics.end() ? nullptr : &fold->second;
}

Table MetricTable(const ComparedJob& first, const ComparedJob& second, bool unicode) {
  const std::string a = JobIdText(first.summary);
  const std::string b = JobIdText(second.summary);
  Table table({{"METRIC", false, true},
               {absl::StrCat("LAST ", a), true},
               {absl::StrCat("LAST ", b), true},
               {absl::StrCat("CURVE ", a)},
               {absl::StrCat("CURVE ", b)}});
  for (const std::string& name : MetricNames(first, second)) {
    std::vector<std::string> lasts;
    std::vector<std::string> curves;
    for (const ComparedJob* job : {&first, &second}) {
      const MetricFold* fold = FoldOf(*job, name);
      const bool bytes = absl::EndsWith(name, "_bytes");
      lasts.push_back(fold == nullptr ? "" : bytes ? Bytes(fold->last()) : Number(fold->last()));
      curves.push_back(fold == nullptr ? ""
                                       : Sparkline(fold->Curve(), kComparedCurveWidth, unicode));
    }
    table.Add({name, lasts[0], lasts[1], curves[0], curves[1]});
  }
  return table;
}

double SlotSeconds(const v1::SlotTime& time) {
  return static_cast<double>(time.seconds()) + time.nanos() * 1e-9;
}

// Every label of which either has something, as a share of what was held.
Table LedgerShares(const ComparedJob& first, const ComparedJob& second) {
  Table table(TwoColumns("SLOTS", first, second));
  const auto* fields = v1::Ledger::descriptor();
  for (int i = 0; i < fields->field_count(); ++i) {
    const auto* field = fields->field(i);
    if (field->message_type() != v1::SlotTime::descriptor()) continue;
    std::vector<std::string> cells = {std::string(field->name())};
    bool any = false;
    for (const ComparedJob* job : {&first, &second}) {
      const auto& time = dynamic_cast<const v1::SlotTime&>(
          job->ledger.GetReflection()->GetMessage(job->ledger, field));
      const double seconds = SlotSeconds(time);
      const double held = SlotSeconds(job->ledger.held());
      any = any || seconds > 0;
      constexpr double kSecondsAnHour = 3600;
      constexpr double kAsPercent = 100;
      cells.push_back(field->name() == "held"
                          ? absl::StrFormat("%.3f slot-hours", seconds / kSecondsAnHour)
                      : held > 0 ? absl::StrFormat("%.1f%%", kAsPercent * seconds / held)
                                 : "");
    }
    if (any) table.Add(std::move(cells));
  }
  return table;
}

void AddPart(const Table& table, std::string* page) {
  if (!table.empty()) absl::StrAppend(page, page->empty() ? "" : "\n", table.Render(true));
}

}  // namespace

std::vector<SpecDifference> SpecDifferences(const Json& first, const Json& second) {
  std::vector<SpecDifference> differences;
  AddDifferences("", first, second, &differences);
  return differences;
}

std::string ComparePage(const ComparedJob& first, const ComparedJob& second, bool unicode) {
  std::string page;
  AddPart(SummaryTable(first, second), &page);
  const Table differences = DifferenceTable(first, second);
  if (differences.empty()) absl::StrAppend(&page, "\nspec: the same\n");
  AddPart(differences, &page);
  AddPart(MetricTable(first, second, unicode), &page);
  AddPart(LedgerShares(first, second), &page);
  return page;
}

Json CompareJson(const ComparedJob& first, const ComparedJob& second) {
  Json json = {{"jobs", {ToJson(first.summary), ToJson(second.summary)}},
               {"spec", Json::array()},
               {"metrics", Json::array()},
               {"goodput", {ToJson(first.ledger), ToJson(second.ledger)}}};
  for (const SpecDifference& difference : SpecDifferences(first.spec, second.spec)) {
    json["spec"].push_back(
        {{"path", difference.path}, {"first", difference.first}, {"second", difference.second}});
  }
  const auto fold_json = [](const MetricFold* fold) -> Json {
    if (fold == nullptr) return nullptr;
    const auto finite = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
    return {{"points", fold->count()},
            {"first", finite(fold->first())},
            {"least", finite(fold->least())},
            {"most", finite(fold->most())},
            {"last", finite(fold->last())}};
  };
  for (const std::string& name : MetricNames(first, second)) {
    json["metrics"].push_back({{"name", name},
                               {"first", fold_json(FoldOf(first, name))},
                               {"second", fold_json(FoldOf(second, name))}});
  }
  return json;
}

}  // namespace muster::cli
