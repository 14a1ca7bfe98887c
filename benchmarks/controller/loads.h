// The loads of muster-bench-client, one subcommand each. Every one prints one JSON line and returns
// the process's exit code.
#pragma once

#include <CLI/CLI.hpp>

namespace muster::benchmarks {

// Calls of people: submit, submit-stream, list. Against etcd: etcd.
void AddPeopleLoads(CLI::App& app);
// Simulated agents: reports, start, heartbeats, series.
void AddAgentLoads(CLI::App& app);
// Processes: spawn, end-to-end, start-process, start-command.
void AddProcessLoads(CLI::App& app);
// Metric points through Bulk: points.
void AddPointLoads(CLI::App& app);

}  // namespace muster::benchmarks
