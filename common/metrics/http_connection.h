// One client of HttpServer: reads a head of bounded size, then writes one answer, each as far as
// the socket goes without blocking. One thread.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/metrics/http_listener.h"

namespace muster {

class HttpConnection {
 public:
  enum class State {
    kReading,
    kAsked,     // head() is whole: somebody should Answer
    kTooLarge,  // likewise, with a refusal
    kWriting,
    kLingering,  // all is written; what the client still sends is thrown away, so that it is not
                 // reset before it has read
    kOver,
  };

  HttpConnection(HttpPeer peer, size_t max_head_bytes, absl::Duration deadline)
      : peer_(std::move(peer)), max_head_bytes_(max_head_bytes), deadline_(deadline) {}

  // The socket can be read, or written.
  void OnReady();
  void Answer(std::string text, absl::Duration deadline);

  State state() const { return state_; }
  // What to poll for; 0: nothing.
  short wanted() const;
  int fd() const { return peer_.fd.get(); }
  const std::string& host() const { return peer_.host; }
  const std::string& head() const { return in_; }
  absl::Duration deadline() const { return deadline_; }

 private:
  void Read();
  void Write();

  HttpPeer peer_;
  const size_t max_head_bytes_;
  absl::Duration deadline_;
  State state_ = State::kReading;
  std::string in_;
  std::string out_;
  size_t written_ = 0;
};

}  // namespace muster
