// One request and its answer over a TCP connection of their own, by HTTP/2 without TLS (prior
// knowledge). Knows nothing of gRPC. The only includer of nghttp2.
//
// Bounded whatever the peer sends: each Turn takes at most kTurnBytes from it, headers are at most
// kMaxHeaderBytes, and what nghttp2 keeps in order to answer (pings, settings) it bounds itself. A
// peer that is silent during a Turn is pinged, and given up when it stays so. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/peer_limits.h"
#include "common/base/unique_fd.h"

struct nghttp2_session;

namespace muster {

class Http2Stream {
 public:
  static constexpr size_t kTurnBytes = 64 << 10;

  struct Header {
    std::string name;  // in lower case
    std::string value;
    bool secret = false;  // never enters a compression table
  };

  struct Silence {
    absl::Duration ping_after = kPingInterval;
    absl::Duration gone_after = kPingTimeout;  // the ping
  };

  // The answer's head; of its headers and trailers those that somebody asks for.
  struct Answer {
    bool headed = false;  // its head came whole
    int http_status = 0;
    std::string content_type;
    std::string grpc_status;  // empty: none came
    std::string grpc_message;
  };

  // `connection` is a connected socket that does not block; `headers` begin with the four
  // pseudo-headers. Nothing is sent before the first Turn.
  Http2Stream(UniqueFd connection, const std::vector<Header>& headers, const Silence& silence);
  // Closes the connection, whatever the state of the request.
  ~Http2Stream();
  Http2Stream(const Http2Stream&) = delete;
  Http2Stream& operator=(const Http2Stream&) = delete;

  // Appends to the request's body; EndRequest says that it is whole. Neither sends anything.
  void Append(absl::string_view bytes);
  void EndRequest();

  // Sends what the peer lets through, waits for it, and takes what it has sent meanwhile. OK: there
  // was something to do; look again. CANCELLED, DEADLINE_EXCEEDED: as AwaitReady.
  absl::Status Turn(const UniqueFd& wake, absl::Duration deadline);

  // Whether all that was appended is with the kernel.
  bool sent() const { return request_at_ == request_.size() && out_at_ == out_.size(); }
  // Whether nothing more of the answer will come.
  bool over() const { return answered_ || !fault_.ok(); }
  // Why an answer that is over is not whole; OK when it is.
  const absl::Status& fault() const { return fault_; }
  // Whether the peer hung up, or refused the request, before the answer's head.
  bool unheard() const { return hung_up_ && !answer_.headed; }
  const Answer& answer() const { return answer_; }
  // What came of the answer's body; whoever reads it takes it out.
  std::string& body() { return body_; }

 private:
  struct Callbacks;  // nghttp2's, which it calls from FillOut and Take

  void FillOut();
  void SendOut();
  void Take();
  void Silent();
  void Fail(absl::Status status);

  const UniqueFd connection_;
  const Silence silence_;
  nghttp2_session* session_ = nullptr;
  int32_t stream_ = 0;
  std::string request_;  // of the body, what is not in a frame yet, from request_at_ on
  size_t request_at_ = 0;
  bool request_ends_ = false;
  bool request_waits_ = false;  // nghttp2 asked for more of the body than there was
  std::string out_;             // frames that are not with the kernel yet, from out_at_ on
  size_t out_at_ = 0;
  Answer answer_;
  size_t header_bytes_ = 0;
  std::string body_;
  bool answered_ = false;
  bool hung_up_ = false;
  absl::Status fault_;
  absl::Duration judged_at_;  // since boot: when a silent peer is pinged, or given up
  bool pinged_ = false;
};

}  // namespace muster
