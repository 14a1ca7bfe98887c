// Requests about users, roles, tokens and the record, of any shape: tests/fuzz/access_world.h tells
// what must hold.
#include <stddef.h>
#include <stdint.h>

#include "common/base/log.h"
#include "tests/fuzz/access_world.h"

namespace {
constexpr int kMostCalls = 40;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  muster::SetLogLevel(muster::LogLevel::kError);
  muster::testing::FuzzInput input(data, size);
  muster::testing::AccessWorld world;
  for (int call = 0; call < kMostCalls && !input.empty(); ++call) world.Step(input);
  world.Finish();
  return 0;
}
