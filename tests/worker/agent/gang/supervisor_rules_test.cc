#include "worker/agent/gang/supervisor_rules.h"

#include <signal.h>

#include <limits>

#include "tests/support/status_matchers.h"

namespace muster::worker {
namespace {

using ::muster::testing::StatusIs;
using ::testing::HasSubstr;

constexpr char kSpec[] =
    R"({"train":{"threads_per_rank":2},"restart":{"controller_lost_timeout":"1h0m0s"}})";

v1::StartRanks GoodStart() {
  v1::StartRanks start;
  start.mutable_fence()->set_job_id(1);
  start.mutable_fence()->set_attempt(2);
  start.mutable_fence()->set_generation(1);
  start.mutable_fence()->set_term(3);
  start.set_world_size(2);
  start.set_spec_json(kSpec);
  for (uint32_t i = 0; i < 2; ++i) {
    v1::StartRanks::Rank& rank = *start.add_ranks();
    rank.set_rank(i);
    rank.add_slots(i);
  }
  return start;
}

absl::StatusOr<SpecSettings> Check(const v1::StartRanks& start, const StartContext& context,
                                   const AttemptFences& fences) {
  SpecReader specs;
  return CheckStart(start, context, fences, specs);
}

StartContext GoodContext() {
  StartContext context;
  context.session_term = 3;
  context.slots = {0, 1};
  return context;
}

TEST(SpecSettings, AreReadStrictly) {
  ASSERT_OK_AND_ASSIGN(const SpecSettings settings, ReadSpecSettings(kSpec));
  EXPECT_EQ(settings.threads_per_rank, 2u);
  EXPECT_EQ(settings.controller_lost_timeout, absl::Hours(1));
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"7", "not a JSON object"},
      {"{", "not a JSON object"},
      {R"({"restart":{"controller_lost_timeout":"1h"}})", "threads_per_rank"},
      {R"({"train":{"threads_per_rank":0},"restart":{"controller_lost_timeout":"1h"}})",
       "threads_per_rank"},
      {R"({"train":{"threads_per_rank":1}})", "controller_lost_timeout"},
      {R"({"train":{"threads_per_rank":1},"restart":{"controller_lost_timeout":"soon"}})",
       "controller_lost_timeout"},
  };
  for (const auto& [spec, what] : bad) {
    EXPECT_THAT(ReadSpecSettings(spec),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)))
        << spec;
  }
}

constexpr char kCommandSpec[] = R"({"command":{"argv":["a","b"],"env":{"X":"1"},"workdir":"/w"},)"
                                R"("restart":{"controller_lost_timeout":"1h","max_restarts":4}})";

TEST(SpecSettings, OfACommandAreReadStrictly) {
  ASSERT_OK_AND_ASSIGN(const SpecSettings settings, ReadSpecSettings(kCommandSpec));
  ASSERT_TRUE(settings.command.has_value());
  EXPECT_EQ(settings.command->argv, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(settings.command->env.at("X"), "1");
  EXPECT_EQ(settings.command->workdir, "/w");
  EXPECT_EQ(settings.command->max_restarts, 4u);
  for (const char* command :
       {"7", "{}", R"({"argv":[],"workdir":"/w"})", R"({"argv":[""],"workdir":"/w"})",
        R"({"argv":["a",1],"workdir":"/w"})", R"({"argv":["a"],"env":{"X":1},"workdir":"/w"})",
        R"({"argv":["a"],"env":[],"workdir":"/w"})", R"({"argv":["a"]})"}) {
    const std::string spec =
        std::string(R"({"command":)") + command + R"(,"restart":{"controller_lost_timeout":"1h"}})";
    EXPECT_THAT(ReadSpecSettings(spec),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("command")))
        << spec;
  }
}

TEST(CheckStart, ACommandRunsOnlyWhereItIsAllowed) {
  v1::StartRanks start = GoodStart();
  start.set_spec_json(kCommandSpec);
  StartContext context = GoodContext();
  EXPECT_THAT(Check(start, context, AttemptFences()),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("--allow-commands")));
  context.allow_commands = true;
  EXPECT_OK(Check(start, context, AttemptFences()));
}

