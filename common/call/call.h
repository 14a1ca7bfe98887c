// Calls of gRPC services without gRPC's library: for programs that live for milliseconds, since
// that library takes longer to start than a controller to answer. What is used of the protocol:
// unary calls and streams in one direction, no compression, no TLS.
//
// Each call has a connection of its own, opened at its first message: a call knows nothing of the
// fate of others, and one that begins after a controller came back finds it. Proxies from the
// environment are ignored. Blocking; one thread for each call, but Cancel from any.
#pragma once

#include <google/protobuf/message_lite.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/peer_limits.h"
#include "common/base/unique_fd.h"
#include "common/call/http2_stream.h"

namespace muster {

// A method of a service: its path, "/package.Service/Method", and what goes there and back.
template <typename Request, typename Response>
struct Method {
  const char* path;
  bool only_reads = false;  // nothing changes, however often it is called
};

struct CallOptions {
  std::string address;  // as Dial takes it
  std::string token;    // sent as bearer; none when empty. Requires CheckTokenText for others
  absl::Duration timeout = absl::InfiniteDuration();  // of the whole call, from its creation on
  size_t max_receive_bytes = kMaxMessageBytes;
  Http2Stream::Silence silence;
};

// How a call ended. By the peer: `status` is what it answered. Otherwise UNAVAILABLE: nobody there,
// or the connection was lost; DEADLINE_EXCEEDED; CANCELLED; RESOURCE_EXHAUSTED: an answer larger
// than its bound; INTERNAL: an answer that cannot be read.
struct CallEnd {
  absl::Status status;
  bool by_peer = false;
  bool unheard = false;  // the peer took the connection, and hung up before it answered
  absl::Duration connected = absl::ZeroDuration();  // for so long; zero also if it never was

  bool ok() const { return status.ok(); }
};

class Call {
 public:
  Call(const char* path, CallOptions options);

  // The request of a call that sends one message. It goes out with the first Read or Finish, so
  // this blocks on nothing.
  void Start(const google::protobuf::MessageLite& request);

  // A call that sends many: each Write returns when its message is with the kernel. False: the call
  // is over.
  bool Write(const google::protobuf::MessageLite& message);
  void EndWrites();

  // Waits for the next message. False: there is none, and Finish tells why. Requires Start or
  // EndWrites.
  bool Read(google::protobuf::MessageLite& message);

  // Waits for the end; messages that were not read are dropped. Requires Start or EndWrites.
  CallEnd Finish();

  // Ends the call with CANCELLED, if it has not ended. Blocks on nothing.
  void Cancel();

 private:
  bool Frame(const google::protobuf::MessageLite& message);
  bool Open();
  CallEnd AwaitEnd();
  bool Turn();
  bool IsForeign() const;
  bool TakeMessage(google::protobuf::MessageLite& message);
  void Fail(absl::Status status);

  const char* const path_;
  const CallOptions options_;
  const absl::Duration deadline_;  // since boot
  const UniqueFd cancelled_;       // readable when it was
  std::string framed_;             // what Open is to send
  bool ended_ = false;             // nothing will be written behind it
  std::unique_ptr<Http2Stream> stream_;
  absl::Duration connected_at_;  // since boot; requires stream_
  size_t taken_ = 0;             // of the stream's body
  bool cut_off_ = false;         // the stream ended within a message
  absl::Status failure_;         // ours, not the peer's
};

// A call with one request and many responses.
template <typename Response>
class ReadCall {
 public:
  template <typename Request>
  ReadCall(Method<Request, Response> method, const Request& request, CallOptions options)
      : call_(method.path, std::move(options)) {
    call_.Start(request);
  }

  bool Read(Response& response) { return call_.Read(response); }
  CallEnd Finish() { return call_.Finish(); }
  void Cancel() { call_.Cancel(); }

 private:
  Call call_;
};

// A call with one response. It ends OK only with a message in `response`.
CallEnd FinishWith(Call& call, google::protobuf::MessageLite& response);

// A call with one request and one response. One that only reads is made a second time, within the
// same timeout, when its end was `unheard`: the peer may be on its way down, and another up.
CallEnd CallUnary(Method<google::protobuf::MessageLite, google::protobuf::MessageLite> method,
                  const google::protobuf::MessageLite& request,
                  google::protobuf::MessageLite& response, CallOptions options);

template <typename Request, typename Response>
CallEnd CallOnce(Method<Request, Response> method, const Request& request, Response& response,
                 CallOptions options) {
  return CallUnary({method.path, method.only_reads}, request, response, std::move(options));
}

}  // namespace muster
