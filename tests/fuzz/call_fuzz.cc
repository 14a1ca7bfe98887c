// What a server answers to a call: frames that are right, frames that are not, and bytes that are
// none. The call always ends, OK only when the server says so, and no message is above the limit.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <string>

#include "common/call/call.h"
#include "muster/v1/job_service.pb.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/raw_peer.h"

namespace {

namespace peer = ::muster::testing;
using ::muster::CallEnd;
using ::muster::testing::FuzzInput;
using Method = ::muster::Method<muster::v1::GetVersionRequest, muster::v1::GetVersionResponse>;

constexpr size_t kMaxReceiveBytes = 64;

[[noreturn]] void Broken(const std::string& what) {
  ::fprintf(stderr, "BROKEN: %s\n", what.c_str());
  ::abort();
}

// Mostly a message, in a prefix that mostly tells its length.
std::string SomeData(FuzzInput& input) {
  muster::v1::GetVersionResponse response;
  response.set_version("9.9");
  const std::string message =
      input.Chance(128) ? response.SerializeAsString() : input.Bytes(input.Byte());
  std::string data = peer::Prefixed(message, /*compressed=*/input.Chance(16));
  if (input.Chance(32)) data[input.Below(5)] ^= static_cast<char>(input.Byte());
  if (input.Chance(32)) data.resize(input.Below(static_cast<uint32_t>(data.size())));
  return data;
}

std::string SomeTrailers(FuzzInput& input) {
  static const char* const kCodes[] = {"0", "5", "14", "17", "-1", "", "x", "99999999999"};
  return peer::HeadersFrame(
      {{"grpc-status", kCodes[input.Below(8)]}, {"grpc-message", input.Bytes(input.Byte())}},
      /*end_stream=*/!input.Chance(16));
}

std::string SomeFrame(FuzzInput& input) {
  switch (input.Below(10)) {
    case 0:
      return peer::SettingsFrame();
    case 1:
    case 2:
      return peer::HeadersFrame({{":status", input.Chance(240) ? "200" : input.Bytes(3)},
                                 {"content-type", "application/grpc"}},
                                input.Chance(8));
    case 3:
    case 4:
      return peer::DataFrame(SomeData(input), input.Chance(16));
    case 5:
      return SomeTrailers(input);
    case 6:
      return input.Chance(128) ? peer::ResetFrame(input.Byte())
                               : peer::GoAwayFrame(input.Below(3), input.Byte());
    case 7:
      return peer::HeadersFrame(
          {{input.Bytes(input.Below(8)), std::string(input.Word() % 9'000, 'x')}}, false);
    case 8:
      return peer::Frame(input.Byte(), input.Byte(), input.Below(4), input.Bytes(input.Byte()));
    default:
      return input.Bytes(input.Byte());
  }
}

void CheckEnd(const CallEnd& end, bool answered) {
  if (end.ok() && !end.by_peer) Broken("nobody said OK");
  if (end.unheard && (answered || end.by_peer)) Broken("an answer was heard, and forgotten");
  if (end.status.raw_code() < 0 || end.status.raw_code() > 16) Broken("a status of no code");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  std::string answer = input.Chance(240) ? peer::SettingsFrame() : "";
  while (!input.empty()) answer += SomeFrame(input);
  peer::RawPeer server([&](peer::RawPeer::Connection& connection) {
    if (!connection.Send(answer)) return;
    connection.EndSending();
    connection.AwaitHangUp();
  });
  muster::ReadCall call(Method{"/muster.v1.JobService/GetVersion"}, muster::v1::GetVersionRequest(),
                        {.address = server.address(), .max_receive_bytes = kMaxReceiveBytes});
  muster::v1::GetVersionResponse response;
  bool answered = false;
  while (call.Read(response)) {
    answered = true;
    if (response.version().size() > kMaxReceiveBytes) Broken("a message above the limit");
  }
  CheckEnd(call.Finish(), answered);
  return 0;
}
