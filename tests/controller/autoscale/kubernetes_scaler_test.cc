#include "controller/autoscale/kubernetes_scaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/controller/autoscale/fake_kubernetes.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_certificates.h"

namespace muster::controller {
namespace {

using ::muster::testing::FakeKubernetes;
using ::muster::testing::TempDir;
using ::muster::testing::TestCertificates;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

class KubernetesScalerTest : public ::testing::Test {
 protected:
  KubernetesScalerTest() { TestCertificates::Write(dir_ / "token", "token-1\n"); }

  std::unique_ptr<KubernetesScaler> Make(
      KubernetesTarget::Kind kind = KubernetesTarget::Kind::kStatefulSet,
      const std::string& ca = "", absl::Duration deadline = absl::Seconds(20)) {
    return std::make_unique<KubernetesScaler>(
        KubernetesTarget{kind, "ml", "gpu"},
        KubernetesAccess{.url = server_.url(),
                         .token_file = dir_ / "token",
                         .ca_file = ca.empty() ? dir_ / "ca.pem" : ca},
        PosixFileSystem(), deadline);
  }

  TempDir dir_;
  TestCertificates certificates_{dir_.path()};
  FakeKubernetes server_{certificates_.OfServer()};
};

TEST_F(KubernetesScalerTest, ReadsAndWritesTheScale) {
  const auto scaler = Make();
  auto asked = scaler->Asked();
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(*asked, 0u);
  ASSERT_TRUE(scaler->ScaleTo({.asked = 0, .wanted = 3}).ok());
  EXPECT_EQ(server_.replicas(), 3u);
  EXPECT_EQ(*scaler->Asked(), 3u);
}

TEST_F(KubernetesScalerTest, TheSameNumberAgainWritesNothing) {
  server_.SetReplicas(3);
  ASSERT_TRUE(Make()->ScaleTo({.asked = 0, .wanted = 3}).ok());
  EXPECT_THAT(server_.requests(),
              ElementsAre("GET /apis/apps/v1/namespaces/ml/statefulsets/gpu/scale"));
}

TEST_F(KubernetesScalerTest, TheTokenIsReadAnew) {
  const auto scaler = Make();
  ASSERT_TRUE(scaler->Asked().ok());
  server_.SetToken("token-2");
  const auto refused = scaler->Asked();
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kPermissionDenied) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), Not(HasSubstr("token-1")));
  TestCertificates::Write(dir_ / "token", "token-2");
  EXPECT_TRUE(scaler->Asked().ok());
}

TEST_F(KubernetesScalerTest, AMissingOrEmptyTokenSaysItsFile) {
  TestCertificates::Write(dir_ / "token", "\n");
  EXPECT_EQ(Make()->Asked().status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(::unlink((dir_ / "token").c_str()), 0);
  const auto missing = Make()->Asked();
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("token"));
}

