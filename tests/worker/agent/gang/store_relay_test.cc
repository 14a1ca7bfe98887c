#include "worker/agent/gang/store_relay.h"

#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

using ::testing::HasSubstr;

struct RelayTest : ::testing::Test {
  StoreRelay relay{
      {.send = [this](v1::WorkerMessage message) { sent.push_back(message.store_request()); },
       .reply = [this](const RankKey&, const StoreReplyLine& line) { replies.push_back(line); }}};
  std::vector<v1::StoreRequest> sent;
  std::vector<StoreReplyLine> replies;
  v1::Fence fence;

  void Ask(StoreLine::Op op, uint64_t id, bool running = false) {
    relay.Request(fence, 0, running, {.id = id, .op = op, .keys = {"k"}, .timeout_ms = 1000},
                  absl::ZeroDuration());
  }
};

TEST_F(RelayTest, CarriesARequestAndItsAnswer) {
  relay.SessionUp(1);
  Ask(StoreLine::Op::kGet, 9);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].op(), v1::StoreRequest::GET);
  v1::StoreReply reply;
  reply.set_request_id(sent[0].request_id());
  reply.set_found(true);
  reply.set_value("v");
  relay.OnReply(reply);
  relay.OnReply(reply);  // once only
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].id, 9u);
  EXPECT_EQ(replies[0].value, "v");
}

TEST_F(RelayTest, WaitsForTheSessionAndAsksTheSameControllerAgainButNeverAddsTwice) {
  Ask(StoreLine::Op::kSet, 1);
  EXPECT_TRUE(sent.empty());
  relay.SessionUp(1);
  EXPECT_EQ(sent.size(), 1u);
  Ask(StoreLine::Op::kAdd, 2);
  relay.SessionDown();
  relay.SessionUp(1);
  EXPECT_EQ(sent.size(), 3u);  // set, add, set
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].id, 2u);
  EXPECT_THAT(replies[0].error, HasSubstr("add"));
}

TEST_F(RelayTest, ARestartedControllerEndsARendezvousButNotARunningRank) {
  relay.SessionUp(1);
  Ask(StoreLine::Op::kGet, 1);
  relay.SessionDown();
  relay.SessionUp(2);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_THAT(replies[0].error, HasSubstr("restarted"));
  Ask(StoreLine::Op::kGet, 2);
  EXPECT_EQ(replies.size(), 2u);
  const size_t before = sent.size();
  Ask(StoreLine::Op::kGet, 3, /*running=*/true);
  EXPECT_EQ(sent.size(), before + 1);
}

TEST_F(RelayTest, EndsWhatNobodyAnswersAndBoundsWhatIsUnderWay) {
  for (uint64_t id = 1; id <= StoreRelay::kMaxPendingPerRank; ++id) Ask(StoreLine::Op::kGet, id);
  Ask(StoreLine::Op::kGet, 1000);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_THAT(replies[0].error, HasSubstr("too many"));
  relay.Sweep(absl::Seconds(1) + StoreRelay::kAnswerGrace);
  EXPECT_EQ(replies.size(), 1 + StoreRelay::kMaxPendingPerRank);
  EXPECT_TRUE(replies.back().timed_out);
}

TEST_F(RelayTest, ForgetsTheDead) {
  relay.SessionUp(1);
  Ask(StoreLine::Op::kGet, 1);
  relay.Forget(MakeRankKey(fence, 0));
  v1::StoreReply reply;
  reply.set_request_id(sent[0].request_id());
  relay.OnReply(reply);
  EXPECT_TRUE(replies.empty());
}

}  // namespace
}  // namespace muster::worker
