#include "cli/output/views/explain_view.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/output/table.h"
#include "cli/output/text.h"
#include "cli/output/views/views.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

// "name:   value"
void OutlookField(absl::string_view name, absl::string_view value, std::string* page) {
  if (value.empty()) return;
  absl::StrAppendFormat(page, "%-10s%s\n", absl::StrCat(name, ":"), Plain(value));
}

std::string KindText(const v1::Blocker& blocker) {
  return absl::AsciiStrToLower(v1::Blocker::Kind_Name(blocker.kind()));
}

std::string BlockerTable(const v1::Outlook& outlook, bool hints) {
  Table table({{"BLOCKER"},
               {"WHAT", false, false, /*wrap=*/true},
               {"NEEDED", false, false, /*wrap=*/true},
               {"AVAILABLE", false, false, /*wrap=*/true}});
  for (const v1::Blocker& blocker : outlook.blockers()) {
    if (blocker.is_hint() != hints) continue;
    table.Add({KindText(blocker), blocker.message(), blocker.needed(), blocker.available()});
  }
  return table.empty() ? "" : table.Render(/*header=*/true);
}

std::string AheadTable(const v1::Outlook& outlook) {
  Table table({{"AHEAD", true},
               {"NAME", false, true},
               {"PROJECT", false, true},
               {"STATE"},
               {"PRIO", true},
               {"SLOTS", true}});
  for (const v1::Outlook::Ahead& job : outlook.ahead()) {
    table.Add({JobIdText(job.id(), job.array_id(), job.array_index()), job.name(), job.project(),
               v1::JobState_Name(job.state()), absl::StrCat(job.priority()),
               absl::StrCat(job.slots())});
  }
  if (table.empty()) return "";
  std::string page = table.Render(/*header=*/true);
  const uint64_t more = outlook.ahead_count() - static_cast<uint64_t>(outlook.ahead_size());
  if (more > 0) absl::StrAppend(&page, "and ", more, " more\n");
  return page;
}

std::string StartText(const v1::Outlook& outlook, absl::Time now) {
  if (!outlook.has_start_ms()) return absl::StrCat("unknown: ", outlook.why_unknown());
  const absl::Time start = absl::FromUnixMillis(outlook.start_ms());
  if (outlook.blockers().empty()) return "now";
  return absl::StrCat(
      TimeText(outlook.start_ms()), " UTC, in ",
      HumanDuration(absl::Ceil(std::max(start - now, absl::ZeroDuration()), absl::Seconds(1))));
}

const char* SourceText(v1::RunTimeSource source) {
  switch (source) {
    case v1::DECLARED:
      return "declared";
    case v1::LEARNED:
      return "learned from earlier ones";
    case v1::LIMIT:
      return "its limit";
    case v1::PROGRESS:
      return "by its progress";
    default:
      return "unknown";
  }
}

std::string RestsOn(const v1::Outlook& outlook) {
  if (!outlook.has_start_ms() || outlook.rests_on().empty()) return "";
  std::vector<std::string> ends;
  for (const v1::Outlook::End& end : outlook.rests_on()) {
    ends.push_back(absl::StrCat("job ", end.job_id(), " ", end.name(), " ends by ",
                                TimeText(end.end_ms()), " (", SourceText(end.source()), ")"));
  }
  const uint64_t more = outlook.rests_on_count() - static_cast<uint64_t>(outlook.rests_on_size());
  if (more > 0) ends.push_back(absl::StrCat(more, " more ends"));
  return absl::StrJoin(ends, "; ");
}

std::string PlaceText(const v1::Outlook& outlook) {
  std::vector<std::string> places;
  for (const v1::Outlook::Place& place : outlook.places()) {
    places.push_back(absl::StrCat(place.worker(), " (",
                                  place.slots_size() == 1 ? "slot " : "slots ",
                                  absl::StrJoin(place.slots(), ","), ")"));
  }
  if (places.empty()) return "";
  return absl::StrCat(outlook.ranks(), outlook.ranks() == 1 ? " rank" : " ranks", " on ",
                      absl::StrJoin(places, ", "));
}

// Of a job that runs; empty: it holds no slots.
std::string EndText(const v1::Outlook& outlook, absl::Time now) {
  if (outlook.places().empty()) return "";
  if (!outlook.has_end_ms()) {
    return "unknown: it declares no run time, and its progress does not tell";
  }
  const absl::Duration left = absl::FromUnixMillis(outlook.end_ms()) - now;
  return absl::StrCat(
      TimeText(outlook.end_ms()), " UTC, in ",
      HumanDuration(absl::Ceil(std::max(left, absl::ZeroDuration()), absl::Seconds(1))), ", ",
      SourceText(outlook.run_time_source()));
}

std::string LengthText(const v1::Outlook& outlook) {
  if (!outlook.has_run_seconds()) return "unknown: declare scheduling.expected_run_time";
  return absl::StrCat(HumanDuration(absl::Seconds(outlook.run_seconds())), ", ",
                      SourceText(outlook.run_time_source()));
}

}  // namespace

std::string OutlookPage(const v1::Outlook& outlook, absl::Time now) {
  std::string page = BlockerTable(outlook, /*hints=*/false);
  if (const std::string hints = BlockerTable(outlook, /*hints=*/true); !hints.empty()) {
    absl::StrAppend(&page, "there, but not for it:\n", hints);
  }
  absl::StrAppend(&page, AheadTable(outlook));
  OutlookField("start", StartText(outlook, now), &page);
  OutlookField("rests on", RestsOn(outlook), &page);
  OutlookField("where", PlaceText(outlook), &page);
  OutlookField("for", LengthText(outlook), &page);
  if (outlook.has_slot_hours()) {
    OutlookField("cost", absl::StrFormat("%.2f slot-hours", outlook.slot_hours()), &page);
  }
  return page;
}

std::string ExplainPage(const v1::ExplainJobResponse& response, absl::Time now) {
  const v1::JobSummary& job = response.summary();
  const v1::Outlook& outlook = response.outlook();
  std::string page;
  OutlookField("job", JobName(job), &page);
  OutlookField("state", v1::JobState_Name(job.state()), &page);
  OutlookField("reason", outlook.reason(), &page);
  const bool waits =
      job.state() == v1::PENDING || job.state() == v1::RECOVERING || job.state() == v1::SUSPENDED;
  if (waits) {
    absl::StrAppend(&page, OutlookPage(outlook, now));
  } else {
    OutlookField("where", PlaceText(outlook), &page);
    OutlookField("ends", EndText(outlook, now), &page);
  }
  return page;
}

}  // namespace muster::cli