TEST(SpecReader, GivesEachSpecItsOwnAnswer) {
  SpecReader specs;
  const std::string trainer = GoodStart().spec_json();
  ASSERT_OK(specs.Read(trainer));
  EXPECT_FALSE(specs.Read(trainer)->command.has_value());
  ASSERT_OK(specs.Read(kCommandSpec));
  EXPECT_TRUE(specs.Read(kCommandSpec)->command.has_value());
  EXPECT_THAT(specs.Read("{"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(specs.Read(""), StatusIs(absl::StatusCode::kInvalidArgument));
  ASSERT_OK(specs.Read(trainer));
  EXPECT_FALSE(specs.Read(trainer)->command.has_value());
}

TEST(SpecSettings, HoldWhatEachRankGets) {
  const std::string rest =
      R"("train":{"threads_per_rank":1},"restart":{"controller_lost_timeout":"1h"}})";
  ASSERT_OK_AND_ASSIGN(
      const SpecSettings settings,
      ReadSpecSettings(R"({"per_rank":{"gpus":2,"gpu_type":"H100","cpus":3,"memory":"2GiB"},)" +
                       rest));
  EXPECT_EQ(settings.gpus, 2u);
  EXPECT_EQ(settings.gpu_type, "H100");
  EXPECT_EQ(settings.cpus, 3u);
  EXPECT_EQ(settings.memory_bytes, 2ull << 30);
  for (const char* bad : {R"({"gpus":"2"})", R"({"cpus":-1})", R"({"cpus":4097})",
                          R"({"gpu_type":1})", R"({"memory":5})", R"({"memory":"much"})"}) {
    EXPECT_THAT(ReadSpecSettings(std::string(R"({"per_rank":)") + bad + "," + rest),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("per_rank.")))
        << bad;
  }
}

TEST(CheckDevices, ARankGetsAsManyGpusAndOfTheTypeThatItsSpecSays) {
  std::vector<v1::Slot> slots(2);
  for (uint32_t i = 0; i < 2; ++i) {
    slots[i].set_index(i);
    slots[i].set_kind(v1::GPU);
    slots[i].set_device(i == 0 ? "NVIDIA H100 80GB" : "NVIDIA A100");
  }
  const v1::StartRanks start = GoodStart();  // rank i on slot i
  EXPECT_OK(CheckDevices(start, {}, slots));
  EXPECT_OK(CheckDevices(start, {.gpus = 1}, slots));
  EXPECT_OK(CheckDevices(start, {.gpus = 1, .gpu_type = "nvidia"}, slots));
  EXPECT_THAT(CheckDevices(start, {.gpus = 1, .gpu_type = "h100"}, slots),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("rank 1 wants a GPU `h100`, but slot 1 is NVIDIA A100")));
  EXPECT_THAT(CheckDevices(start, {.gpus = 2}, slots),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("rank 0 wants 2 GPUs, but was given 1")));
  slots[1].set_kind(v1::CPU);
  EXPECT_THAT(CheckDevices(start, {.gpus = 1}, slots),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("was given 0")));
}

TEST(ClassifyExit, WhoHeldTooMuchMemoryIsOutOfMemory) {
  for (const bool is_command : {false, true}) {
    v1::RankEvent event;
    ClassifyExit({.signal = SIGKILL, .is_command = is_command, .over_memory = "held 3 GiB"}, event);
    EXPECT_EQ(event.failure_class(), v1::OUT_OF_MEMORY);
    EXPECT_EQ(event.message(), "held 3 GiB");
  }
}

TEST(ClassifyExit, ACommandSpeaksByItsExitCode) {
  const StopRequest save{v1::StopRanks::SAVE, absl::Seconds(5), "the worker drains"};
  const auto judge = [](ExitFacts facts) {
    facts.is_command = true;
    v1::RankEvent event;
    ClassifyExit(facts, event);
    return event;
  };
  EXPECT_TRUE(judge({}).succeeded());
  EXPECT_EQ(judge({.exit_code = 3}).failure_class(), v1::APPLICATION);
  EXPECT_EQ(judge({.exit_code = 3}).message(), "exited with code 3");
  EXPECT_EQ(judge({.signal = SIGSEGV}).failure_class(), v1::RANK_KILLED);
  EXPECT_EQ(judge({.start_error = absl::NotFoundError("no")}).failure_class(), v1::START_FAILED);
  // Asked to leave, it left, however that looks.
  for (const ExitFacts& facts : {ExitFacts{.stop = save}, ExitFacts{.exit_code = 1, .stop = save},
                                 ExitFacts{.signal = SIGTERM, .stop = save}}) {
    EXPECT_TRUE(judge(facts).stopped());
    EXPECT_EQ(judge(facts).message(), "the worker drains");
  }
  // What it reports weighs more.
  ResultLine result{.succeeded = true, .results = {{"score", 2}}};
  EXPECT_TRUE(judge({.result = result, .stop = save}).succeeded());
  EXPECT_EQ(judge({.result = result}).results().at("score"), 2);
  EXPECT_EQ(judge({.exit_code = 1, .result = result}).failure_class(), v1::APPLICATION);
  result = {.failure_class = "DATA_ERROR", .message = "no rows"};
  EXPECT_EQ(judge({.exit_code = 1, .result = result}).failure_class(), v1::DATA_ERROR);
  EXPECT_EQ(judge({.result = result}).message(), "no rows");
  EXPECT_TRUE(judge({.exit_code = 1, .result = result, .stop = save}).stopped());
  EXPECT_FALSE(judge({.exit_code = 1, .result = result, .stop = save, .result_before_stop = true})
                   .stopped());
}

