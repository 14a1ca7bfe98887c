// Every request handler of the controller, and every message of its agents, with whatever the input
// makes of them.
#include <stddef.h>
#include <stdint.h>

#include "common/base/log.h"
#include "tests/fuzz/controller_world.h"

namespace {
constexpr int kMostSteps = 96;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  muster::SetLogLevel(muster::LogLevel::kError);
  muster::testing::FuzzInput input(data, size);
  muster::testing::ControllerWorld world;
  for (int step = 0; step < kMostSteps && !input.empty(); ++step) world.Step(input);
  world.Finish();
  return 0;
}
