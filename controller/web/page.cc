#include "controller/web/page.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/base/units.h"
#include "common/base/version.h"

namespace muster::controller {
namespace {

constexpr char kHead[] =
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Muster</title>"
    "<meta http-equiv=\"refresh\" content=\"2\">"
    "<meta name=\"viewport\" content=\"width=device-width\"><style>"
    "body{font:14px/1.4 system-ui,sans-serif;margin:2em;color:#222}"
    "h1{font-size:1.3em}h2{font-size:1.1em;margin-top:1.5em}"
    "table{border-collapse:collapse}th,td{text-align:left;padding:.2em 1em .2em 0;"
    "border-bottom:1px solid #ddd}td.n{text-align:right;font-variant-numeric:tabular-nums}"
    "</style></head><body>\n";

void Cell(std::string& html, absl::string_view text) {
  absl::StrAppend(&html, "<td>", EscapeHtml(text), "</td>");
}
void NumberCell(std::string& html, absl::string_view text) {
  absl::StrAppend(&html, "<td class=\"n\">", EscapeHtml(text), "</td>");
}

std::string ValueText(const Job& job, const char* name) {
  const auto found = job.progress.latest.find(name);
  return found == job.progress.latest.end() ? "" : absl::StrFormat("%.5g", found->second);
}

void JobRow(std::string& html, const Job& job, absl::Time now) {
  html += "<tr>";
  NumberCell(html, absl::StrCat(job.id));
  Cell(html, job.settings->name);
  Cell(html, JobStateName(job.state));
  NumberCell(html, job.progress.total_steps > 0
                       ? absl::StrCat(job.progress.step, "/", job.progress.total_steps)
                       : absl::StrCat(job.progress.step));
  NumberCell(html, ValueText(job, "loss"));
  NumberCell(html, ValueText(job, "samples_per_second"));
  NumberCell(html, job.progress.memory_bytes > 0 ? HumanBytes(job.progress.memory_bytes) : "");
  NumberCell(html, absl::StrCat(job.restarts));
  NumberCell(html, HumanDuration(now - job.submitted));
  Cell(html, job.message);
  html += "</tr>\n";
}

void WorkerRow(std::string& html, const Worker& worker, absl::Time now) {
  html += "<tr>";
  Cell(html, worker.name);
  Cell(html, WorkerStateName(worker));
  Cell(html, worker.facts.pool);
  NumberCell(html, absl::StrCat(worker.pulse.holders.size(), "/", worker.facts.slots.size()));
  Cell(html, worker.facts.slots.empty() ? "" : worker.facts.slots.front().device);
  NumberCell(html, HumanDuration(now - worker.pulse.last_heartbeat));
  Cell(html, worker.facts.metrics_address);
  html += "</tr>\n";
}

}  // namespace

std::string EscapeHtml(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string PageHtml(const Snapshot& snapshot, absl::Time now) {
  std::string html = kHead;
  absl::StrAppend(
      &html, "<h1>Muster ", Version(), "</h1>\n<h2>Jobs (", snapshot.jobs.size(),
      ")</h2>\n<table><tr><th>id<th>name<th>state<th>step<th>loss<th>samples/s<th>memory"
      "<th>restarts<th>age<th>message</tr>\n");
  size_t rows = 0;
  for (uint64_t id = snapshot.jobs.PreviousId(snapshot.jobs.last_id() + 1);
       id > 0 && rows < kMaxPageRows; id = snapshot.jobs.PreviousId(id)) {
    JobRow(html, *snapshot.FindJob(id), now);
    ++rows;
  }
  if (snapshot.jobs.size() > rows)
    absl::StrAppend(&html, "<tr><td colspan=10>and older ones</tr>\n");
  absl::StrAppend(
      &html, "</table>\n<h2>Workers (", snapshot.workers.size(),
      ")</h2>\n<table><tr><th>name<th>state<th>pool<th>slots used<th>device<th>last seen"
      "<th>metrics</tr>\n");
  rows = 0;
  snapshot.workers.ForEach([&](const Worker& worker) {
    if (rows++ < kMaxPageRows) WorkerRow(html, worker, now);
  });
  if (snapshot.workers.size() > kMaxPageRows) {
    absl::StrAppend(&html, "<tr><td colspan=7>and others</tr>\n");
  }
  absl::StrAppend(&html, "</table>\n<p><a href=\"/metrics\">metrics</a></p></body></html>\n");
  return html;
}

}  // namespace muster::controller