TEST(CheckStart, EachRefusalHasItsCode) {
  using Code = absl::StatusCode;
  AttemptFences fences;
  EXPECT_OK(Check(GoodStart(), GoodContext(), fences));

  StartContext context = GoodContext();
  context.draining = true;
  EXPECT_THAT(Check(GoodStart(), context, fences), StatusIs(Code::kUnavailable));

  context = GoodContext();
  context.busy_slots = {1};
  EXPECT_THAT(Check(GoodStart(), context, fences),
              StatusIs(Code::kFailedPrecondition, HasSubstr("slot 1 is held")));

  context = GoodContext();
  context.slots = {0};
  EXPECT_THAT(Check(GoodStart(), context, fences),
              StatusIs(Code::kFailedPrecondition, HasSubstr("no slot 1")));

  context = GoodContext();
  context.session_term = 2;
  EXPECT_THAT(Check(GoodStart(), context, fences),
              StatusIs(Code::kInvalidArgument, HasSubstr("term 3")));

  v1::StartRanks start = GoodStart();
  start.clear_ranks();
  EXPECT_THAT(Check(start, GoodContext(), fences), StatusIs(Code::kInvalidArgument));
  start = GoodStart();
  start.mutable_ranks(1)->set_rank(2);
  EXPECT_THAT(Check(start, GoodContext(), fences),
              StatusIs(Code::kInvalidArgument, HasSubstr("rank 2")));
  start = GoodStart();
  start.mutable_ranks(1)->set_slots(0, 0);
  EXPECT_THAT(Check(start, GoodContext(), fences), StatusIs(Code::kFailedPrecondition));
  start = GoodStart();
  start.set_spec_json("{}");
  EXPECT_THAT(Check(start, GoodContext(), fences), StatusIs(Code::kInvalidArgument));

  fences.RaiseTo(1, 3);
  EXPECT_THAT(Check(GoodStart(), GoodContext(), fences), StatusIs(Code::kAborted));
}

