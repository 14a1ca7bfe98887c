// Where the measured musterd is, read from its data folder as an agent or the CLI would find it.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "muster/v1/job_service.grpc.pb.h"
#include "muster/v1/worker_service.grpc.pb.h"

namespace muster::benchmarks {

struct Target {
  std::string people;   // host:port
  std::string workers;  // host:port
  std::string token;
  int pid = 0;
};

// Reads DIR/endpoints.json and DIR/token. Errors: those of the files.
absl::StatusOr<Target> FindTarget(const std::string& data_dir);

// A channel that is kept until the process ends. gRPC 1.51 joins the threads that calls end on
// where the last reference to the last channel goes: on one of these threads, which lets go of a
// call's context late, it would join itself and free the queue that it reads from.
std::shared_ptr<grpc::Channel> LastingChannel(const std::string& address);

// So many clients, each with a connection of its own.
std::vector<std::unique_ptr<v1::JobService::Stub>> PeopleStubs(const Target& target, int clients);

// The request that submits this YAML, as the CLI would make it but for the key.
absl::StatusOr<v1::SubmitRequest> SubmitRequestOf(const std::string& yaml);

// A key that no other call of any program used.
std::string FreshKey();
// 1, 2, 3, ...: never the same in one program. Thread-safe.
uint64_t FreshNumber();

}  // namespace muster::benchmarks
