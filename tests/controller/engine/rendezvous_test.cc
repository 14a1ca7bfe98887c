#include "controller/engine/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace muster::controller {
namespace {

using ::testing::HasSubstr;
using Kind = StoreOp::Kind;

class RendezvousTest : public ::testing::Test {
 protected:
  RendezvousTest() { store_.Open(1, 1, 1); }

  StoreOp Make(Kind kind, std::vector<std::string> keys, std::string value = "",
               absl::Duration timeout = absl::Seconds(10)) {
    return {.fence = {.job_id = 1, .attempt = 1, .generation = 1},
            .kind = kind,
            .keys = std::move(keys),
            .value = std::move(value),
            .timeout = timeout};
  }
  StoreAnswer Do(StoreOp op) {
    std::optional<StoreAnswer> got;
    store_.Handle(std::move(op), [&](StoreAnswer answer) { got = std::move(answer); });
    EXPECT_TRUE(got.has_value());
    return got.value_or(StoreAnswer{});
  }

  SimulatedClock clock_;
  Rendezvous store_{clock_};
};

TEST_F(RendezvousTest, KeepsValues) {
  EXPECT_EQ(Do(Make(Kind::kSet, {"a"}, std::string("\0x", 2))).error, "");
  EXPECT_EQ(Do(Make(Kind::kGet, {"a"})).value, std::string("\0x", 2));
  EXPECT_TRUE(Do(Make(Kind::kCheck, {"a"})).found);
  EXPECT_FALSE(Do(Make(Kind::kCheck, {"a", "b"})).found);
  EXPECT_EQ(Do(Make(Kind::kCount, {})).value, "1");
  EXPECT_TRUE(Do(Make(Kind::kDelete, {"a"})).found);
  EXPECT_FALSE(Do(Make(Kind::kDelete, {"a"})).found);
  EXPECT_EQ(Do(Make(Kind::kCount, {})).value, "0");
}

TEST_F(RendezvousTest, AddsAsDecimalText) {
  EXPECT_EQ(Do(Make(Kind::kAdd, {"n"}, "2")).value, "2");
  EXPECT_EQ(Do(Make(Kind::kAdd, {"n"}, "-5")).value, "-3");
  EXPECT_EQ(Do(Make(Kind::kGet, {"n"})).value, "-3");
  EXPECT_THAT(Do(Make(Kind::kAdd, {"n"}, "x")).error, HasSubstr("not a number"));
  Do(Make(Kind::kSet, {"n"}, "9223372036854775807"));
  EXPECT_THAT(Do(Make(Kind::kAdd, {"n"}, "1")).error, HasSubstr("not a number"));
}

TEST_F(RendezvousTest, AGetWaitsForItsKey) {
  std::optional<StoreAnswer> got;
  store_.Handle(Make(Kind::kGet, {"a"}), [&](StoreAnswer answer) { got = std::move(answer); });
  EXPECT_FALSE(got.has_value());
  Do(Make(Kind::kSet, {"b"}, "1"));
  EXPECT_FALSE(got.has_value());
  Do(Make(Kind::kSet, {"a"}, "2"));
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->value, "2");
}

TEST_F(RendezvousTest, AWaitEndsWhenAllKeysAreThere) {
  std::optional<StoreAnswer> got;
  store_.Handle(Make(Kind::kWait, {"a", "b"}),
                [&](StoreAnswer answer) { got = std::move(answer); });
  Do(Make(Kind::kSet, {"a"}));
  EXPECT_FALSE(got.has_value());
  Do(Make(Kind::kAdd, {"b"}, "1"));
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->error, "");
}

TEST_F(RendezvousTest, AKeyThatIsDeletedMeanwhileIsWaitedForAgain) {
  std::optional<StoreAnswer> got;
  store_.Handle(Make(Kind::kWait, {"a", "b"}),
                [&](StoreAnswer answer) { got = std::move(answer); });
  Do(Make(Kind::kSet, {"a"}));
  Do(Make(Kind::kDelete, {"a"}));
  Do(Make(Kind::kSet, {"b"}));
  EXPECT_FALSE(got.has_value());
  Do(Make(Kind::kSet, {"a"}));
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->error, "");
}

TEST_F(RendezvousTest, AWaitThatTimedOutDoesNotDisturbTheOthersOfItsKey) {
  std::optional<StoreAnswer> first, second;
  store_.Handle(Make(Kind::kGet, {"a"}, "", absl::Seconds(1)),
                [&](StoreAnswer answer) { first = std::move(answer); });
  store_.Handle(Make(Kind::kGet, {"a"}), [&](StoreAnswer answer) { second = std::move(answer); });
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(store_.Expire(), clock_.SinceBoot() + absl::Seconds(8));
  ASSERT_TRUE(first.has_value());
  EXPECT_TRUE(first->timed_out);
  Do(Make(Kind::kSet, {"a"}, "v"));
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->value, "v");
  EXPECT_EQ(store_.Expire(), absl::InfiniteDuration());
}