TEST(CheckRankLine, RefusesWhatTheControllerWould) {
  EXPECT_OK(CheckRankLine(MetricsLine{.seq = 1, .values = {{"loss", 1}}}));
  EXPECT_OK(CheckRankLine(MetricsLine{.seq = 1, .values = {{"train/loss", 1}, {"Acc", 1}}}));
  EXPECT_OK(CheckRankLine(HelloLine{}));
  std::map<std::string, double> many;
  for (size_t i = 0; i <= kMaxValuesPerLine; ++i) many[std::to_string(i)] = 0;
  const std::vector<std::pair<RankLine, const char*>> bad = {
      {MetricsLine{.seq = 0}, "seq"},
      {MetricsLine{.seq = 1, .values = many}, "too many values"},
      {MetricsLine{.seq = 1, .values = {{"", 0}}}, "'' is no name"},
      {MetricsLine{.seq = 1, .values = {{"a\nb", 0}}}, "'a\\nb' is no name"},
      {CheckpointLine{.metrics = {{std::string(129, 'a'), 0}}}, "is no name"},
      {ProgressLine{.phase = std::string(kMaxPhaseBytes + 1, 'p')}, "phase"},
      {ProgressLine{.phase = "eval\n"}, "phase"},
      {CheckpointLine{.path = std::string(kMaxPathBytes + 1, 'p')}, "path"},
      {CheckpointLine{.manifest_sha256 = std::string(65, 'a')}, "SHA-256"},
      {CheckpointLine{.metrics = many}, "too many values"},
      {ProgressLine{.step = -5}, "'step': -5 is not from 0"},
      {ProgressLine{.step = kMaxStep + 1}, "is not from 0"},
      {ProgressLine{.total_steps = std::numeric_limits<int64_t>::max()}, "is not from 0"},
      {MetricsLine{.seq = 1, .step = -1}, "is not from 0"},
      {CheckpointLine{.step = std::numeric_limits<int64_t>::max()}, "is not from 0"},
      {StoreLine{.keys = std::vector<std::string>(kMaxStoreKeys + 1)}, "too many keys"},
      {ResultLine{.results = many}, "too many values"},
  };
  for (const auto& [line, what] : bad) {
    EXPECT_THAT(CheckRankLine(line), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
  }
}

TEST(StopSteps, KillIsAtOnce) {
  const StopRequest request{v1::StopRanks::KILL, absl::Seconds(9), "dead"};
  EXPECT_EQ(NextStopStep(request, absl::ZeroDuration(), StopAction::kWait).action,
            StopAction::kKill);
}

TEST(StopSteps, TermIsSigtermThenSigkillAfterTheGrace) {
  const StopRequest request{v1::StopRanks::TERM, absl::Seconds(10), "cancel"};
  StopStep step = NextStopStep(request, absl::ZeroDuration(), StopAction::kWait);
  EXPECT_EQ(step.action, StopAction::kTerminate);
  EXPECT_EQ(step.next_in, absl::Seconds(10));
  step = NextStopStep(request, absl::Seconds(4), StopAction::kTerminate);
  EXPECT_EQ(step.action, StopAction::kWait);
  EXPECT_EQ(step.next_in, absl::Seconds(6));
  EXPECT_EQ(NextStopStep(request, absl::Seconds(10), StopAction::kTerminate).action,
            StopAction::kKill);
}

TEST(StopSteps, SaveAsksThenTermsThenKills) {
  const StopRequest request{v1::StopRanks::SAVE, absl::Seconds(10), "drain"};
  EXPECT_EQ(NextStopStep(request, absl::ZeroDuration(), StopAction::kWait).action,
            StopAction::kAskToSave);
  EXPECT_EQ(NextStopStep(request, absl::Seconds(1), StopAction::kAskToSave).action,
            StopAction::kWait);
  EXPECT_EQ(NextStopStep(request, absl::Seconds(10), StopAction::kAskToSave).action,
            StopAction::kTerminate);
  EXPECT_EQ(
      NextStopStep(request, absl::Seconds(10) + kTermGraceAfterSave, StopAction::kTerminate).action,
      StopAction::kKill);
}

TEST(StopSteps, OnlyAHarsherModeReplacesOneUnderWay) {
  const StopRequest save{v1::StopRanks::SAVE, absl::Seconds(1), ""};
  const StopRequest term{v1::StopRanks::TERM, absl::Seconds(1), ""};
  const StopRequest kill{v1::StopRanks::KILL, absl::Seconds(1), ""};
  EXPECT_TRUE(IsHarsher(term, save));
  EXPECT_TRUE(IsHarsher(kill, term));
  EXPECT_FALSE(IsHarsher(save, term));
  EXPECT_FALSE(IsHarsher(save, save));
}

v1::RankEvent Judge(const ExitFacts& facts) {
  v1::RankEvent event;
  ClassifyExit(facts, event);
  return event;
}

TEST(ClassifyExit, SuccessNeedsTheResultAndExitCodeZero) {
  ExitFacts facts;
  facts.result = ResultLine{.succeeded = true, .results = {{"test_accuracy", 0.5}}};
  v1::RankEvent event = Judge(facts);
  EXPECT_TRUE(event.succeeded());
  EXPECT_EQ(event.results().at("test_accuracy"), 0.5);
  facts.exit_code = 1;
  EXPECT_FALSE(Judge(facts).succeeded());
  facts = {};
  event = Judge(facts);
  EXPECT_FALSE(event.succeeded());
  EXPECT_EQ(event.failure_class(), v1::APPLICATION);
}

TEST(ClassifyExit, TheRanksOwnWordNamesTheClass) {
  ExitFacts facts;
  facts.exit_code = 1;
  facts.result = ResultLine{.failure_class = "DATA_ERROR", .message = "no digits.csv"};
  EXPECT_EQ(Judge(facts).failure_class(), v1::DATA_ERROR);
  EXPECT_EQ(Judge(facts).message(), "no digits.csv");
  facts.result->failure_class = "NO_SUCH_CLASS";
  EXPECT_EQ(Judge(facts).failure_class(), v1::APPLICATION);
}

TEST(ClassifyExit, ASignalWithoutAWordIsRankKilled) {
  ExitFacts facts;
  facts.signal = SIGKILL;
  EXPECT_EQ(Judge(facts).failure_class(), v1::RANK_KILLED);
  EXPECT_EQ(Judge(facts).signal(), SIGKILL);
  EXPECT_THAT(Judge(facts).message(), HasSubstr("signal 9"));
}

TEST(ClassifyExit, AFailedStartIsToldWithItsReason) {
  ExitFacts facts;
  facts.start_error = absl::NotFoundError("cannot execute /x: No such file");
  EXPECT_EQ(Judge(facts).failure_class(), v1::START_FAILED);
  EXPECT_THAT(Judge(facts).message(), HasSubstr("/x"));
  EXPECT_EQ(Judge(facts).missing(), v1::RankEvent::MISSING_UNSPECIFIED);
  facts.start_error = AsMissing(facts.start_error, v1::RankEvent::ON_WORKER);
  EXPECT_EQ(Judge(facts).missing(), v1::RankEvent::ON_WORKER);
  facts.start_error = AsStorageUnavailable(absl::UnavailableError("is it mounted?"));
  EXPECT_EQ(Judge(facts).failure_class(), v1::STORAGE_UNAVAILABLE);
}

TEST(ClassifyExit, WhoWasAskedToLeaveIsStopped) {
  ExitFacts facts;
  facts.stop = StopRequest{v1::StopRanks::TERM, absl::Seconds(1), "cancelled by user"};
  facts.signal = SIGTERM;
  EXPECT_TRUE(Judge(facts).stopped());
  EXPECT_EQ(Judge(facts).failure_class(), v1::FAILURE_CLASS_UNSPECIFIED);
  facts.stop->mode = v1::StopRanks::SAVE;
  EXPECT_FALSE(Judge(facts).stopped());
  EXPECT_EQ(Judge(facts).failure_class(), v1::PREEMPTED);
  facts.signal = 0;
  facts.result = ResultLine{.stopped = true};
  EXPECT_TRUE(Judge(facts).stopped());
}

TEST(ClassifyExit, AFailureBeforeTheStopKeepsItsClass) {
  ExitFacts facts;
  facts.exit_code = 1;
  facts.result = ResultLine{.failure_class = "NON_FINITE", .message = "loss is NaN"};
  facts.stop = StopRequest{v1::StopRanks::KILL, absl::ZeroDuration(), "attempt lost"};
  facts.result_before_stop = true;
  EXPECT_EQ(Judge(facts).failure_class(), v1::NON_FINITE);
  facts.result_before_stop = false;
  EXPECT_TRUE(Judge(facts).stopped());
}

TEST(ClassifyExit, LeavingOnSomeoneElsesSignalIsPreempted) {
  ExitFacts facts;
  facts.result = ResultLine{.stopped = true};
  EXPECT_EQ(Judge(facts).failure_class(), v1::PREEMPTED);
}

TEST(ClassifyExit, ABrokenLinkIsItsOwnFault) {
  ExitFacts facts;
  facts.signal = SIGKILL;
  facts.broken_link = "a line is longer than 4 bytes";
  EXPECT_EQ(Judge(facts).failure_class(), v1::APPLICATION);
  EXPECT_EQ(Judge(facts).message(), "a line is longer than 4 bytes");
}

TEST(FirstStep, IsSeenWhenTheStepMovesOrNumbersCome) {
  FirstStep progress;
  EXPECT_FALSE(progress.Seen(ProgressLine{.phase = "load", .step = 0}));
  EXPECT_FALSE(progress.Seen(ProgressLine{.phase = "train", .step = 40}));  // resumed there
  EXPECT_TRUE(progress.Seen(ProgressLine{.phase = "train", .step = 41}));
  FirstStep metrics;
  EXPECT_TRUE(metrics.Seen(MetricsLine{.seq = 1}));
  FirstStep evaluate;
  EXPECT_TRUE(evaluate.Seen(ProgressLine{.phase = "evaluate"}));
}

}  // namespace
}  // namespace muster::worker