TEST_F(KubernetesScalerTest, AnotherCaIsRefusedBeforeTheTokenIsSent) {
  ASSERT_EQ(::mkdir((dir_ / "other").c_str(), 0700), 0);
  TestCertificates other(dir_ / "other");
  const auto asked = Make(KubernetesTarget::Kind::kStatefulSet, dir_ / "other/ca.pem")->Asked();
  EXPECT_EQ(asked.status().code(), absl::StatusCode::kFailedPrecondition) << asked.status();
  EXPECT_THAT(std::string(asked.status().message()), HasSubstr("other/ca.pem"));
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(KubernetesScalerTest, AConflictIsReadAnewAndWrittenAgain) {
  std::atomic<int> puts = 0;
  server_.Disturb(
      [&](const std::string& method) { return method == "PUT" && puts++ < 3 ? 409 : 0; });
  ASSERT_TRUE(Make()->ScaleTo({.asked = 0, .wanted = 2}).ok());
  EXPECT_EQ(server_.replicas(), 2u);
  EXPECT_EQ(puts, 4);
}

TEST_F(KubernetesScalerTest, ConflictsWithoutEndAreGivenUp) {
  server_.Disturb([](const std::string& method) { return method == "PUT" ? 409 : 0; });
  const absl::Status status = Make()->ScaleTo({.asked = 0, .wanted = 2});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(server_.requests().size(), 2u * KubernetesScaler::kMostConflicts);
}

TEST_F(KubernetesScalerTest, WhatSomebodyElseChangedIsNotOverwritten) {
  server_.SetReplicas(5);
  const absl::Status status = Make()->ScaleTo({.asked = 3, .wanted = 2});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(server_.replicas(), 5u);
}

TEST_F(KubernetesScalerTest, AChangeBetweenReadingAndWritingIsSeen) {
  bool changed = false;
  server_.Disturb([&](const std::string& method) {
    if (method == "PUT" && !std::exchange(changed, true)) server_.SetReplicas(7);
    return 0;
  });
  const absl::Status status = Make()->ScaleTo({.asked = 0, .wanted = 2});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(server_.replicas(), 7u);
}

TEST_F(KubernetesScalerTest, ItWaitsForAsLongAsABusyServerAsks) {
  const auto scaler = Make();
  server_.Disturb([](const std::string&) { return 429; });
  EXPECT_EQ(scaler->Asked().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(scaler->asked_to_wait(), absl::Seconds(7));
  server_.Disturb(nullptr);
  EXPECT_TRUE(scaler->Asked().ok());
  EXPECT_EQ(scaler->asked_to_wait(), absl::ZeroDuration());
}

TEST_F(KubernetesScalerTest, EachFailureSaysWhatToDo) {
  const auto scaler = Make();
  for (const auto& [code, expected] :
       {std::pair(403, absl::StatusCode::kPermissionDenied),
        std::pair(404, absl::StatusCode::kNotFound), std::pair(500, absl::StatusCode::kUnavailable),
        std::pair(200, absl::StatusCode::kUnavailable)}) {
    server_.Disturb([code = code](const std::string&) { return code; });
    const auto asked = scaler->Asked();
    EXPECT_EQ(asked.status().code(), expected) << asked.status();
    EXPECT_THAT(std::string(asked.status().message()),
                HasSubstr("/apis/apps/v1/namespaces/ml/statefulsets/gpu/scale"));
  }
}

TEST_F(KubernetesScalerTest, AnAnswerThatIsCutIsNoAnswer) {
  server_.SetReplicas(2);
  const auto scaler = Make();
  server_.Disturb([](const std::string&) { return FakeKubernetes::kCut; });
  EXPECT_EQ(scaler->Asked().status().code(), absl::StatusCode::kUnavailable);
  // Whether a change was made is not known then: the next look reads it anew.
  server_.Disturb(
      [](const std::string& method) { return method == "PUT" ? FakeKubernetes::kCut : 0; });
  EXPECT_FALSE(scaler->ScaleTo({.asked = 2, .wanted = 3}).ok());
  server_.Disturb(nullptr);
  EXPECT_EQ(*scaler->Asked(), 2u);
  EXPECT_OK(scaler->ScaleTo({.asked = 2, .wanted = 3}));
  server_.Disturb(
      [](const std::string& method) { return method == "PUT" ? FakeKubernetes::kDoneAndCut : 0; });
  EXPECT_FALSE(scaler->ScaleTo({.asked = 3, .wanted = 4}).ok());
  server_.Disturb(nullptr);
  EXPECT_EQ(*scaler->Asked(), 4u);
  EXPECT_EQ(server_.replicas(), 4u);
}

TEST_F(KubernetesScalerTest, OfADeploymentThePodsThatLeaveAreMarkedFirst) {
  server_.SetReplicas(3);
  const PoolDecision decision{
      .asked = 3, .wanted = 1, .leaving = {"gpu-b", "gone"}, .staying = {"gpu-a"}};
  ASSERT_TRUE(Make(KubernetesTarget::Kind::kDeployment)->ScaleTo(decision).ok());
  EXPECT_THAT(server_.marks(), ElementsAre(Pair("gpu-a", "1000"), Pair("gpu-b", "-1000")));
  EXPECT_EQ(server_.replicas(), 1u);
}

// Else Kubernetes would take any pod, busy ones too.
TEST_F(KubernetesScalerTest, ADeploymentWhoseWorkersHaveOtherNamesIsNotScaledDown) {
  server_.SetReplicas(3);
  const auto scaled =
      Make(KubernetesTarget::Kind::kDeployment)
          ->ScaleTo({.asked = 3, .wanted = 1, .leaving = {"gpu-b"}, .staying = {"gone"}});
  EXPECT_EQ(scaled.code(), absl::StatusCode::kFailedPrecondition) << scaled;
  EXPECT_THAT(std::string(scaled.message()), HasSubstr("worker gone has no pod of its name"));
  EXPECT_EQ(server_.replicas(), 3u);
}

TEST_F(KubernetesScalerTest, WithoutItsMarksADeploymentIsNotScaledDown) {
  server_.SetReplicas(3);
  server_.Disturb([](const std::string& method) { return method == "PATCH" ? 403 : 0; });
  const PoolDecision decision{.asked = 3, .wanted = 2, .leaving = {"gpu-b"}};
  EXPECT_EQ(Make(KubernetesTarget::Kind::kDeployment)->ScaleTo(decision).code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(server_.replicas(), 3u);
}

TEST_F(KubernetesScalerTest, ASlowServerIsGivenUpAndStopEndsTheWait) {
  Mutex mutex;
  CondVar changed;
  bool go_on = false;
  server_.Disturb([&](const std::string&) {
    MutexLock lock(mutex);
    while (!go_on) changed.Wait(mutex);
    return 500;
  });
  const auto quick = Make(KubernetesTarget::Kind::kStatefulSet, "", absl::Milliseconds(300));
  EXPECT_EQ(quick->Asked().status().code(), absl::StatusCode::kDeadlineExceeded);
  const auto slow = Make(KubernetesTarget::Kind::kStatefulSet, "", absl::Minutes(10));
  std::thread stopper([&] { slow->Stop(); });
  EXPECT_EQ(slow->Asked().status().code(), absl::StatusCode::kCancelled);
  stopper.join();
  MutexLock lock(mutex);
  go_on = true;
  changed.NotifyAll();
}

}  // namespace
}  // namespace muster::controller
