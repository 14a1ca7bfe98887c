#include "cli/output/views/ledger_view.h"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/output/text.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

using Part = std::pair<const char*, double>;  // label and slot-seconds

double Seconds(const v1::SlotTime& time) {
  return static_cast<double>(time.seconds()) + time.nanos() * 1e-9;
}

std::vector<Part> Parts(const v1::Ledger& ledger) {
  return {{"productive", Seconds(ledger.productive())},
          {"start", Seconds(ledger.start())},
          {"rendezvous", Seconds(ledger.rendezvous())},
          {"load", Seconds(ledger.load())},
          {"save_stall", Seconds(ledger.save_stall())},
          {"recompute", Seconds(ledger.recompute())},
          {"hang", Seconds(ledger.hang())},
          {"idle", Seconds(ledger.idle())},
          {"drain", Seconds(ledger.drain())}};
}

std::string SlotHours(double slot_seconds) { return absl::StrFormat("%.3f", slot_seconds / 3600); }

std::string Share(double part, double held) {
  return held > 0 ? absl::StrFormat("%.1f%%", 100 * part / held) : "";
}

std::string Goodput(const v1::Ledger& ledger) {
  return ledger.has_goodput() ? absl::StrFormat("%.1f%%", 100 * ledger.goodput()) : "";
}

std::string QueueText(const v1::Ledger& ledger) {
  return HumanDuration(absl::Seconds(ledger.queue_seconds()));
}

// "recompute 12.1%"; empty when all was productive.
std::string LargestLoss(const v1::Ledger& ledger) {
  Part largest{"", 0};
  for (const Part& part : Parts(ledger)) {
    const bool lost = absl::string_view(part.first) != "productive";
    if (lost && part.second > largest.second) largest = part;
  }
  if (largest.second <= 0) return "";
  return absl::StrCat(largest.first, " ", Share(largest.second, Seconds(ledger.held())));
}

}  // namespace

std::string LedgerPage(const v1::Ledger& ledger) {
  const double held = Seconds(ledger.held());
  Table table({{"LABEL"}, {"SHARE", true}, {"SLOT-HOURS", true}});
  for (const auto& [label, seconds] : Parts(ledger)) {
    table.Add({label, Share(seconds, held), SlotHours(seconds)});
  }
  table.Add({"held", Share(held, held), SlotHours(held)});
  return absl::StrCat(table.Render(/*header=*/true),
                      "goodput: ", ledger.has_goodput() ? Goodput(ledger) : kNothing,
                      " of what was held was productive; queued for ", QueueText(ledger), "\n");
}

Table LedgerTable(const v1::GetGoodputResponse& response) {
  Table table({{"ID", true},
               {"NAME", false, true},
               {"PROJECT", false, true},
               {"STATE"},
               {"SLOT-HOURS", true},
               {"GOODPUT", true},
               {"LOST MOST TO"},
               {"QUEUED", true}});
  for (const v1::JobLedger& job : response.jobs()) {
    table.Add({absl::StrCat(job.id()), job.name(), job.project(), v1::JobState_Name(job.state()),
               SlotHours(Seconds(job.ledger().held())), Goodput(job.ledger()),
               LargestLoss(job.ledger()), QueueText(job.ledger())});
  }
  return table;
}

}  // namespace muster::cli
