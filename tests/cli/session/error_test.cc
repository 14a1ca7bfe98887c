#include "cli/session/error.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace muster::cli {
namespace {

TEST(ExitCode, EachStatusHasItsOwn) {
  const std::vector<std::pair<absl::Status, int>> cases = {
      {absl::InvalidArgumentError("x"), 2},
      {absl::OutOfRangeError("x"), 2},
      {absl::NotFoundError("x"), 3},
      {absl::PermissionDeniedError("x"), 4},
      {absl::UnauthenticatedError("x"), 4},
      {absl::UnavailableError("x"), 5},
      {absl::DeadlineExceededError("x"), 5},
      {absl::FailedPreconditionError("job 7: it has ended"), 6},
      {absl::AlreadyExistsError("job 7 has this key and another spec"), 6},
      {absl::FailedPreconditionError("refused: 64 ranks, 2 slots"), 7},
      {absl::ResourceExhaustedError("disk full"), 7},
      {TimedOut("job 7 goes on"), 8},
      {Interrupted("job 7 goes on"), 130},
      {absl::InternalError("x"), 1},
      {absl::UnknownError("x"), 1},
      {absl::DataLossError("x"), 1},
      {absl::UnimplementedError("x"), 1},
  };
  for (const auto& [status, code] : cases) {
    EXPECT_EQ(static_cast<int>(ExitCodeOf(status)), code) << status.ToString();
  }
}

TEST(ErrorText, WhatAJobSaidDoesNotSteerTheTerminal) {
  const std::string text =
      ErrorText(absl::InternalError("job 7: \x1b]0;title\x07 failed\nsee its log"), false);
  EXPECT_EQ(text, "muster: job 7:  ]0;title  failed\n  see its log\n");
}

TEST(ExitCode, AFinishedJobHasItsOwn) {
  const auto code = [](v1::JobState state, v1::Reason reason) {
    v1::JobSummary job;
    job.set_state(state);
    job.set_reason(reason);
    return static_cast<int>(ExitCodeOf(job));
  };
  EXPECT_EQ(code(v1::SUCCEEDED, v1::ALL_RANKS_SUCCEEDED), 0);
  EXPECT_EQ(code(v1::FAILED, v1::NOT_RETRYABLE), 10);
  EXPECT_EQ(code(v1::CANCELLED, v1::CANCEL_DONE), 11);
  EXPECT_EQ(code(v1::FAILED, v1::RESTART_BUDGET_SPENT), 12);
  EXPECT_EQ(code(v1::FAILED, v1::NO_PROGRESS), 13);
}

TEST(ErrorText, SaysWhatAndTheWayOut) {
  const absl::Status status =
      WithHint(absl::NotFoundError("job 9: no such job"), "`muster ls` shows the jobs there are");
  EXPECT_EQ(ErrorText(status, false),
            "muster: job 9: no such job\n  `muster ls` shows the jobs there are\n");
  EXPECT_EQ(ErrorText(absl::InvalidArgumentError("two faults:\nline 1: a\nline 2: b"), false),
            "muster: two faults:\n  line 1: a\n  line 2: b\n");
}

TEST(ErrorText, IsOneLineOfJsonWhenAsked) {
  EXPECT_EQ(
      ErrorText(WithHint(absl::UnavailableError("no controller at 127.0.0.1:7070"), "start one"),
                true),
      "{\"code\":\"UNAVAILABLE\",\"message\":\"no controller at 127.0.0.1:7070\",\"hint\":\"start "
      "one\","
      "\"retryable\":true}\n");
  EXPECT_EQ(ErrorText(absl::NotFoundError("job 9"), true),
            "{\"code\":\"NOT_FOUND\",\"message\":\"job 9\",\"hint\":null,\"retryable\":false}\n");
}

TEST(ErrorText, TheKeyOfASubmitStandsInTheJson) {
  const absl::Status status =
      WithKey(WithHint(absl::DeadlineExceededError("no answer"), "repeat it"), "k1");
  EXPECT_EQ(ErrorText(status, true),
            "{\"code\":\"DEADLINE_EXCEEDED\",\"message\":\"no answer\",\"hint\":\"repeat it\","
            "\"retryable\":true,\"idempotency_key\":\"k1\"}\n");
  EXPECT_EQ(ErrorText(status, false), "muster: no answer\n  repeat it\n");
  EXPECT_TRUE(WithKey(absl::OkStatus(), "k1").ok());
}

TEST(ErrorText, AnErrorWithoutAHintOrOfNoErrorHasNone) {
  EXPECT_EQ(HintOf(absl::NotFoundError("x")), "");
  EXPECT_TRUE(WithHint(absl::OkStatus(), "x").ok());
}

}  // namespace
}  // namespace muster::cli
