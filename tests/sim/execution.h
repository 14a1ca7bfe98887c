// Something that runs on a machine (an agent, a rank): it can be paused, so that what is due waits,
// and it can die, so that nothing of it ever runs again. It is the clock and the timers of the
// agent's real parts.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "tests/sim/agenda.h"
#include "worker/agent/base/timers.h"

namespace muster::sim {

class Execution final : public worker::Timers {
 public:
  explicit Execution(Agenda& agenda) : agenda_(agenda), state_(std::make_shared<State>()) {}
  ~Execution() override { Kill(); }
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  TimerId After(absl::Duration delay, std::function<void()> task) override {
    const TimerId id = ++last_id_;
    state_->waiting.insert(id);
    agenda_.After(delay, [weak = std::weak_ptr(state_), id, task = std::move(task)]() mutable {
      Later(weak, [weak, id, task = std::move(task)] {
        const auto state = weak.lock();
        if (state != nullptr && state->waiting.erase(id) != 0) task();
      });
    });
    return id;
  }
  void Cancel(TimerId id) override { state_->waiting.erase(id); }
  Clock& clock() const override { return agenda_.clock(); }

  // A task from outside (a message, a signal), for any time. Does nothing once this is dead.
  std::function<void()> Guard(std::function<void()> task) {
    return [weak = std::weak_ptr(state_), task = std::move(task)] { Later(weak, task); };
  }
  void Run(std::function<void()> task) { Later(state_, std::move(task)); }

  void Pause() { state_->paused = true; }
  void Resume() {
    state_->paused = false;
    const std::weak_ptr<State> weak = state_;
    while (true) {
      const auto state = weak.lock();
      if (state == nullptr || state->paused || state->deferred.empty()) return;
      const std::function<void()> task = std::move(state->deferred.front());
      state->deferred.pop_front();
      task();
    }
  }
  bool paused() const { return state_->paused; }
  void Kill() { state_ = std::make_shared<State>(); }

 private:
  struct State {
    bool paused = false;
    std::deque<std::function<void()>> deferred;
    std::set<TimerId> waiting;
  };
  static void Later(const std::weak_ptr<State>& weak, std::function<void()> task) {
    const auto state = weak.lock();
    if (state == nullptr) return;
    if (state->paused) {
      state->deferred.push_back(std::move(task));
    } else {
      task();
    }
  }

  Agenda& agenda_;
  std::shared_ptr<State> state_;
  TimerId last_id_ = 0;
};

}  // namespace muster::sim
