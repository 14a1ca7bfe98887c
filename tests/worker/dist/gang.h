// Runs a function once per rank, each on its own thread of this process, over one in-memory store
// and a real transport: shared memory, or what the options say.
#pragma once

#include <ATen/Parallel.h>
#include <signal.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "worker/dist/gang.h"

namespace muster::testing {

// The ranks count as of different hosts where their addresses differ. `body` owns its collectives:
// dropping them is how a rank of a test dies. Returns what each rank threw, or "".
inline std::vector<std::string> RunGang(
    int world_size, const std::function<void(std::unique_ptr<worker::Gang>)>& body,
    const worker::CollectivesOptions& common = {}, const std::vector<std::string>& addresses = {}) {
  ::signal(SIGPIPE, SIG_IGN);  // as muster-trainer does: Gloo writes to ranks that have left
  auto store = std::make_shared<worker::MemoryKeyValue>();
  std::vector<std::string> errors(world_size);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    ranks.emplace_back([&, rank] {
      at::set_num_threads(1);  // of this thread: the ranks share the machine
      try {
        worker::CollectivesOptions options = common;
        options.rank = rank;
        options.world_size = world_size;
        if (!addresses.empty()) options.advertise_address = addresses[rank];
        options.timeout = std::min(options.timeout, absl::Minutes(1));
        auto gang = worker::Gang::Form(store, options);
        if (!gang.ok()) {
          errors[rank] = std::string(gang.status().message());
          return;
        }
        (*gang)->Barrier();  // Gloo fails ranks that still connect to others when one leaves
        body(*std::move(gang));
      } catch (const std::exception& error) {
        errors[rank] = error.what();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return errors;
}

}  // namespace muster::testing
