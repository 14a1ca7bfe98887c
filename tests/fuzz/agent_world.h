// An agent for one fuzz input, and a controller that says what the input says: the agent's real
// session, outbox, assignment log, fences, store relay and start rules, with folders in memory, on
// a simulated clock, and without processes. Nothing that it hears is done twice or for an attempt
// that is over, nothing but checkpoints is deleted, and all that it answers can travel.
//
// Any broken promise prints what it is and aborts: that is how a fuzzer hears of it.
#pragma once

#include <memory>
#include <set>

#include "tests/fuzz/fuzz_input.h"

namespace muster::testing {

class AgentWorld {
 public:
  AgentWorld();
  ~AgentWorld();

  // One thing that happens: a message, the end of a stream, time, or a word of a rank.
  void Step(FuzzInput& input);
  void Finish();

  // The kinds of ControllerMessage that were heard, by their field numbers.
  const std::set<int>& heard() const;

 private:
  class Agent;
  const std::unique_ptr<Agent> agent_;
};

}  // namespace muster::testing
