// Load clients of benchmarks/controller/run: closed loops of API calls, simulated agents, streams
// of metric points. Each subcommand prints one JSON line.
#include <exception>
#include <iostream>

#include "benchmarks/controller/loads.h"

int main(int argc, char** argv) {
  CLI::App app("Load clients for musterd (and etcd); each prints one JSON line.");
  app.require_subcommand(1);
  muster::benchmarks::AddPeopleLoads(app);
  muster::benchmarks::AddAgentLoads(app);
  muster::benchmarks::AddProcessLoads(app);
  muster::benchmarks::AddPointLoads(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    std::cerr << "muster-bench-client: " << error.what() << std::endl;
    return 1;
  }
  return 0;
}
