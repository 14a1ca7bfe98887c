// Hostile bytes at the ports of a real musterd with TLS: before and inside the handshake, and as
// HTTP/2 and gRPC through a session that a valid certificate or token has opened. musterd lives on,
// serves who is good, and nothing is changed that the sender may not change. The same bytes in
// every run; MUSTER_FUZZ_SECONDS goes on for so long in each test.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/rng.h"
#include "tests/fuzz/message_builder.h"
#include "tests/fuzz/tls_client.h"
#include "tests/support/declared_services.h"
#include "tests/support/raw_peer.h"
#include "tests/support/tls_musterd.h"

namespace muster::testing {
namespace {

using google::protobuf::MethodDescriptor;

constexpr int kConnections = 300;  // in each test, unless MUSTER_FUZZ_SECONDS says otherwise
constexpr int kCallsOfConnection = 6;
const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// Numbers that follow from a seed.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(DeriveSeed(seed, 11)) {}
  uint64_t Next() { return state_ = SplitMix64(state_); }
  size_t Below(size_t count) { return count == 0 ? 0 : Next() % count; }
  std::string Bytes(size_t count) {
    std::string bytes(count, '\0');
    for (char& byte : bytes) byte = static_cast<char>(Next());
    return bytes;
  }
  // A few bytes changed, put in, taken out or doubled, or the end cut off.
  std::string Mutate(std::string bytes) {
    for (size_t i = Below(6); i > 0 && !bytes.empty(); --i) {
      const size_t at = Below(bytes.size());
      switch (Below(5)) {
        case 0:
          bytes[at] = static_cast<char>(Next());
          break;
        case 1:
          bytes.insert(at, Bytes(1 + Below(20)));
          break;
        case 2:
          bytes.erase(at, 1 + Below(20));
          break;
        case 3:
          bytes.insert(at, bytes.substr(at, 1 + Below(60)));
          break;
        default:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << Below(8)));
          break;
      }
    }
    return Below(8) == 0 ? bytes.substr(0, Below(bytes.size())) : bytes;
  }

 private:
  uint64_t state_;
};

std::vector<const MethodDescriptor*> AllMethods() {
  std::vector<const MethodDescriptor*> methods;
  for (const auto* service : DeclaredServices()) {
    for (int m = 0; m < service->method_count(); ++m) methods.push_back(service->method(m));
  }
  return methods;
}

// A frame of stream 1 as one of another stream.
std::string OnStream(std::string frame, int stream) {
  frame[8] = static_cast<char>(stream);
  return frame;
}

class TlsBytesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // OpenSSL writes to connections that musterd has closed.
    ::signal(SIGPIPE, SIG_IGN);
    // protobuf's word on each text that is no UTF-8.
    google::protobuf::SetLogHandler(nullptr);
    // The HTTP port as it is beyond loopback: by TLS.
    ASSERT_NO_FATAL_FAILURE(
        musterd_.Start({"--calls-per-second", "0", "--http-listen", "0.0.0.0:0"}));
    ports_ = {musterd_.Port("grpc"), musterd_.Port("worker"), musterd_.Port("http")};
    ASSERT_EQ(musterd_.Cli({"submit", "-q", "-f", Job()}).exit_code, 0);
  }
  std::string Job() {
    const std::string path = musterd_.Path("job.yaml");
    std::ofstream(path) << "name: waits\nplacement: {wait_for_capacity: true}\n"
                           "command: {argv: [\"true\"]}\n";
    return path;
  }

  // One connection after the other, each with a seed of its own.
  template <typename Play>
  void Repeat(const Play& play) {
    const char* seconds = ::getenv("MUSTER_FUZZ_SECONDS");
    const absl::Time end = Now() + absl::Seconds(seconds == nullptr ? 0 : ::atoi(seconds));
    uint64_t seed = 0;
    for (; seed < kConnections || Now() < end; ++seed) {
      Dice dice(seed);
      play(dice);
    }
    std::cout << seed << " connections, " << calls_ << " calls, " << heard_ << " bytes heard\n";
  }

  // Calls of any methods with messages of their kinds, some of it mutated.
  void Call(TlsClient& client, Dice& dice, const std::string& token) {
    std::string begin = kPreface + SettingsFrame();
    if (dice.Below(8) == 0) begin = dice.Mutate(begin);
    if (!client.Send(begin)) return;
    for (int i = 0; i < kCallsOfConnection; ++i) {
      const MethodDescriptor& method = *methods_[dice.Below(methods_.size())];
      if (method.name() == left_out_) continue;
      std::vector<std::pair<std::string, std::string>> headers = {
          {":method", "POST"},
          {":scheme", "https"},
          {":path", absl::StrCat("/", method.service()->full_name(), "/", method.name())},
          {":authority", "localhost"},
          {"content-type", "application/grpc"},
          {"te", "trailers"}};
      if (!token.empty()) headers.emplace_back("authorization", "Bearer " + token);
      const std::string bytes = dice.Bytes(512);
      FuzzInput input(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
      const std::unique_ptr<google::protobuf::Message> message(
          google::protobuf::MessageFactory::generated_factory()
              ->GetPrototype(method.input_type())
              ->New());
      FillMessage(input, *message);
      std::string body = Prefixed(message->SerializePartialAsString().substr(0, 16'000));
      if (dice.Below(4) == 0) body = dice.Mutate(body).substr(0, 16'000);
      std::string all = OnStream(HeadersFrame(headers, false), 2 * i + 1) +
                        OnStream(DataFrame(body, true), 2 * i + 1);
      if (dice.Below(4) == 0) all = dice.Mutate(all);
      ++calls_;
      if (!client.Send(all)) return;
    }
    if (dice.Below(4) != 0) heard_ += client.Drain();
  }

  std::string ScrapeToken() {
    return std::string(
        absl::StripAsciiWhitespace(musterd_.Read(musterd_.Folder() + "/scrape-token")));
  }
  // One request to the HTTP port, some of it mutated.
  void Ask(TlsClient& client, Dice& dice) {
    static const std::vector<std::string> kPaths = {"/",
                                                    "/metrics",
                                                    "/sd",
                                                    "/healthz",
                                                    "/readyz",
                                                    "/api/v1/jobs",
                                                    "/api/v1/jobs/1",
                                                    "/api/v1/jobs/1/cancel",
                                                    "/app.js",
                                                    "/api/v1/whoami",
                                                    "/api/v1/jobs/1/control",
                                                    "/api/v1/jobs?state=%zz&limit=-1",
                                                    "/../token"};
    static const std::vector<std::string> kMethods = {"GET",  "HEAD", "POST",
                                                      "POST", "PUT",  "CONNECT"};
    const std::string& method = kMethods[dice.Below(kMethods.size())];
    const std::string body = dice.Below(2) == 0 ? "{\"verb\": \"HOLD\"}" : dice.Bytes(200);
    std::string request = absl::StrCat(
        method, " ", kPaths[dice.Below(kPaths.size())],
        " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ",
        body.size(), "\r\n");
    if (dice.Below(2) == 0) {
      absl::StrAppend(&request, "Authorization: Bearer ", ScrapeToken(), "\r\n");
    }
    absl::StrAppend(&request, "\r\n", body);
    ++calls_;
    if (dice.Below(3) != 0) {
      if (client.Send(dice.Mutate(request))) heard_ += client.Drain();
    } else if (client.Send(request) && method == "POST") {
      // It is answered, and that is the connection's end.
      const size_t heard = client.Drain(30'000'000);
      EXPECT_GT(heard, 0u) << request;
      heard_ += heard;
    }
  }

  // Of those that musterd has ended with this code: they got past TLS, HTTP/2 and gRPC.
  size_t MethodsEndedBy(const std::string& code) {
    const std::string page =
        RunProcess({"curl", "-sf", "-m", "20", "--cacert", musterd_.Folder() + "/tls/ca.pem", "-H",
                    "Authorization: Bearer " + ScrapeToken(),
                    absl::StrCat("https://127.0.0.1:", ports_[2], "/metrics")},
                   musterd_.environment(), absl::Minutes(1))
            .out;
    size_t methods = 0;
    for (const absl::string_view line : absl::StrSplit(page, '\n')) {
      methods += absl::StartsWith(line, "muster_rpc_requests_total{") &&
                 absl::StrContains(line, absl::StrCat("\"", code, "\""));
    }
    return methods;
  }

  // What people see of the state, but for who was seen when.
  std::map<std::string, std::string> State() {
    std::map<std::string, std::string> state;
    for (const std::vector<std::string>& words : {std::vector<std::string>{"ls", "-o", "json"},
                                                  {"show", "1", "-o", "json"},
                                                  {"user", "ls", "-o", "json"},
                                                  {"project", "ls", "-o", "json"},
                                                  {"join-token", "ls", "-o", "json"},
                                                  {"nodes", "-o", "name"},
                                                  {"ckpt", "ls", "1"}}) {
      const ProcessResult told = musterd_.Cli(words);
      EXPECT_EQ(told.exit_code, 0) << words[0] << ": " << told.err;
      state[words[0]] = told.out;
    }
    return state;
  }
  void ExpectAlive() {
    EXPECT_EQ(::kill(musterd_.pid(), 0), 0);
    EXPECT_EQ(musterd_.Cli({"submit", "-q", "-f", Job()}).exit_code, 0) << musterd_.Log();
    EXPECT_EQ(musterd_.Cli({"audit", "verify"}).exit_code, 0);
    const std::string endpoints = musterd_.Read(musterd_.Folder() + "/endpoints.json");
    EXPECT_EQ(Number(Json::parse(endpoints), "pid"), musterd_.pid()) << "it began anew";
  }

  TlsMusterd musterd_;
  const std::vector<const MethodDescriptor*> methods_ = AllMethods();
  std::vector<int> ports_;  // of people, workers, HTTP
  std::string left_out_;    // a method that is not called
  uint64_t calls_ = 0;
  uint64_t heard_ = 0;
};

TEST_F(TlsBytesTest, BytesInPlaceOfAHandshakeHarmNobody) {
  const std::map<std::string, std::string> before = State();
  const TlsIdentity nobody;
  const std::string hello = ClientHello();
  uint64_t all = 0;
  uint64_t connected = 0;
  uint64_t answered = 0;
  Repeat([&](Dice& dice) {
    TlsClient client(nobody, ports_[dice.Below(3)], dice.Next());
    connected += client.connected();
    switch (dice.Below(4)) {
      case 0:
        client.SendRaw(dice.Bytes(dice.Below(2000)));
        break;
      case 1:
        client.SendRaw(dice.Mutate(hello));
        break;
      case 2:  // a good beginning, and records of nonsense
        client.SendRaw(hello);
        client.SendRaw(std::string("\x17\x03\x03\x01\x00", 5) + dice.Bytes(256));
        break;
      default:
        client.SendRaw(hello);
        client.SendRaw(dice.Mutate(hello));
        break;
    }
    answered += client.EndRaw();
    ++all;
  });
  std::cout << connected << " connected, " << answered << " answered or ended by musterd\n";
  EXPECT_EQ(connected, all);
  EXPECT_GT(answered, all / 2);
  EXPECT_EQ(State(), before);
  ExpectAlive();
}

TEST_F(TlsBytesTest, ACertifiedWorkerChangesNothingThatIsNotItsOwn) {
  musterd_.Certify("node-1");
  const TlsIdentity worker(musterd_.Path("node-1/worker.pem"), musterd_.Path("node-1/worker.key"));
  std::map<std::string, std::string> before = State();
  Repeat([&](Dice& dice) {
    TlsClient client(worker, ports_[1], dice.Next());
    if (client.Handshake()) Call(client, dice, "");
  });
  EXPECT_GE(MethodsEndedBy("INVALID_ARGUMENT"), 1u) << "its streams are heard";
  // Its own name may have come into the list, and no other.
  std::map<std::string, std::string> after = State();
  EXPECT_THAT(after["nodes"], ::testing::AnyOf("", "node-1\n"));
  after["nodes"] = before["nodes"];
  EXPECT_EQ(after, before);
  ExpectAlive();
}

TEST_F(TlsBytesTest, WhatComesByTlsToTheHttpPortChangesNothing) {
  const std::map<std::string, std::string> before = State();
  const TlsIdentity nobody;
  uint64_t all = 0;
  uint64_t shaken = 0;
  Repeat([&](Dice& dice) {
    TlsClient client(nobody, ports_[2], dice.Next());
    ++all;
    if (!client.Handshake()) return;
    ++shaken;
    Ask(client, dice);
  });
  EXPECT_GT(shaken, all / 2) << "the port speaks TLS";
  EXPECT_GT(heard_, 1000u);
  EXPECT_EQ(State(), before);
  ExpectAlive();
}

TEST(TlsBytesMethods, AreThoseOfEveryService) {
  std::set<std::string> services;
  for (const MethodDescriptor* method : AllMethods()) services.insert(method->service()->name());
  EXPECT_THAT(services, ::testing::IsSupersetOf({"AccessService", "AdminService", "EnrollService",
                                                 "ExecService", "JobService", "PageService",
                                                 "UploadService", "WorkerService"}));
}

TEST_F(TlsBytesTest, AViewerChangesNothing) {
  left_out_ = "RevokeToken";  // her own she may
  const std::string path = musterd_.AddUser("vera", "default", "viewer");
  const std::string token(absl::StripAsciiWhitespace(musterd_.Read(path)));
  const TlsIdentity nobody;
  const std::map<std::string, std::string> before = State();
  Repeat([&](Dice& dice) {
    TlsClient client(nobody, ports_[0], dice.Next());
    if (client.Handshake()) Call(client, dice, token);
  });
  EXPECT_EQ(State(), before);
  EXPECT_GE(MethodsEndedBy("OK"), 5u) << "reads are answered";
  EXPECT_EQ(musterd_.Cli({"ls"}, path).exit_code, 0);
  ExpectAlive();
}

TEST_F(TlsBytesTest, WhatTheAdministratorSendsHarmsNobodyElse) {
  const std::string token(absl::StripAsciiWhitespace(musterd_.Read(musterd_.Folder() + "/token")));
  const TlsIdentity nobody;
  Repeat([&](Dice& dice) {
    TlsClient client(nobody, ports_[0], dice.Next());
    if (client.Handshake()) Call(client, dice, token);
  });
  EXPECT_GE(MethodsEndedBy("OK"), 10u);
  EXPECT_GE(MethodsEndedBy("INVALID_ARGUMENT"), 10u);
  ExpectAlive();
}

}  // namespace
}  // namespace muster::testing
