#include "worker/train/step/seeding.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>

#include "common/base/rng.h"

namespace muster::worker {
namespace {

void Seed(at::Generator generator, uint64_t seed) {
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

}  // namespace

void SeedStep(uint64_t seed, int64_t step, int rank, c10::Device device) {
  const uint64_t step_seed = DeriveSeed(SeedFor(seed, SeedPurpose::kStep),
                                        static_cast<uint64_t>(step), static_cast<uint64_t>(rank));
  Seed(at::detail::getDefaultCPUGenerator(), step_seed);
  if (!device.is_cpu()) Seed(at::globalContext().defaultGenerator(device), step_seed);
}

}  // namespace muster::worker
