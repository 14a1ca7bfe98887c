#include "worker/link/link_messages.h"

#include <cmath>
#include <limits>

#include "common/base/rng.h"
#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

template <typename T>
T RoundTripRank(const T& line) {
  auto decoded = DecodeRankLine(Encode(RankLine(line)));
  EXPECT_OK(decoded);
  return std::get<T>(*decoded);
}

template <typename T>
T RoundTripAgent(const T& line) {
  auto decoded = DecodeAgentLine(Encode(AgentLine(line)));
  EXPECT_OK(decoded);
  return std::get<T>(*decoded);
}

TEST(LinkMessages, HelloSurvivesARoundTrip) {
  const HelloLine line =
      RoundTripRank(HelloLine{.protocol_version = 1, .rank = 3, .version = "0.1.0"});
  EXPECT_EQ(line.protocol_version, 1u);
  EXPECT_EQ(line.rank, 3u);
  EXPECT_EQ(line.version, "0.1.0");
}

TEST(LinkMessages, StoreKeepsEveryByteOfItsValueForEachOp) {
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) all_bytes.push_back(static_cast<char>(byte));
  using Op = StoreLine::Op;
  for (Op op : {Op::kSet, Op::kGet, Op::kAdd, Op::kCheck, Op::kDelete, Op::kWait, Op::kCount}) {
    const StoreLine line = RoundTripRank(StoreLine{.id = std::numeric_limits<uint64_t>::max(),
                                                   .op = op,
                                                   .keys = {"a/0", "b \"quoted\"\n"},
                                                   .value = all_bytes,
                                                   .timeout_ms = 300000});
    EXPECT_EQ(line.id, std::numeric_limits<uint64_t>::max());
    EXPECT_EQ(line.op, op);
    EXPECT_EQ(line.keys, (std::vector<std::string>{"a/0", "b \"quoted\"\n"}));
    EXPECT_EQ(line.value, all_bytes);
    EXPECT_EQ(line.timeout_ms, 300000);
  }
}

TEST(LinkMessages, MetricsKeepNumbersExactlyAndNonFiniteOnesByName) {
  const double inf = std::numeric_limits<double>::infinity();
  const MetricsLine line = RoundTripRank(MetricsLine{
      .seq = 7,
      .lost = 2,
      .step = 40,
      .time_ms = 1'700'000'000'123,
      .values = {{"loss", 0.1 + 0.2}, {"nan", std::nan("")}, {"up", inf}, {"down", -inf}}});
  EXPECT_EQ(line.seq, 7u);
  EXPECT_EQ(line.lost, 2u);
  EXPECT_EQ(line.step, 40);
  EXPECT_EQ(line.time_ms, 1'700'000'000'123);
  EXPECT_EQ(line.values.at("loss"), 0.1 + 0.2);
  EXPECT_TRUE(std::isnan(line.values.at("nan")));
  EXPECT_EQ(line.values.at("up"), inf);
  EXPECT_EQ(line.values.at("down"), -inf);
}

TEST(LinkMessages, ProgressSurvivesARoundTrip) {
  const ProgressLine line = RoundTripRank(
      ProgressLine{.phase = "train", .step = 5, .total_steps = 100, .epoch = 0.25, .beats = 3});
  EXPECT_EQ(line.phase, "train");
  EXPECT_EQ(line.step, 5);
  EXPECT_EQ(line.total_steps, 100);
  EXPECT_EQ(line.epoch, 0.25);
  EXPECT_EQ(line.beats, 3u);
}

TEST(LinkMessages, MemorySurvivesARoundTrip) {
  EXPECT_EQ(RoundTripRank(MemoryLine{.need = "weights \"1MiB\""}).need, "weights \"1MiB\"");
}

