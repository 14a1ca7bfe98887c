// The real UploadService and store for one fuzz input, on a file system in memory, with clients
// that say what the input says. What is called stored is whole under its hash and comes back byte
// for byte, everything else leaves nothing, and each call ends.
//
// Any broken promise prints what it is and aborts: that is how a fuzzer hears of it.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "tests/fuzz/fuzz_input.h"

namespace muster::testing {

class UploadsWorld {
 public:
  UploadsWorld();
  ~UploadsWorld();

  // A call begins, goes on, ends; or time goes by.
  void Step(FuzzInput& input);
  void Finish();

  // The rpcs of UploadService that were called, by name.
  const std::set<std::string>& called() const;

 private:
  class World;
  const std::unique_ptr<World> world_;
};

}  // namespace muster::testing
