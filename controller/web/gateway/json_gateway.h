// JSON over HTTP for the page and for scripts: each address below /api/v1/ is a call of
// JobService, PageService or AccessService (who one is) on a channel inside the process, so that
// the token, the bounds, the counts and the answers are those of gRPC. Requests and answers are the
// messages of proto/muster/v1 in protobuf's own JSON.
//
// GET reads and POST changes. Who shows a token may do what the token may. Strangers read, if
// `open_read_token` lets them, only under a name that no other machine can have (DNS rebinding),
// and neither logs, specs nor who one is. Thread-safe.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "common/metrics/http_server.h"

namespace muster::controller {

class JsonGateway {
 public:
  static constexpr char kFolder[] = "/api/v1/";
  static constexpr size_t kMaxBodyBytes = 16 << 10;

  struct Options {
    // The token that stands in for requests without one, which may only read. Empty: they are
    // refused.
    std::string open_read_token;
  };

  // The gateway outlives the HTTP server, whose Stop waits for calls under way.
  JsonGateway(std::shared_ptr<grpc::Channel> channel, Options options);
  ~JsonGateway();

  // What HttpServer serves at kFolder.
  HttpFolder Folder();

 private:
  class Routes;

  const Options options_;
  std::unique_ptr<const Routes> routes_;
};

}  // namespace muster::controller
