#include "tests/sim/network.h"

#include <algorithm>

namespace muster::sim {
namespace {

// A cut path is tried again this often, as TCP would.
constexpr absl::Duration kRetransmit = absl::Milliseconds(400);

}  // namespace

void Pipe::Send(std::function<void()> deliver) {
  if (severed_) return;
  last_due_ = std::max(last_due_, network_.agenda().now() + network_.Delay());
  under_way_.emplace_back(last_due_, std::move(deliver));
  Pump();
}

void Pipe::Sever() {
  severed_ = true;
  under_way_.clear();
}

void Pipe::Pump() {
  if (pumping_ || under_way_.empty()) return;
  pumping_ = true;
  const absl::Duration now = network_.agenda().now();
  const absl::Duration wait =
      under_way_.front().first <= now ? kRetransmit : under_way_.front().first - now;
  network_.agenda().After(wait, [self = shared_from_this()] {
    self->pumping_ = false;
    while (!self->under_way_.empty() &&
           self->under_way_.front().first <= self->network_.agenda().now() &&
           !self->network_.IsCut(self->machine_, self->way_)) {
      const std::function<void()> deliver = std::move(self->under_way_.front().second);
      self->under_way_.pop_front();
      deliver();
    }
    self->Pump();
  });
}

std::shared_ptr<Wire> Network::Connect(const std::string& machine) {
  auto wire = std::make_shared<Wire>();
  wire->up = std::make_shared<Pipe>(*this, machine, Way::kUp);
  wire->down = std::make_shared<Pipe>(*this, machine, Way::kDown);
  std::vector<std::weak_ptr<Wire>>& wires = wires_[machine];
  std::erase_if(wires, [](const auto& weak) { return weak.expired(); });
  wires.push_back(wire);
  return wire;
}

void Network::Cut(const std::string& machine, Way way, bool cut) {
  if (cut == IsCut(machine, way)) return;
  trace_.Note("network: ", machine, way == Way::kUp ? " -> controller" : " <- controller",
              cut ? " cut" : " healed");
  if (cut) {
    cuts_.insert({machine, way});
  } else {
    cuts_.erase({machine, way});
  }
}

void Network::BreakOne(const std::string& machine) {
  std::vector<std::weak_ptr<Wire>>& wires = wires_[machine];
  if (wires.empty()) return;
  const std::shared_ptr<Wire> wire = wires[dice_.Below(wires.size())].lock();
  if (wire == nullptr) return;
  trace_.Note("network: a connection of ", machine, " breaks");
  wire->down->Sever();
  // What the agent said may still arrive, behind its next connection.
  agenda_.After(dice_.Between(absl::ZeroDuration(), absl::Seconds(4)),
                [wire] { wire->up->Sever(); });
  agenda_.After(dice_.Between(absl::ZeroDuration(), absl::Seconds(2)), [wire] {
    if (wire->agent_end) wire->agent_end(absl::UnavailableError("connection reset"));
  });
  if (dice_.Chance(0.3)) return;  // the controller's end stays half open
  agenda_.After(dice_.Between(absl::ZeroDuration(), absl::Seconds(6)), [wire] {
    if (wire->controller_end) wire->controller_end();
  });
}

void Network::Heal() {
  cuts_.clear();
  weather = {};
}

absl::Duration Network::Delay() {
  absl::Duration delay = weather.base + dice_.Between(absl::ZeroDuration(), weather.jitter);
  if (dice_.Chance(weather.slow_chance)) {
    delay += dice_.Between(absl::Milliseconds(100), absl::Seconds(5));
  }
  return delay;
}

void Network::Datagram(std::function<void()> deliver) {
  if (dice_.Chance(weather.loss_chance)) return;
  if (dice_.Chance(weather.loss_chance / 3)) agenda_.After(Delay(), deliver);
  agenda_.After(Delay(), std::move(deliver));
}

}  // namespace muster::sim
