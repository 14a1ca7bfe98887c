// Uploads and fetches of any shape: tests/fuzz/uploads_world.h tells what must hold.
#include <stddef.h>
#include <stdint.h>

#include "common/base/log.h"
#include "tests/fuzz/uploads_world.h"

namespace {
constexpr int kMostSteps = 60;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  muster::SetLogLevel(muster::LogLevel::kError);
  muster::testing::FuzzInput input(data, size);
  muster::testing::UploadsWorld world;
  for (int step = 0; step < kMostSteps && !input.empty(); ++step) world.Step(input);
  world.Finish();
  return 0;
}
