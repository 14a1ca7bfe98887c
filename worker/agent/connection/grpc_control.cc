#include "worker/agent/connection/grpc_control.h"

#include <utility>

#include "muster/v1/worker_service.grpc.pb.h"
#include "worker/agent/connection/bidi_stream.h"

namespace muster::worker {
namespace {

using Stream = BidiStream<v1::WorkerMessage, v1::ControllerMessage>;

class GrpcControl final : public ControlConnection {
 public:
  explicit GrpcControl(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  void Send(v1::WorkerMessage message) override { stream_->Send(std::move(message)); }
  void SendFromAnyThread(v1::WorkerMessage message) override {
    stream_->SendFromAnyThread(std::move(message));
  }
  void Close() override { stream_->Close(); }

 private:
  const std::shared_ptr<Stream> stream_;
};

}  // namespace

ControlConnector MakeGrpcControl(EventLoop& loop, const std::shared_ptr<grpc::Channel>& channel,
                                 std::string token) {
  return [&loop, stub = std::shared_ptr(v1::WorkerService::NewStub(channel)),
          token = std::move(token)](ControlHandlers handlers) {
    auto stream = Stream::Start(
        loop.mailbox(), token,
        [&stub](grpc::ClientContext* context, auto* reactor) {
          stub->async()->Control(context, reactor);
        },
        {.on_message = std::move(handlers.on_message), .on_end = std::move(handlers.on_end)});
    return std::make_shared<GrpcControl>(std::move(stream));
  };
}

}  // namespace muster::worker
