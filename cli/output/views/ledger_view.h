// What the slots that jobs held were good for, for people. Pure.
#pragma once

#include <string>

#include "cli/output/table.h"
#include "muster/v1/job_service.pb.h"

namespace muster::cli {

// The labels of one ledger with their shares, then what was held, the goodput and the queue.
std::string LedgerPage(const v1::Ledger& ledger);

// One line a job: what it held, its goodput, what it lost most to, and its time in the queue.
Table LedgerTable(const v1::GetGoodputResponse& response);

}  // namespace muster::cli