TEST(LinkMessages, CheckpointSurvivesARoundTripForEachKind) {
  using Kind = CheckpointLine::Kind;
  for (Kind kind :
       {Kind::kBegin, Kind::kReady, Kind::kCommit, Kind::kFailed, Kind::kCorrupt, Kind::kUnread}) {
    const CheckpointLine line =
        RoundTripRank(CheckpointLine{.kind = kind,
                                     .step = 12,
                                     .epoch = 1.5,
                                     .path = "/c/step-12.a1.g1",
                                     .manifest_sha256 = "ab12",
                                     .bytes = 4096,
                                     .best = true,
                                     .metrics = {{"validation_accuracy", 0.9}},
                                     .message = "why"});
    EXPECT_EQ(line.kind, kind);
    EXPECT_EQ(line.step, 12);
    EXPECT_EQ(line.epoch, 1.5);
    EXPECT_EQ(line.path, "/c/step-12.a1.g1");
    EXPECT_EQ(line.manifest_sha256, "ab12");
    EXPECT_EQ(line.bytes, 4096u);
    EXPECT_TRUE(line.best);
    EXPECT_EQ(line.metrics.at("validation_accuracy"), 0.9);
    EXPECT_EQ(line.message, "why");
  }
}

TEST(LinkMessages, ResultSurvivesARoundTrip) {
  const ResultLine line = RoundTripRank(ResultLine{.succeeded = false,
                                                   .stopped = true,
                                                   .failure_class = "DATA_ERROR",
                                                   .message = "no digits.csv",
                                                   .results = {{"test_accuracy", 0.98}}});
  EXPECT_FALSE(line.succeeded);
  EXPECT_TRUE(line.stopped);
  EXPECT_EQ(line.failure_class, "DATA_ERROR");
  EXPECT_EQ(line.message, "no digits.csv");
  EXPECT_EQ(line.results.at("test_accuracy"), 0.98);
}

TEST(LinkMessages, TheAgentsLinesSurviveARoundTrip) {
  const StoreReplyLine reply = RoundTripAgent(StoreReplyLine{.id = 9,
                                                             .found = true,
                                                             .value = std::string("\0\xff", 2),
                                                             .error = "late",
                                                             .timed_out = true});
  EXPECT_EQ(reply.id, 9u);
  EXPECT_TRUE(reply.found);
  EXPECT_EQ(reply.value, std::string("\0\xff", 2));
  EXPECT_EQ(reply.error, "late");
  EXPECT_TRUE(reply.timed_out);
  EXPECT_EQ(RoundTripAgent(AckLine{.seq = 4}).seq, 4u);
  EXPECT_FALSE(RoundTripAgent(AckLine{.seq = 4}).again);
  EXPECT_TRUE(RoundTripAgent(AckLine{.seq = 4, .again = true}).again);
  EXPECT_EQ(RoundTripAgent(ErrorLine{.message = "no \"step\""}).message, "no \"step\"");
  EXPECT_EQ(RoundTripAgent(PublishLine{.step = 8}).step, 8);
  EXPECT_EQ(RoundTripAgent(CommittedLine{.step = 8, .error = "fenced"}).error, "fenced");
  const StopLine stop = RoundTripAgent(StopLine{.save = true, .reason = "draining"});
  EXPECT_TRUE(stop.save);
  EXPECT_EQ(stop.reason, "draining");
}

TEST(LinkMessages, ALineIsExactlyOneLine) {
  const std::string line = Encode(RankLine(ResultLine{.message = "two\nlines"}));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
}

TEST(LinkMessages, UnknownKeysAreDroppedAndUnknownTypesAreNotFound) {
  EXPECT_OK(DecodeAgentLine(R"({"type":"ack","seq":1,"new_key":[{}]})"));
  EXPECT_THAT(DecodeAgentLine(R"({"type":"hug"})"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("hug")));
  EXPECT_THAT(DecodeRankLine(R"({"type":"ack","seq":1})"), StatusIs(absl::StatusCode::kNotFound));
}

