// The real EnrollService and RenewService over a real enrollment.db and CA for one fuzz input:
// people who make and revoke join tokens, and machines that join as the input says. Every call is
// answered; nobody gets a certificate without a token's secret, and no token counts more uses than
// it has; all of it comes back from the disk.
//
// Any broken promise prints what it is and aborts: that is how a fuzzer hears of it.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "tests/fuzz/fuzz_input.h"

namespace muster::testing {

class EnrollWorld {
 public:
  EnrollWorld();
  ~EnrollWorld();

  // A call, or time.
  void Step(FuzzInput& input);
  void Finish();

  // The rpcs that were called: "EnrollService.Enroll".
  const std::set<std::string>& called() const;

 private:
  class World;
  const std::unique_ptr<World> world_;
};

}  // namespace muster::testing
