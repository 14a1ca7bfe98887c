#include "cli/output/views/ledger_view.h"

#include <gtest/gtest.h>

namespace muster::cli {
namespace {

void Set(v1::SlotTime* time, uint64_t seconds) { time->set_seconds(seconds); }

v1::Ledger MakeLedger() {
  v1::Ledger ledger;
  Set(ledger.mutable_held(), 7200);
  Set(ledger.mutable_productive(), 6480);
  Set(ledger.mutable_recompute(), 360);
  Set(ledger.mutable_load(), 180);
  Set(ledger.mutable_drain(), 180);
  ledger.set_goodput(0.9);
  ledger.set_queue_seconds(95);
  return ledger;
}

TEST(LedgerPage, EveryLabelHasItsLineAndTheySumToWhatWasHeld) {
  EXPECT_EQ(LedgerPage(MakeLedger()),
            "LABEL        SHARE  SLOT-HOURS\n"
            "productive   90.0%       1.800\n"
            "start         0.0%       0.000\n"
            "rendezvous    0.0%       0.000\n"
            "load          2.5%       0.050\n"
            "save_stall    0.0%       0.000\n"
            "recompute     5.0%       0.100\n"
            "hang          0.0%       0.000\n"
            "idle          0.0%       0.000\n"
            "drain         2.5%       0.050\n"
            "held        100.0%       2.000\n"
            "goodput: 90.0% of what was held was productive; queued for 1m35s\n");
}

TEST(LedgerPage, AJobThatHeldNothingHasNoGoodput) {
  v1::Ledger ledger;
  ledger.set_queue_seconds(5);
  const std::string page = LedgerPage(ledger);
  EXPECT_NE(page.find("goodput: - of"), std::string::npos) << page;
  EXPECT_NE(page.find("queued for 5s"), std::string::npos) << page;
}

TEST(LedgerTable, SaysWhatAJobLostMostTo) {
  v1::GetGoodputResponse response;
  v1::JobLedger& job = *response.add_jobs();
  job.set_id(7);
  job.set_name("digits");
  job.set_project("vision");
  job.set_state(v1::RUNNING);
  *job.mutable_ledger() = MakeLedger();
  EXPECT_EQ(LedgerTable(response).Render(true),
            "ID  NAME    PROJECT  STATE    SLOT-HOURS  GOODPUT  LOST MOST TO    QUEUED\n"
            " 7  digits  vision   RUNNING       2.000    90.0%  recompute 5.0%   1m35s\n");
}

}  // namespace
}  // namespace muster::cli