TEST(LinkMessages, WhatIsMalformedIsRefusedByNameOfItsKey) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "not JSON"},
      {"{", "not JSON"},
      {R"({"type":"metrics","seq":1,"values":{"accuracy":1,"loss":NaN}})",
       R"("loss": NaN; write it as the string "nan")"},
      {R"({"type":"metrics","seq":1,"values":{"loss":-Infinity}})",
       R"("loss": -Infinity; write it as the string "-inf")"},
      {"[]", "not a JSON object"},
      {R"({"seq":1})", "'type'"},
      {R"({"type":1})", "'type'"},
      {R"({"type":"metrics","seq":"1","step":1,"values":{}})", "'seq'"},
      {R"({"type":"metrics","seq":-1,"step":1,"values":{}})", "'seq'"},
      {R"({"type":"metrics","seq":1.0,"step":1,"values":{}})", "'seq'"},
      {R"({"type":"metrics","seq":1,"step":1})", "'values'"},
      {R"({"type":"metrics","seq":1,"step":1,"values":[]})", "'values'"},
      {R"({"type":"metrics","seq":1,"step":1,"values":{"a":"b"}})", "'values'"},
      {R"({"type":"metrics","seq":1,"step":18446744073709551615,"values":{}})", "'step'"},
      {R"({"type":"hello","protocol_version":4294967296,"rank":0})", "'protocol_version'"},
      {R"({"type":"store","id":1,"op":"burn"})", "burn"},
      {R"({"type":"store","id":1,"op":"set","keys":"a"})", "'keys'"},
      {R"({"type":"store","id":1,"op":"set","keys":[1]})", "'keys'"},
      {R"({"type":"store","id":1,"op":"set","value":"***"})", "'value'"},
      {R"({"type":"store","id":1,"op":"set","value":"YQ"})", "'value'"},
      {R"({"type":"result","succeeded":1})", "'succeeded'"},
      {R"({"type":"progress","phase":"train","epoch":1e999})", "not JSON"},
  };
  for (const auto& [text, what] : cases) {
    EXPECT_THAT(DecodeRankLine(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)))
        << text;
  }
}

TEST(LinkMessages, ALineBeyondTheBoundIsRefused) {
  const std::string line =
      R"({"type":"result","message":")" + std::string(kMaxLineBytes, 'x') + R"("})";
  EXPECT_THAT(DecodeRankLine(line),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most")));
}

TEST(LinkMessages, NoBrokenLineCrashesTheDecoder) {
  const std::vector<std::string> seeds = {
      Encode(RankLine(StoreLine{.id = 1, .keys = {"k"}, .value = "value"})),
      Encode(RankLine(MetricsLine{.seq = 1, .step = 2, .values = {{"loss", 1.5}}})),
      Encode(RankLine(CheckpointLine{.path = "/p", .metrics = {{"a", 1}}})),
      Encode(AgentLine(StoreReplyLine{.id = 1, .value = "v"})),
  };
  const std::string alphabet = "{}[]\",:0-9eE.\\u\xff\x00nul";
  for (uint64_t round = 0; round < 20000; ++round) {
    std::string line = seeds[round % seeds.size()];
    const uint64_t edits = 1 + DeriveSeed(1, round) % 4;
    for (uint64_t edit = 0; edit < edits && !line.empty(); ++edit) {
      const uint64_t bits = DeriveSeed(2, round, edit);
      const size_t at = bits % line.size();
      switch ((bits >> 32) % 4) {
        case 0:
          line[at] = static_cast<char>(bits >> 40);
          break;
        case 1:
          line[at] = alphabet[(bits >> 40) % alphabet.size()];
          break;
        case 2:
          line.erase(at, 1 + (bits >> 40) % 8);
          break;
        default:
          line.insert(at, line.substr(0, (bits >> 40) % 16));
          break;
      }
    }
    const auto rank_line = DecodeRankLine(line);
    const auto agent_line = DecodeAgentLine(line);
    for (const absl::Status& status : {rank_line.status(), agent_line.status()}) {
      EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument ||
                  status.code() == absl::StatusCode::kNotFound);
    }
    // What was understood can be said again.
    if (rank_line.ok()) {
      EXPECT_OK(DecodeRankLine(Encode(*rank_line)));
    }
    if (agent_line.ok()) {
      EXPECT_OK(DecodeAgentLine(Encode(*agent_line)));
    }
  }
}

TEST(LinkMessages, DeepNestingIsHarmless) {
  const std::string deep =
      R"({"type":"ack","seq":1,"x":)" + std::string(200000, '[') + std::string(200000, ']') + "}";
  EXPECT_OK(DecodeAgentLine(deep));
}

}  // namespace
}  // namespace muster::worker
