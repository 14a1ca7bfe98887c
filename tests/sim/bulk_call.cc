#include "tests/sim/bulk_call.h"

#include <functional>
#include <utility>

namespace muster::sim {
namespace {

class SimBulkCall final : public BulkCall {
 public:
  SimBulkCall(SimController& controller, std::shared_ptr<Wire> wire)
      : controller_(controller), wire_(std::move(wire)) {}
  // The kernel closes the socket.
  ~SimBulkCall() override {
    wire_->up->Send([line = line_] {
      if (line->server != nullptr) line->server->OnGone();
    });
  }

  void Begin(BulkHandlers handlers, Execution& execution,
             const std::shared_ptr<SimBulkCall>& self) {
    const std::weak_ptr<SimBulkCall> weak = self;
    at_agent_ = [weak, &execution, on_ack = std::move(handlers.on_ack)](const v1::BulkAck& ack) {
      if (weak.expired()) return;
      execution.Run([weak, on_ack, ack] {
        if (!weak.expired()) on_ack(ack);
      });
    };
    wire_->agent_end = [weak, &execution,
                        on_end = std::move(handlers.on_end)](const absl::Status&) {
      if (weak.expired()) return;
      execution.Run([weak, on_end] {
        const auto held = weak.lock();
        if (held != nullptr && !std::exchange(held->ended_, true)) on_end();
      });
    };
    wire_->controller_end = [weak_line = std::weak_ptr(line_)] {
      const auto line = weak_line.lock();
      if (line != nullptr && line->server != nullptr) line->server->OnGone();
    };
  }

  void Send(v1::BulkBatch batch) override {
    wire_->up->Send([line = line_, weak_wire = std::weak_ptr(wire_), &controller = controller_,
                     at_agent = at_agent_, batch = std::move(batch)] {
      const std::shared_ptr<Wire> wire = weak_wire.lock();
      if (line->server == nullptr && !line->refused && wire != nullptr) {
        line->server = controller.AcceptBulk(wire, at_agent);
        line->refused = line->server == nullptr;
        if (line->refused) Refuse(*wire, wire);
      }
      if (line->server != nullptr) line->server->OnBatch(batch);
    });
  }

 private:
  struct Line {
    std::shared_ptr<BulkServer> server;
    bool refused = false;
  };
  static void Refuse(Wire& wire, std::weak_ptr<Wire> weak) {
    wire.down->Send([weak = std::move(weak)] {
      const auto held = weak.lock();
      if (held != nullptr && held->agent_end) {
        held->agent_end(absl::UnavailableError("connection refused"));
      }
    });
  }

  SimController& controller_;
  const std::shared_ptr<Wire> wire_;
  const std::shared_ptr<Line> line_ = std::make_shared<Line>();
  std::function<void(const v1::BulkAck&)> at_agent_;
  bool ended_ = false;
};

}  // namespace

std::shared_ptr<BulkCall> CallBulk(SimController& controller, std::shared_ptr<Wire> wire,
                                   Execution& execution, BulkHandlers handlers) {
  auto call = std::make_shared<SimBulkCall>(controller, std::move(wire));
  call->Begin(std::move(handlers), execution, call);
  return call;
}

}  // namespace muster::sim
