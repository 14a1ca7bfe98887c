// What must hold of every version of the controller's model, whatever was thrown at it: written
// against the words of docs/ARCHITECTURE.md, not against the rules' code, and shared by the tests
// that throw things.
#pragma once

#include <string>
#include <vector>

#include "controller/model/snapshot.h"

namespace muster::testing {

// Every fault in a sentence; empty when all is well.
//   events       gapless over all jobs; each job's begin where the one before ended, make only
//   moves
//                that the table of a job's life knows, and end in the job's state
//   attempts     numbered 1, 2, ...; only the newest lives, and only while the job holds one
//   slots        no slot of one agent's life held by two ranks; a worker's holders and the ranks
//                agree
//   keys         no two jobs of one owner with the same idempotency key
//   ledger       the labels of a job's slot-time add up to what its ranks held, to the nanosecond
//   outbox       rows within the sequence, for workers that are known
//   checkpoints  what is COMMITTED or VERIFIED has a folder and a manifest's hash
std::vector<std::string> ModelFaults(const controller::Snapshot& snapshot);

// Of these the ledger of one job: what a simulation with other means for the rest asks for after
// each step.
std::vector<std::string> LedgerFaults(const controller::Job& job);

// What must survive the controller's death, and what a repeated mutation must not change, as text.
std::string DescribeModel(const controller::Snapshot& snapshot);

}  // namespace muster::testing
