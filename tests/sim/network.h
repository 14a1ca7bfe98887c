// The network between machines and the controller: delays, one-way cuts, connections that break.
//
// A Wire is one connection, as TCP gives it: each direction keeps its order. What is lost, doubled
// or out of order for the protocol comes from connections that break: what was under way is gone or
// arrives late, after the next connection has begun, and either end may hear of the break much
// later or never.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tests/sim/agenda.h"
#include "tests/sim/dice.h"
#include "tests/sim/trace.h"

namespace muster::sim {

enum class Way { kUp, kDown };  // to the controller, to the machine

struct Weather {
  absl::Duration base = absl::Milliseconds(1);
  absl::Duration jitter = absl::Milliseconds(5);
  double slow_chance = 0;  // of a packet that takes seconds
  double loss_chance = 0;  // of a call of people
};

class Network;

// One direction of one connection.
class Pipe : public std::enable_shared_from_this<Pipe> {
 public:
  Pipe(Network& network, std::string machine, Way way)
      : network_(network), machine_(std::move(machine)), way_(way) {}
  void Send(std::function<void()> deliver);
  void Sever();  // what is under way is lost, and all that follows

 private:
  void Pump();

  Network& network_;
  const std::string machine_;
  const Way way_;
  std::deque<std::pair<absl::Duration, std::function<void()>>> under_way_;
  absl::Duration last_due_;
  bool pumping_ = false;
  bool severed_ = false;
};

struct Wire {
  std::shared_ptr<Pipe> up;
  std::shared_ptr<Pipe> down;
  // What each end does when it hears that the connection broke.
  std::function<void(absl::Status)> agent_end;
  std::function<void()> controller_end;
};

class Network {
 public:
  Network(Agenda& agenda, Trace& trace, Dice dice) : agenda_(agenda), trace_(trace), dice_(dice) {}

  Weather weather;

  std::shared_ptr<Wire> Connect(const std::string& machine);
  void Cut(const std::string& machine, Way way, bool cut);
  bool IsCut(const std::string& machine, Way way) const { return cuts_.count({machine, way}) != 0; }
  // Breaks a connection of the machine, as a middlebox would.
  void BreakOne(const std::string& machine);
  void Heal();

  absl::Duration Delay();
  // One message of a call: maybe lost, maybe doubled.
  void Datagram(std::function<void()> deliver);

  Agenda& agenda() { return agenda_; }

 private:
  Agenda& agenda_;
  Trace& trace_;
  Dice dice_;
  std::set<std::pair<std::string, Way>> cuts_;
  std::map<std::string, std::vector<std::weak_ptr<Wire>>> wires_;
};

}  // namespace muster::sim