TEST_F(RendezvousTest, AWaitEndsAtItsDeadline) {
  std::optional<StoreAnswer> got;
  int wake_ups = 0;
  store_.SetWakeUp([&] { ++wake_ups; });
  store_.Handle(Make(Kind::kGet, {"a"}), [&](StoreAnswer answer) { got = std::move(answer); });
  EXPECT_EQ(wake_ups, 1);
  const absl::Duration due = clock_.SinceBoot() + absl::Seconds(10);
  EXPECT_EQ(store_.Expire(), due);
  EXPECT_FALSE(got.has_value());
  clock_.Advance(absl::Seconds(10));
  EXPECT_EQ(store_.Expire(), absl::InfiniteDuration());
  ASSERT_TRUE(got.has_value());
  EXPECT_TRUE(got->timed_out);
  EXPECT_THAT(got->error, HasSubstr("timed out waiting for a"));
}

TEST_F(RendezvousTest, TheEndOfTheAttemptEndsItsWaitsAndFencesIt) {
  std::optional<StoreAnswer> got;
  store_.Handle(Make(Kind::kGet, {"a"}), [&](StoreAnswer answer) { got = std::move(answer); });
  store_.Open(1, 2, 1);
  store_.Close(1, 1);
  ASSERT_TRUE(got.has_value());
  EXPECT_THAT(got->error, HasSubstr("attempt 1 has ended"));
  EXPECT_THAT(Do(Make(Kind::kSet, {"a"})).error, HasSubstr("fenced"));
  StoreOp next = Make(Kind::kCount, {});
  next.fence.attempt = 2;
  EXPECT_EQ(Do(next).value, "0") << "each attempt has its own store";
  next.fence.generation = 2;
  EXPECT_THAT(Do(next).error, HasSubstr("fenced"));
}

TEST_F(RendezvousTest, ABrokenStoreSaysWhy) {
  store_.Open(2, 1, 1, "the controller restarted");
  StoreOp op = Make(Kind::kSet, {"a"});
  op.fence.job_id = 2;
  EXPECT_EQ(Do(op).error, "the controller restarted");
}

TEST_F(RendezvousTest, ItsBoundsHold) {
  EXPECT_THAT(Do(Make(Kind::kSet, {std::string(Rendezvous::kMaxKeyBytes + 1, 'k')})).error,
              HasSubstr("too long"));
  EXPECT_THAT(Do(Make(Kind::kSet, {"k"}, std::string(Rendezvous::kMaxValueBytes + 1, 'v'))).error,
              HasSubstr("too long"));
  EXPECT_THAT(Do(Make(Kind::kSet, {})).error, HasSubstr("one key"));
  EXPECT_THAT(Do(Make(static_cast<Kind>(99), {"a"})).error, HasSubstr("unknown operation"));
  const std::string big(Rendezvous::kMaxValueBytes, 'v');
  std::string error;
  for (int i = 0; i < 65 && error.empty(); ++i)
    error = Do(Make(Kind::kSet, {std::to_string(i)}, big)).error;
  EXPECT_THAT(error, HasSubstr("full"));
  EXPECT_EQ(Do(Make(Kind::kSet, {"0"}, "small")).error, "") << "overwriting gives room back";
}

TEST_F(RendezvousTest, WaitsAreBoundedByTheirBytes) {
  std::vector<std::string> keys;
  for (int i = 0; i < 16'000; ++i) keys.push_back(std::to_string(i) + std::string(1000, 'k'));
  std::string error;
  int waits = 0;
  for (; waits < 10 && error.empty(); ++waits) {
    store_.Handle(Make(Kind::kWait, keys), [&](StoreAnswer answer) { error = answer.error; });
  }
  EXPECT_THAT(error, HasSubstr("too many waits"));
  EXPECT_EQ(waits, 5) << "of 16 MB each";
  error.clear();
  clock_.Advance(absl::Seconds(10));
  store_.Expire();
  EXPECT_THAT(error, HasSubstr("timed out"));
  store_.Handle(Make(Kind::kWait, keys), [&](StoreAnswer answer) { error = answer.error; });
  error.clear();
  Do(Make(Kind::kSet, {"a"}));
  EXPECT_EQ(error, "") << "it waits: those that ended gave their room back";
}

TEST_F(RendezvousTest, StoppingEndsAllWaits) {
  std::optional<StoreAnswer> got;
  store_.Handle(Make(Kind::kWait, {"a"}), [&](StoreAnswer answer) { got = std::move(answer); });
  store_.CloseAll();
  ASSERT_TRUE(got.has_value());
  EXPECT_THAT(got->error, HasSubstr("stopping"));
}

}  // namespace
}  // namespace muster::controller
