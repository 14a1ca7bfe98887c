// Stands in for musterd and for muster-worker (by the name it is started under) where only their
// processes matter.
//
// As musterd: serves ListWorkers on the ports it is given; a worker is ready once its
// endpoints.json names a living process. As muster-worker: writes endpoints.json. Both end on
// SIGTERM. The file `refuse-NAME` in --data-dir's parent makes that daemon end at once with a
// message, as one does that cannot start; `chatter-NAME` makes it write 20 MiB to its log first.
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "common/base/check.h"
#include "common/fs/file_system.h"
#include "muster/v1/job_service.grpc.pb.h"

namespace {

using muster::v1::ListWorkersRequest;
using muster::v1::ListWorkersResponse;

class Service final : public muster::v1::JobService::Service {
 public:
  explicit Service(std::string dir) : dir_(std::move(dir)) {}

  grpc::Status ListWorkers(grpc::ServerContext*, const ListWorkersRequest*,
                           ListWorkersResponse* response) override {
    for (const auto& entry : std::filesystem::directory_iterator(dir_)) {
      const std::string name = entry.path().filename();
      std::ifstream in(entry.path() / "endpoints.json");
      if (name.rfind("worker-", 0) != 0 || !in.good()) continue;
      auto* worker = response->add_workers();
      worker->set_name(name);
      worker->set_state("ready");
    }
    return grpc::Status::OK;
  }

 private:
  const std::string dir_;
};

void Write(const std::string& path, const nlohmann::json& json) {
  const auto status = muster::WriteFileAtomically(muster::PosixFileSystem(), path, json.dump());
  MUSTER_CHECK(status.ok(), "a fake daemon writes its endpoints");
}

void AwaitSigterm(const sigset_t& signals) {
  int signal = 0;
  ::sigwait(&signals, &signal);
}

}  // namespace

int main(int argc, char** argv) {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::map<std::string, std::string> flags;
  for (int i = 1; i + 1 < argc; i += 2) flags[argv[i]] = argv[i + 1];
  const std::filesystem::path data_dir = flags["--data-dir"];
  const bool controller = std::filesystem::path(argv[0]).filename() == "musterd";
  const std::string name = controller ? "musterd" : flags["--name"];
  if (std::filesystem::exists(data_dir.parent_path() / ("refuse-" + name))) {
    std::cerr << name << " refuses to start" << std::endl;
    return 1;
  }
  if (std::filesystem::exists(data_dir.parent_path() / ("chatter-" + name))) {
    std::cerr << std::string(20 << 20, 'x') << std::endl;
  }
  if (!controller) {
    if (!std::filesystem::exists(flags["--token-file"])) return 1;
    Write(data_dir / "endpoints.json",
          {{"pid", ::getpid()}, {"metrics_address", "127.0.0.1:1"}, {"name", name}});
    AwaitSigterm(signals);
    return 0;
  }
  const std::string token = data_dir / "token";
  std::ofstream(token) << "t0ken";
  std::filesystem::permissions(
      token, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  Service service(data_dir.parent_path());
  grpc::ServerBuilder builder;
  std::map<std::string, int> ports;
  for (const char* flag : {"--listen", "--worker-listen", "--http-listen"}) {
    builder.AddListeningPort(flags[flag], grpc::InsecureServerCredentials(), &ports[flag]);
  }
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  if (server == nullptr) {
    std::cerr << "cannot listen" << std::endl;
    return 1;
  }
  const auto address = [&](const char* flag) { return "127.0.0.1:" + std::to_string(ports[flag]); };
  Write(data_dir / "endpoints.json", {{"pid", ::getpid()},
                                      {"grpc_address", address("--listen")},
                                      {"worker_address", address("--worker-listen")},
                                      {"http_address", address("--http-listen")}});
  AwaitSigterm(signals);
  server->Shutdown();
  return 0;
}
