// The real AccessService over a real access.db for one fuzz input, with callers of every kind who
// ask what the input says. Every call is answered, who may not change anything changes nothing, and
// the record stays whole.
//
// Any broken promise prints what it is and aborts: that is how a fuzzer hears of it.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "tests/fuzz/fuzz_input.h"

namespace muster::testing {

class AccessWorld {
 public:
  AccessWorld();
  ~AccessWorld();

  // A call, or time.
  void Step(FuzzInput& input);
  void Finish();

  // The rpcs of AccessService that were called, by name.
  const std::set<std::string>& called() const;

 private:
  class World;
  const std::unique_ptr<World> world_;
};

}  // namespace muster::testing
