// Every verb that speaks to a controller, against a service without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "cli/output/proto_json.h"
#include "cli/session/host.h"
#include "common/base/version.h"
#include "common/fs/file_system.h"
#include "tests/cli/cli_run.h"
#include "tests/cli/fake_job_service.h"
#include "tests/support/status_matchers.h"

namespace muster::cli::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kGood[] =
    "name: good\n"
    "train:\n"
    "  model: {mlp: {hidden: [8]}}\n"
    "  data: {synthetic: {samples: 64, shape: [4]}}\n"
    "  batch_size: 8\n"
    "  steps: 10\n";

class VerbsTest : public ::testing::Test {
 protected:
  VerbsTest() {
    service_.Start();
    run_.env()["MUSTER_ADDR"] = service_.address();
    run_.env()["MUSTER_TOKEN"] = FakeJobService::kToken;
  }

  std::string JobFile(const std::string& text) {
    const std::string path = run_.dir() / "job.yaml";
    std::ofstream(path) << text;
    return path;
  }

  FakeJobService service_;
  CliRun run_;
};

TEST_F(VerbsTest, SubmitWithCheckSendsOnlyWhatPasses) {
  run_.env()["MUSTER_BIN_DIR"] = run_.dir().path();
  const auto trainer = [&](const std::string& script) {
    EXPECT_TRUE(WriteFileAtomically(PosixFileSystem(), run_.dir() / "muster-trainer",
                                    "#!/bin/sh\n" + script, 0755)
                    .ok());
  };
  trainer("echo 'muster-trainer: the check did not pass: too slow' >&2; exit 2\n");
  const std::string file = JobFile(kGood);
  const CliResult refused = run_({"submit", "--check", "-f", file});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("the check did not pass: too slow"),
                                 HasSubstr("nothing was submitted")));
  EXPECT_TRUE(service_.submits().empty());

  trainer("echo \"asked: $*\"\n");
  const CliResult sent = run_({"submit", "--check", "-q", "-f", file});
  EXPECT_EQ(sent.code, 0) << sent.err;
  EXPECT_EQ(service_.submits().size(), 1u);
  EXPECT_THAT(sent.out, Not(HasSubstr("asked")));

  const CliResult program = run_({"submit", "--check", "--", "true"});
  EXPECT_EQ(program.code, 2);
  EXPECT_THAT(program.err, HasSubstr("has no `train`"));
}

TEST_F(VerbsTest, OutputThatCannotBeWrittenIsAnError) {
  service_.PutJob(MakeJob(1, "first", v1::RUNNING));
  run_.full_disk = true;
  const CliResult full = run_({"ls"});
  EXPECT_EQ(full.code, 1);
  EXPECT_THAT(full.err, HasSubstr("the output could not be written"));
  // The job runs on, and nobody would read the lines to come.
  EXPECT_EQ(run_({"logs", "1", "-f"}).code, 1);
  EXPECT_EQ(run_({"events", "-f"}).code, 1);
  EXPECT_EQ(run_({"show", "99"}).code, 3) << "another error stays what it is";
}

TEST_F(VerbsTest, WhatComesLineByLineRefusesTheFormatsOfWholes) {
  service_.PutJob(MakeJob(1, "first", v1::SUCCEEDED));
  for (const char* verb : {"logs", "events", "watch"}) {
    for (const char* format : {"csv", "yaml", "name"}) {
      const CliResult refused = run_({verb, "1", "-o", format});
      EXPECT_EQ(refused.code, 2) << verb << " " << format;
      EXPECT_EQ(refused.out, "");
    }
    EXPECT_EQ(run_({verb, "1", "-o", "jsonl"}).code, 0) << verb;
  }
  EXPECT_EQ(run_({"submit", "-f", JobFile(kGood), "--watch", "-o", "csv"}).code, 2);
  EXPECT_TRUE(service_.submits().empty()) << "nothing was sent";
}

TEST_F(VerbsTest, WordsOfAJobDoNotSteerTheTerminalOfWhoWaits) {
  v1::GetJobResponse job = MakeJob(1, "evil", v1::FAILED);
  job.mutable_summary()->set_message("bad\x1b]0;title\x07\nmuster: all is well");
  service_.PutJob(job);
  const CliResult waited = run_({"wait", "1"});
  EXPECT_EQ(waited.code, 10);
  EXPECT_THAT(waited.out + waited.err, Not(HasSubstr("\x1b")));
  EXPECT_THAT(waited.out + waited.err, Not(HasSubstr("\nmuster: all is well")));
}

TEST_F(VerbsTest, LsShowsTheNewestFirst) {
  service_.PutJob(MakeJob(1, "first", v1::SUCCEEDED));
  service_.PutJob(MakeJob(2, "second", v1::RUNNING));
  const CliResult result = run_({"ls", "--no-header"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("2  second  RUNNING"));
  EXPECT_EQ(run_({"ls", "-q"}).out, "2\n1\n");
  EXPECT_EQ(run_({"-o", "name", "ls", "--state", "succeeded"}).out, "1\n");
  EXPECT_EQ(Json::parse(run_({"ls", "-o", "json"}).out)[0]["name"], "second");
}

TEST_F(VerbsTest, LsTurnsPagesUpToItsLimit) {
  for (int i = 1; i <= 7; ++i) service_.PutJob(MakeJob(i, "job", v1::RUNNING));
  EXPECT_EQ(run_({"ls", "-q", "--limit", "1000"}).out, "7\n6\n5\n4\n3\n2\n1\n");
  const CliResult limited = run_({"ls", "-q", "--limit", "2"});
  EXPECT_EQ(limited.out, "7\n6\n");
  EXPECT_THAT(limited.err, HasSubstr("--limit"));
}

TEST_F(VerbsTest, ListsAreFilteredSortedAndShownByColumns) {
  for (uint64_t id = 1; id <= 5; ++id) {
    const v1::JobState state = id % 2 == 0 ? v1::RUNNING : v1::FAILED;
    service_.PutJob(MakeJob(id, absl::StrCat("job-", 9 - id), state));
  }
  EXPECT_EQ(run_({"ls", "-q", "--filter", "state=running"}).out, "4\n2\n");
  EXPECT_EQ(run_({"ls", "-q", "--sort", "name"}).out, "5\n4\n3\n2\n1\n");
  EXPECT_EQ(run_({"ls", "-q", "--sort", "-name", "--limit", "2"}).out, "1\n2\n")
      << "the first of all, not of the newest";
  EXPECT_EQ(run_({"ls", "--columns", "id,owner,state", "--filter", "id<=2"}).out,
            "ID  OWNER  STATE\n 2  -      RUNNING\n 1  -      FAILED\n");
  EXPECT_EQ(run_({"ls", "--columns", "name,id", "--filter", "id=2", "-o", "csv"}).out,
            "name,id\njob-7,2\n");
  const Json json =
      Json::parse(run_({"ls", "-o", "json", "--columns", "id", "--filter", "id=2"}).out);
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["name"], "job-7") << "all fields, always";
  EXPECT_EQ(run_({"history", "-q", "--sort", "id", "--limit", "1"}).out, "1\n");
  EXPECT_EQ(run_({"ls", "--filter", "height=3"}).code, 2);
  EXPECT_EQ(run_({"ls", "--columns", "height"}).code, 2);
  v1::WorkerInfo worker;
  for (const char* name : {"a", "b"}) {
    worker.set_name(name);
    worker.set_cpus(worker.cpus() + 4);
    service_.PutWorker(worker);
  }
  EXPECT_EQ(run_({"nodes", "-q", "--sort", "-cpus"}).out, "b\na\n");
  EXPECT_EQ(run_({"nodes", "--columns", "name,cpus", "--filter", "cpus>4"}).out,
            "NAME  CPUS\nb        8\n");
}

TEST_F(VerbsTest, LsShowsAllThereIsOnDemand) {
  for (uint64_t id = 1; id <= 120; ++id) service_.PutJob(MakeJob(id, "j", v1::PENDING));
  const CliResult newest = run_({"ls", "-q"});
  EXPECT_THAT(newest.err, HasSubstr("these are the newest 100 (--limit shows more, --all all)"));
  const CliResult all = run_({"ls", "-q", "--all"});
  EXPECT_THAT(all.out, StartsWith("120\n119\n"));
  EXPECT_EQ(std::count(all.out.begin(), all.out.end(), '\n'), 120);
  EXPECT_EQ(all.err, "");
  EXPECT_EQ(run_({"ls", "--all", "--limit", "5"}).code, 2) << "one or the other";
}

TEST_F(VerbsTest, EventsAreThoseOfATimeAndOfAFilter) {
  for (int hours = 3; hours >= 0; --hours) {
    v1::JobEvent event;
    event.set_sequence(static_cast<uint64_t>(4 - hours));
    event.set_job_id(7);
    event.set_time_ms(absl::ToUnixMillis(absl::Now() - absl::Hours(hours) - absl::Minutes(1)));
    event.set_to(hours == 0 ? v1::RUNNING : v1::PENDING);
    service_.PutEvent(event);
  }
  const auto sequences = [&](std::vector<std::string> args) {
    args.insert(args.begin(), {"events", "-o", "jsonl"});
    std::string text;
    for (const absl::string_view line : absl::StrSplit(run_(args).out, '\n', absl::SkipEmpty())) {
      text += Json::parse(line)["sequence"].dump();
    }
    return text;
  };
  EXPECT_EQ(sequences({}), "1234");
  EXPECT_EQ(sequences({"--since", "2h30m"}), "234");
  EXPECT_EQ(sequences({"--since", "2h30m", "--until", "30m"}), "23");
  EXPECT_EQ(sequences({"--filter", "state=running"}), "4");
  EXPECT_EQ(run_({"events", "--since", "yesterday"}).code, 2);
  EXPECT_EQ(run_({"events", "--filter", "height=3"}).code, 2);
}

TEST_F(VerbsTest, LsOfNothingIsAHeader) {
  EXPECT_THAT(run_({"ls"}).out, StartsWith("ID  NAME"));
  EXPECT_EQ(run_({"ls", "-o", "json"}).out, "[]\n");
}

TEST_F(VerbsTest, LsAsksForJobsWithAllTagsGiven) {
  EXPECT_EQ(run_({"ls", "--tag", "team=vision", "--tag", "why=a=b"}).code, 0);
  const auto tags = service_.last_list().tags();
  EXPECT_EQ(tags.size(), 2u);
  EXPECT_EQ(tags.at("team"), "vision");
  EXPECT_EQ(tags.at("why"), "a=b");
  EXPECT_THAT(run_({"ls", "--tag", "team"}).err, HasSubstr("--tag team: must be NAME=VALUE"));
  const CliResult two = run_({"ls", "--tag", "team=a", "--tag", "team=b"});
  EXPECT_EQ(two.code, 2);
  EXPECT_THAT(two.err, HasSubstr("no job has two values of team"));
}

TEST_F(VerbsTest, LsRefusesAStateThatThereIsNot) {
  const CliResult result = run_({"ls", "--state", "sleeping"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("recovering"));
}

TEST_F(VerbsTest, UsageErrorsExitWith2) {
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{},
                                             {"ls", "--frobnicate"},
                                             {"ls", "-o", "toml"},
                                             {"show"},
                                             {"--timeout", "10", "ls"},
                                             {"--timeout", "0s", "ls"},
                                             {"ckpt"},
                                             {"ls", "--limit", "0"},
                                             {"submit"}}) {
    const CliResult result = run_(args);
    EXPECT_EQ(result.code, 2) << ::testing::PrintToString(args) << result.err;
    EXPECT_THAT(result.err, HasSubstr("--help"));
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(VerbsTest, AMisspeltVerbIsNamedWithTheNearestOne) {
  const CliResult result = run_({"sumbit"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "muster: unknown verb `sumbit`\n  did you mean `submit`?\n");
  EXPECT_THAT(run_({"qqqqqqqqqq"}).err, HasSubstr("--help"));
}

TEST_F(VerbsTest, TheHelpOfAVerbThatThereIsNotIsAFault) {
  const CliResult result = run_({"sumbit", "--help"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "muster: unknown verb `sumbit`\n  did you mean `submit`?\n");
}

std::string Hint(const CliResult& result) {
  const std::vector<std::string> lines = absl::StrSplit(result.err, '\n');
  return lines.size() > 1 ? lines[1] : "";
}

TEST_F(VerbsTest, WordsOfKubectlSlurmAndDockerNameOurVerb) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"squeue"}, "  it is `muster ls` here"},
      {{"scancel", "7"}, "  it is `muster cancel JOB` here"},
      {{"scontrol", "hold", "7"}, "  it is `muster hold JOB` here"},
      {{"get", "nodes"}, "  it is `muster nodes` here"},
      {{"get", "pods"}, "  it is `muster ls` here"},
      {{"describe", "job", "7"}, "  it is `muster show JOB` here"},
      {{"ps"}, "  it is `muster ls` here"},
      {{"drain", "worker-1"}, "  it is `muster nodes drain` here"},
      {{"status"}, "  it is `muster local status` or `muster admin status` here"},
  };
  for (const auto& [args, hint] : cases) {
    const CliResult result = run_(args);
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, StartsWith(absl::StrCat("muster: unknown verb `", args[0], "`\n")));
    EXPECT_EQ(Hint(result), hint) << args[0];
  }
  EXPECT_EQ(Hint(run_({"top", "nodes"})), "  `muster top` shows workers and jobs, both");
}

TEST_F(VerbsTest, AMisspeltVerbBelowAnotherOneIsNamedToo) {
  CliResult result = run_({"nodes", "drian", "worker-1"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err,
            "muster: `muster nodes` does not take `drian`\n  did you mean `nodes drain`?\n");
  result = run_({"ckpt", "lss", "7"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(Hint(result), "  did you mean `ckpt ls`?");
}

TEST_F(VerbsTest, AFlagThatThereIsNotIsNamedWithTheNearestOrWithWhoHasIt) {
  EXPECT_EQ(run_({"ls", "--stat", "running"}).err,
            "muster: `muster ls` has no flag `--stat`\n  did you mean `--state`?\n");
  EXPECT_EQ(Hint(run_({"submit", "--partition", "spot", "job.yaml"})), "  it is `--pool` here");
  EXPECT_THAT(Hint(run_({"ls", "--ckpt-every=5m"})),
              StartsWith("  it is a flag of `muster submit`; "));
  EXPECT_EQ(Hint(run_({"show", "--qqqqqqqq"})), "  `muster show --help` shows what it takes")
      << "not the job that is missing, too";
  EXPECT_EQ(Hint(run_({"--qqqqqqqq"})), "  `muster --help` shows what there is");
}

TEST_F(VerbsTest, AWordThatAVerbDoesNotTakeIsToldWithTheWayOut) {
  EXPECT_THAT(Hint(run_({"ls", "digits"})), StartsWith("  `muster show digits` is about one job"));
  EXPECT_THAT(Hint(run_({"run", "python", "train.py"})),
              HasSubstr("`muster run -- python train.py`"));
  EXPECT_THAT(Hint(run_({"submit", "python", "train.py"})), HasSubstr("`muster submit -- "));
  EXPECT_EQ(Hint(run_({"show"})), "  `muster show --help` shows what it takes");
}

TEST_F(VerbsTest, SubmitTakesTheFileWithAndWithoutItsFlag) {
  const std::string file = JobFile(kGood);
  EXPECT_EQ(run_({"submit", file}).code, 0);
  EXPECT_EQ(run_({"submit", "--name", "other", file, "--hold"}).code, 0);
  EXPECT_EQ(run_({"submit", "-f", file}).code, 0);
  ASSERT_EQ(service_.submits().size(), 3u);
  EXPECT_EQ(service_.submits()[1].spec().name(), "other");
  EXPECT_EQ(run_({"submit", "-f", file, file}).code, 2) << "two files";
  EXPECT_EQ(run_({"submit", file, "--", "true"}).code, 2) << "a file and a program";
}

TEST_F(VerbsTest, UsageErrorsAreJsonToo) {
  const Json error = Json::parse(run_({"ls", "-o", "json", "--frobnicate"}).err);
  EXPECT_EQ(error["code"], "INVALID_ARGUMENT");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("--frobnicate"));
}

TEST_F(VerbsTest, HelpAndVersionExitWith0) {
  EXPECT_THAT(run_({"--help"}).out, AllOf(HasSubstr("submit"), Not(HasSubstr("supervise"))));
  EXPECT_THAT(run_({"submit", "--help"}).out, HasSubstr("--dry-run"));
  EXPECT_THAT(run_({"--version"}).out, StartsWith("muster "));
  for (const char* verb : {"submit", "ls",   "show",    "watch",   "logs",   "metrics", "wait",
                           "cancel", "hold", "release", "suspend", "resume", "requeue", "update",
                           "nodes",  "run",  "top",     "ckpt",    "local",  "version"}) {
    EXPECT_EQ(run_({verb, "--help"}).code, 0) << verb;
  }
}

TEST_F(VerbsTest, NobodyThereExitsWith5AndTellsTheWayOut) {
  service_.Stop();
  const CliResult result = run_({"ls"});
  EXPECT_EQ(result.code, 5);
  EXPECT_EQ(
      result.err,
      absl::StrCat("muster: no controller at ", service_.address(),
                   "\n  start one with `muster local up`, or set MUSTER_ADDR (or --addr) to where "
                   "it is\n"));
  EXPECT_EQ(Json::parse(run_({"ls", "-o", "json"}).err)["retryable"], true);
}

TEST_F(VerbsTest, AWrongTokenExitsWith4) {
  run_.env()["MUSTER_TOKEN"] = "wrong";
  EXPECT_EQ(run_({"ls"}).code, 4);
  EXPECT_THAT(run_({"ls"}).err, AllOf(HasSubstr("MUSTER_TOKEN_FILE"), Not(HasSubstr("wrong"))));
}

TEST_F(VerbsTest, ShowFindsByIdAndByName) {
  service_.PutJob(MakeJob(7, "digits", v1::RUNNING));
  EXPECT_THAT(run_({"show", "7"}).out, StartsWith("job:          7 digits\n"));
  EXPECT_THAT(run_({"show", "digits"}).out, HasSubstr("name: digits"));
  const Json json = Json::parse(run_({"show", "digits", "-o", "json"}).out);
  EXPECT_EQ(json["summary"]["id"], 7);
  EXPECT_EQ(json["spec"]["name"], "digits");
  EXPECT_TRUE(json["attempts"].is_array() && json["checkpoints"].is_array() &&
              json["events"].is_array());
  EXPECT_THAT(run_({"show", "digits", "-o", "yaml"}).out, HasSubstr("\nspec:\n  name: digits\n"));
  EXPECT_EQ(run_({"show", "digits", "-q"}).out, "7\n");
}

TEST_F(VerbsTest, ShowPrintsTheSpecAsItWasWrittenAndResolvedOnDemand) {
  v1::GetJobResponse job = MakeJob(7, "digits", v1::RUNNING);
  job.mutable_spec()->mutable_restart()->set_max_restarts(3);
  job.mutable_written_spec()->set_name("digits");
  service_.PutJob(job);
  const std::string written = run_({"show", "7"}).out;
  EXPECT_THAT(written, HasSubstr("spec, as it was written (--resolved has every default)\n"
                                 "  name: digits\n"));
  EXPECT_THAT(written, Not(HasSubstr("max_restarts")));
  EXPECT_THAT(run_({"show", "7", "--resolved"}).out,
              AllOf(HasSubstr("spec, resolved\n"), HasSubstr("max_restarts: 3")));
  const Json json = Json::parse(run_({"show", "7", "-o", "json"}).out);
  EXPECT_EQ(json["spec"]["restart"]["max_restarts"], 3);
  EXPECT_EQ(json["written_spec"], Json::parse(R"({"name": "digits"})"));
}

TEST_F(VerbsTest, ShowNamesTheArtifactsAndWhereTheyLie) {
  const std::string folder = run_.dir() / "artifacts";
  v1::GetJobResponse job = MakeJob(7, "digits", v1::RUNNING);
  job.set_artifact_folder(folder);
  service_.PutJob(job);
  EXPECT_THAT(
      run_({"show", "7"}).out,
      HasSubstr("artifacts:    " + folder + " (not there yet, or not seen from this machine)\n"));
  std::filesystem::create_directories(folder + "/events");
  std::ofstream(folder + "/confusion-test.csv") << "x";
  EXPECT_THAT(run_({"show", "7"}).out,
              HasSubstr("artifacts:    confusion-test.csv, events/ in " + folder + "\n"));
  const Json json = Json::parse(run_({"show", "7", "-o", "json"}).out);
  EXPECT_EQ(json["artifacts"], Json::parse(R"(["confusion-test.csv", "events/"])"));
}

TEST_F(VerbsTest, UnknownJobsExitWith3) {
  for (const char* verb : {"show", "logs", "cancel", "metrics", "wait", "watch"}) {
    const CliResult result = run_({verb, "424242"});
    EXPECT_EQ(result.code, 3) << verb;
    EXPECT_THAT(result.err, AllOf(HasSubstr("424242"), HasSubstr("muster ls"))) << verb;
  }
  EXPECT_EQ(run_({"ckpt", "ls", "424242"}).code, 3);
  EXPECT_EQ(run_({"show", "0"}).code, 2) << "no job has that id";
  EXPECT_EQ(run_({"show", "99999999999999999999999"}).code, 2);
}

TEST_F(VerbsTest, TheBeginningOfANameStandsForItWhereOneAloneBeginsSo) {
  service_.PutJob(MakeJob(7, "digits", v1::SUCCEEDED));
  service_.PutJob(MakeJob(8, "words-small", v1::SUCCEEDED));
  service_.PutJob(MakeJob(9, "words-large", v1::RUNNING));
  EXPECT_EQ(run_({"show", "dig", "-q"}).out, "7\n");
  EXPECT_EQ(run_({"wait", "dig"}).out, "job 7 digits: SUCCEEDED\n");
  EXPECT_EQ(run_({"watch", "dig"}).code, 0);
  EXPECT_EQ(run_({"logs", "dig"}).code, 0);
  EXPECT_EQ(run_({"events", "dig"}).code, 0);
  EXPECT_EQ(run_({"ckpt", "ls", "dig"}).code, 0);
  const CliResult not_cancelled = run_({"cancel", "words-l"});
  EXPECT_EQ(not_cancelled.code, 3);
  EXPECT_THAT(not_cancelled.err, AllOf(HasSubstr("job words-l: no such job"),
                                       HasSubstr("did you mean `words-large`")));
  EXPECT_EQ(run_({"show", "words-large", "-o", "json"}).out.find("STOPPING"), std::string::npos);
  EXPECT_EQ(run_({"cancel", "words-large"}).out, "job 9 words-large: STOPPING\n");
  const CliResult several = run_({"show", "words"});
  EXPECT_EQ(several.code, 3);
  EXPECT_THAT(several.err, HasSubstr("2 names begin so: words-large (job 9), words-small (job 8)"));
  EXPECT_EQ(run_({"wait", "words"}).err, several.err);
  EXPECT_EQ(run_({"events", "words"}).err, several.err);
  EXPECT_EQ(run_({"cancel", "words"}).err, several.err);
  service_.PutJob(MakeJob(10, "words", v1::RUNNING));
  EXPECT_EQ(run_({"show", "words", "-q"}).out, "10\n") << "one is called so";
}

TEST_F(VerbsTest, AMisspeltNameIsToldWithTheNearest) {
  service_.PutJob(MakeJob(7, "digits", v1::SUCCEEDED));
  const CliResult result = run_({"show", "digist"});
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.err,
            "muster: job digist: no such job\n"
            "  did you mean `digits`? `muster ls` shows the jobs there are\n");
}

TEST_F(VerbsTest, LogsAreThoseInWhichAnExpressionIsFound) {
  service_.PutJob(MakeJob(7, "digits", v1::SUCCEEDED));
  v1::StreamLogsResponse chunk;
  chunk.set_attempt(1);
  chunk.set_offset(100);
  chunk.set_text("step 1 loss 0.5\nwarning: slow\nstep 2 loss 0.4\n");
  service_.PutLog(7, chunk);
  EXPECT_EQ(run_({"logs", "7", "--grep", "loss 0\\.4|WARN"}).out, "step 2 loss 0.4\n");
  EXPECT_EQ(run_({"logs", "7", "--grep", "(?i)WARN"}).out, "warning: slow\n");
  const CliResult json = run_({"logs", "7", "--grep", "loss", "-o", "jsonl"});
  const std::vector<std::string> lines = absl::StrSplit(json.out, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(Json::parse(lines[1])["text"], "step 2 loss 0.4\n");
  EXPECT_EQ(Json::parse(lines[1])["offset"], 130);
  const CliResult bad = run_({"logs", "7", "--grep", "(loss"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("--grep (loss: no regular expression"));
}

TEST_F(VerbsTest, ARunThatIsDetachedPrintsItsJobAndLeaves) {
  const CliResult result = run_({"run", "--detach", "--name", "good", "--", "sleep", "1000"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "job 7 good submitted\n");
  EXPECT_EQ(run_({"run", "-d", "-q", "--", "sleep", "1000"}).out, "7\n");
  EXPECT_TRUE(service_.cancels().empty());
}

TEST_F(VerbsTest, AWrongStateIsToldAllThereAre) {
  const CliResult result = run_({"ls", "--state", "BANANA"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("pending, starting, running, recovering, stopping, suspended, "
                                    "succeeded, failed, cancelled"));
}

TEST_F(VerbsTest, ArgumentsAreUtf8) {
  const CliResult result = run_({"show", "a\xff"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("'a?' is not UTF-8"));
  EXPECT_EQ(run_({"submit", "--tag", "k=\xff", "--", "true"}).code, 2);
}

TEST_F(VerbsTest, AnAnswerThatCannotBeReadIsSaidInOneSentence) {
  v1::GetJobResponse spoiled = MakeJob(1, "a", v1::RUNNING);
  spoiled.mutable_summary()->set_message("a\xc3");
  service_.PutJob(spoiled);
  const CliResult result = run_({"ls"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("cannot be read"));
  EXPECT_THAT(result.err, Not(HasSubstr("No message returned")));
}

TEST_F(VerbsTest, CancelGoesOnAfterAnErrorAndReportsTheFirst) {
  service_.PutJob(MakeJob(1, "done", v1::SUCCEEDED));
  service_.PutJob(MakeJob(2, "live", v1::RUNNING));
  const CliResult result = run_({"cancel", "1", "live", "9"});
  EXPECT_EQ(result.code, 6);
  EXPECT_EQ(result.out, "job 2 live: STOPPING\n");
  EXPECT_THAT(result.err, AllOf(HasSubstr("job 1: it has ended"), HasSubstr("job 9: no such job")));
}

TEST_F(VerbsTest, WaitTellsHowItEnded) {
  v1::GetJobResponse job = MakeJob(7, "digits", v1::SUCCEEDED);
  service_.PutJob(job);
  EXPECT_EQ(run_({"wait", "7"}).code, 0);
  EXPECT_EQ(run_({"wait", "7"}).out, "job 7 digits: SUCCEEDED\n");
  job.mutable_summary()->set_state(v1::FAILED);
  job.mutable_summary()->set_reason(v1::RESTART_BUDGET_SPENT);
  service_.PutJob(job);
  EXPECT_EQ(run_({"wait", "7", "-o", "json"}).code, 12);
  EXPECT_EQ(Json::parse(run_({"wait", "7", "-o", "json"}).out)["state"], "FAILED");
}

TEST_F(VerbsTest, WaitThatTimesOutExitsWith8AndSaysTheJobGoesOn) {
  service_.PutJob(MakeJob(7, "digits", v1::RUNNING));
  const CliResult result = run_({"wait", "7", "--timeout", "100ms"});
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.err, AllOf(HasSubstr("goes on"), HasSubstr("muster watch 7")));
}

TEST_F(VerbsTest, WatchPrintsLinesWhereThereIsNoTerminal) {
  v1::GetJobResponse job = MakeJob(7, "digits", v1::SUCCEEDED);
  job.mutable_summary()->set_step(10);
  job.mutable_summary()->set_total_steps(10);
  job.mutable_summary()->set_test_accuracy(0.98);
  service_.PutJob(job);
  const CliResult result = run_({"watch", "digits"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out,
            "job 7 digits  SUCCEEDED  10/10 100%  test 98.0%\n"
            "job 7 digits: SUCCEEDED, test accuracy 98.0%\n");
  const std::string lines = run_({"watch", "7", "-o", "jsonl"}).out;
  EXPECT_EQ(Json::parse(lines)["step"], 10);
}

TEST_F(VerbsTest, WatchRedrawsOnATerminal) {
  service_.PutJob(MakeJob(7, "digits", v1::CANCELLED));
  run_.terminal = true;
  const CliResult result = run_({"watch", "digits"});
  EXPECT_EQ(result.code, 11);
  EXPECT_THAT(result.out, StartsWith("\r\x1b[2Kjob 7 digits  CANCELLED\n"));
}

TEST_F(VerbsTest, LogsMarkWhoWroteALineWhenSeveralDid) {
  v1::GetJobResponse job = MakeJob(7, "digits", v1::SUCCEEDED);
  job.mutable_summary()->set_ranks(2);
  job.add_attempts()->set_number(1);
  service_.PutJob(job);
  v1::StreamLogsResponse chunk;
  chunk.set_attempt(1);
  chunk.set_text("hello\nwor");
  service_.PutLog(7, chunk);
  chunk.set_rank(1);
  chunk.set_text("other\n");
  service_.PutLog(7, chunk);
  chunk.set_rank(0);
  chunk.set_offset(9);
  chunk.set_text("ld\n");
  service_.PutLog(7, chunk);
  EXPECT_EQ(run_({"logs", "7"}).out, "a1.r0 | hello\na1.r1 | other\na1.r0 | world\n");
  EXPECT_EQ(run_({"logs", "7", "--rank", "0"}).out, "hello\nworld\n");
  EXPECT_EQ(run_({"logs", "-f", "7", "--rank", "1", "--attempt", "1"}).out, "other\n");
  const std::vector<std::string> lines =
      absl::StrSplit(run_({"logs", "7", "-o", "jsonl"}).out, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(Json::parse(lines[2])["offset"], 9);
}

TEST_F(VerbsTest, MetricsAreASummaryOrCurvesOrData) {
  service_.PutJob(MakeJob(7, "digits", v1::RUNNING));
  EXPECT_THAT(run_({"metrics", "7"}).err, HasSubstr("nothing reported yet"));
  for (int step = 0; step < 5; ++step) {
    v1::MetricPoint point;
    point.set_name(step < 4 ? "loss" : "lr");
    point.set_step(step);
    point.set_value(4 - step);
    service_.PutMetric(7, point);
  }
  EXPECT_EQ(run_({"metrics", "7"}).out,
            "NAME  POINTS  FIRST  LEAST   MOST   LAST  CURVE\n"
            "loss       4  4.000  1.000  4.000  1.000  #+-_\n"
            "lr         1      0      0      0      0  =\n");
  EXPECT_EQ(Json::parse(run_({"metrics", "7", "-o", "json"}).out).size(), 5u) << "all pages";
  EXPECT_THAT(run_({"metrics", "7", "-o", "csv", "--names", "lr"}).out,
              StartsWith("name,step,time_ms,value\nlr,4,0,"));
  const std::vector<std::string> csv =
      absl::StrSplit(run_({"metrics", "7", "-o", "csv"}).out, '\n', absl::SkipEmpty());
  EXPECT_EQ(csv.size(), 6u) << "five points under one header, though they came in three pages";
  const std::vector<std::string> lines =
      absl::StrSplit(run_({"metrics", "7", "-o", "jsonl"}).out, '\n', absl::SkipEmpty());
  EXPECT_EQ(lines.size(), 5u);
  const CliResult plot = run_({"metrics", "7", "--plot", "loss,lr"});
  EXPECT_THAT(plot.out, AllOf(StartsWith("loss: 4 points\n"), HasSubstr("lr: 1 points\n")));
  EXPECT_EQ(run_({"metrics", "7", "--plot", "los"}).code, 3);
  EXPECT_EQ(run_({"metrics", "7", "--plot", "los", "-o", "json"}).code, 3);
  EXPECT_THAT(run_({"metrics", "7", "--plot", "loss", "--log"}).out,
              StartsWith("loss: 4 points, logarithmic\n"));
  EXPECT_EQ(run_({"metrics", "7", "--log"}).code, 2) << "only of what is drawn";
}

TEST_F(VerbsTest, NodesShowsTheWorkers) {
  v1::WorkerInfo worker;
  worker.set_name("worker-1");
  worker.set_state("ready");
  service_.PutWorker(worker);
  EXPECT_THAT(run_({"nodes", "--no-header"}).out, StartsWith("worker-1  ready"));
  EXPECT_EQ(run_({"nodes", "-q"}).out, "worker-1\n");
}

TEST_F(VerbsTest, TopShowsWhoHoldsSlots) {
  v1::WorkerInfo worker;
  worker.set_name("worker-1");
  worker.set_state("ready");
  worker.add_slots();
  worker.set_slots_used(1);
  service_.PutWorker(worker);
  service_.PutJob(MakeJob(1, "runs", v1::RUNNING));
  service_.PutJob(MakeJob(2, "waits", v1::PENDING));
  service_.PutJob(MakeJob(3, "ended", v1::SUCCEEDED));
  run_.terminal = true;
  const CliResult once = run_({"top", "--once"});
  EXPECT_EQ(once.code, 0) << once.err;
  EXPECT_THAT(once.out, StartsWith("1 worker, 1 of 1 slot held; 1 job on them, 1 waiting\n"));
  EXPECT_THAT(once.out, AllOf(HasSubstr("worker-1  ready"), HasSubstr("runs"),
                              Not(HasSubstr("ended")), Not(HasSubstr("\x1b"))));
  const Json json = Json::parse(run_({"top", "--once", "-o", "json"}).out);
  EXPECT_EQ(json["workers"][0]["name"], "worker-1");
  EXPECT_EQ(json["jobs"][0]["name"], "runs");
  EXPECT_EQ(json["waiting"], 1);
  EXPECT_EQ(run_({"top", "--interval", "1ms"}).code, 2);
}

TEST_F(VerbsTest, TopShowsTheWorkersOfAllPages) {
  for (const char* name : {"w1", "w2", "w3", "w4", "w5"}) {
    v1::WorkerInfo worker;
    worker.set_name(name);
    worker.add_slots();
    service_.PutWorker(worker);
  }
  service_.SetWorkersPage(2);
  EXPECT_THAT(run_({"top", "--once"}).out, StartsWith("5 workers, 0 of 5 slots held"));
}

TEST_F(VerbsTest, CheckpointsAreFoundByIdStepBestAndNewest) {
  v1::GetJobResponse job = MakeJob(7, "digits", v1::RUNNING);
  for (const int step : {30, 20, 10}) {
    v1::CheckpointInfo& checkpoint = *job.add_checkpoints();
    checkpoint.set_id(static_cast<uint64_t>(step) / 10);
    checkpoint.set_step(step);
    checkpoint.set_best(step == 10);
    checkpoint.set_state(step == 30 ? v1::CORRUPT : v1::VERIFIED);
  }
  service_.PutJob(job);
  EXPECT_EQ(run_({"ckpt", "ls", "digits", "-q"}).out, "3\n2\n1\n");
  EXPECT_THAT(run_({"ckpt", "show", "digits@newest"}).out, StartsWith("checkpoint:   2\n"));
  EXPECT_THAT(run_({"ckpt", "show", "7@best"}).out, StartsWith("checkpoint:   1 (best)\n"));
  EXPECT_THAT(run_({"ckpt", "show", "7@30"}).out, HasSubstr("CORRUPT"));
  EXPECT_THAT(run_({"ckpt", "show", "2"}).out, HasSubstr("step:         20\n"));
  EXPECT_EQ(run_({"ckpt", "show", "9"}).code, 3);
  EXPECT_EQ(run_({"ckpt", "show", "7@40"}).code, 3);
  EXPECT_EQ(run_({"ckpt", "show", "7@worst"}).code, 2);
  EXPECT_EQ(run_({"ckpt", "show", "x"}).code, 2);
}

TEST_F(VerbsTest, CheckpointsArePinnedUnpinnedAndRemoved) {
  v1::GetJobResponse job = MakeJob(7, "digits", v1::SUCCEEDED);
  for (const int step : {20, 10}) {
    v1::CheckpointInfo& checkpoint = *job.add_checkpoints();
    checkpoint.set_id(static_cast<uint64_t>(step) / 10);
    checkpoint.set_step(step);
    checkpoint.set_state(v1::VERIFIED);
  }
  service_.PutJob(job);
  EXPECT_EQ(run_({"ckpt", "pin", "digits@20", "1"}).out,
            "checkpoint 2: VERIFIED (pinned)\ncheckpoint 1: VERIFIED (pinned)\n");
  EXPECT_THAT(run_({"ckpt", "ls", "digits"}).out, HasSubstr("VERIFIED (pinned)"));
  const std::string page = run_({"ckpt", "show", "2"}).out;
  EXPECT_THAT(page, HasSubstr("state:        VERIFIED (pinned)\npinned:       by user:"));
  const CliResult refused = run_({"ckpt", "rm", "2", "9", "--force"});
  EXPECT_EQ(refused.code, 6) << "as of the first";
  EXPECT_THAT(refused.err, AllOf(HasSubstr("checkpoint 2 stays"), HasSubstr("checkpoint 9")));
  EXPECT_TRUE(service_.checkpoint_controls().back().force());
  EXPECT_EQ(run_({"ckpt", "unpin", "2"}).out, "checkpoint 2: VERIFIED\n");
  EXPECT_EQ(run_({"ckpt", "rm", "2"}).out, "checkpoint 2: VERIFIED (being deleted)\n");
  EXPECT_FALSE(service_.checkpoint_controls().back().force());
  EXPECT_FALSE(service_.checkpoint_controls().back().user().empty());
  EXPECT_EQ(run_({"ckpt", "rm", "2", "-q"}).out, "2\n");
  EXPECT_EQ(run_({"ckpt", "pin"}).code, 2);
}

// Steps are hours ago, ids are the steps.
v1::CheckpointInfo* AddCheckpoint(v1::GetJobResponse& job, uint64_t step,
                                  v1::CheckpointState state = v1::VERIFIED) {
  v1::CheckpointInfo* checkpoint = job.add_checkpoints();
  checkpoint->set_id(step);
  checkpoint->set_job_id(job.summary().id());
  checkpoint->set_step(static_cast<int64_t>(step));
  checkpoint->set_state(state);
  checkpoint->set_bytes(1 << 20);
  checkpoint->set_created_ms(absl::ToUnixMillis(WallNow() - absl::Hours(1000) + absl::Hours(step)));
  return checkpoint;
}

TEST_F(VerbsTest, GcDeletesWhatEndedJobsNeedNoMore) {
  v1::GetJobResponse digits = MakeJob(7, "digits", v1::SUCCEEDED);
  AddCheckpoint(digits, 100, v1::COMMITTED);  // newer than the last verified one
  AddCheckpoint(digits, 90);
  AddCheckpoint(digits, 80);
  AddCheckpoint(digits, 70, v1::CORRUPT);
  AddCheckpoint(digits, 60)->set_pinned_by("user:ann");
  AddCheckpoint(digits, 50)->set_best(true);
  AddCheckpoint(digits, 40)->set_best(true);  // of then
  AddCheckpoint(digits, 30)->set_path("needed");
  AddCheckpoint(digits, 20, v1::DELETED);
  AddCheckpoint(digits, 10)->set_removed_by("user:ann");
  service_.PutJob(digits);
  v1::GetJobResponse last = MakeJob(8, "last", v1::FAILED);
  AddCheckpoint(last, 200);
  service_.PutJob(last);
  v1::GetJobResponse running = MakeJob(9, "running", v1::RUNNING);
  AddCheckpoint(running, 320);
  AddCheckpoint(running, 310);
  service_.PutJob(running);

  CliResult result = run_({"ckpt", "ls"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(StartsWith(" ID  JOB"), HasSubstr(" 70  7 digits"),
                                HasSubstr("320  9 running")));
  EXPECT_THAT(result.err, HasSubstr("12 checkpoints of 3 jobs, 12.0 MiB"));
  EXPECT_EQ(run_({"ckpt", "ls", "--owner", "nobody", "-q"}).out, "");
  EXPECT_EQ(run_({"ckpt", "ls", "digits", "--owner", "nobody"}).code, 2);
  result = run_({"ckpt", "gc", "--dry-run"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("ID  JOB"));
  EXPECT_THAT(result.out, HasSubstr("70  7 digits"));
  EXPECT_THAT(result.err, HasSubstr("would delete 4 checkpoints, 4.0 MiB"));
  EXPECT_EQ(run_({"ckpt", "gc", "--dry-run", "-q"}).out, "80\n70\n40\n30\n");
  EXPECT_EQ(run_({"ckpt", "gc", "--dry-run", "-q", "--keep", "3"}).out, "40\n30\n")
      << "the pinned one is the third";
  EXPECT_EQ(run_({"ckpt", "gc", "--dry-run", "-q", "--older-than", "935h"}).out, "40\n30\n");
  EXPECT_EQ(run_({"ckpt", "gc", "--dry-run", "-q", "--owner", "nobody"}).out, "");
  EXPECT_EQ(run_({"ckpt", "gc", "--dry-run", "--project", "vision"}).code, 0);
  EXPECT_EQ(service_.last_list().project(), "vision");
  EXPECT_EQ(run_({"ckpt", "gc", "--keep", "0"}).code, 2);

  result = run_({"ckpt", "gc"}, "no\n");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("delete 4 checkpoints, 4.0 MiB?"),
                                HasSubstr("nothing was deleted"), HasSubstr("--yes")));
  EXPECT_EQ(run_({"ckpt", "gc"}).code, 2) << "nobody answers";
  EXPECT_TRUE(service_.checkpoint_controls().empty());
  result = run_({"ckpt", "gc"}, "yes\n");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, AllOf(HasSubstr("checkpoint 30 stays: checkpoint 30 stays"),
                                HasSubstr("3 checkpoints are being deleted")));
  EXPECT_EQ(service_.checkpoint_controls().size(), 4u);
  EXPECT_FALSE(service_.checkpoint_controls()[0].force());
  EXPECT_THAT(run_({"ckpt", "gc", "--yes"}).err, HasSubstr("0 checkpoints are being deleted"));
}

TEST_F(VerbsTest, ACheckpointIsFoundByItsIdHoweverManyJobsThereAre) {
  v1::GetJobResponse oldest = MakeJob(1, "first", v1::SUCCEEDED);
  oldest.add_checkpoints()->set_id(5);
  service_.PutJob(oldest);
  for (uint64_t id = 2; id <= 1001; ++id) service_.PutJob(MakeJob(id, "later", v1::SUCCEEDED));
  const CliResult found = run_({"ckpt", "show", "5"});
  EXPECT_THAT(found.out, StartsWith("checkpoint:   5\n")) << found.err;
  EXPECT_EQ(service_.lists(), 0) << "the jobs are not gone through";
  EXPECT_EQ(run_({"ckpt", "show", "6"}).code, 3);
}

TEST_F(VerbsTest, AnOlderControllerThatFindsNoCheckpointByItsIdIsNamedAsThat) {
  service_.BeOlder();
  const CliResult result = run_({"ckpt", "show", "5"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("checkpoint 5: this controller is too old"),
                                HasSubstr("name it as JOB@STEP")));
}

TEST_F(VerbsTest, ExportAsksTheTrainerForWhatTheControllerNames) {
  const std::string folder = run_.dir() / "step-20.a1.g1";
  ASSERT_OK(PosixFileSystem().MakeDirectories(folder));
  ASSERT_OK(WriteFileAtomically(PosixFileSystem(), run_.dir() / "muster-trainer",
                                "#!/bin/sh\necho \"$*\"\n", 0755));
  run_.env()["MUSTER_BIN_DIR"] = run_.dir().path();
  v1::GetJobResponse job = MakeJob(7, "digits", v1::RUNNING);
  for (const int step : {20, 10}) {
    v1::CheckpointInfo& checkpoint = *job.add_checkpoints();
    checkpoint.set_id(static_cast<uint64_t>(step) / 10);
    checkpoint.set_step(step);
    checkpoint.set_state(v1::VERIFIED);
    checkpoint.set_manifest_sha256("ab12");
    checkpoint.set_path(step == 20 ? folder : "/nowhere/step-10.a1.g1");
  }
  service_.PutJob(job);
  const CliResult exported = run_({"ckpt", "export", "digits@newest", "--out", "net.pt", "--format",
                                   "torchscript", "--shape", "3,8,8", "--no-ema", "--force"});
  EXPECT_EQ(exported.code, 0) << exported.err;
  EXPECT_EQ(exported.out, "export " + folder +
                              " --sha256 ab12 --out net.pt --format torchscript --shape 3,8,8 "
                              "--no-ema --force\n");
  EXPECT_THAT(exported.err, HasSubstr("checkpoint 2 of step 20"));
  // A folder needs no controller.
  EXPECT_EQ(run_({"ckpt", "export", "./here", "--out", "w"}).out,
            "export ./here --out w --format safetensors\n");
  const CliResult elsewhere = run_({"ckpt", "export", "digits@10", "--out", "w"});
  EXPECT_EQ(elsewhere.code, 3);
  EXPECT_THAT(elsewhere.err, AllOf(HasSubstr("/nowhere/step-10.a1.g1 is not on this machine"),
                                   HasSubstr("copy the folder here")));
  EXPECT_EQ(run_({"ckpt", "export", "2", "--out", "w"}).out,
            "export " + folder + " --sha256 ab12 --out w --format safetensors\n");
  EXPECT_EQ(run_({"ckpt", "export", "digits@40", "--out", "w"}).code, 3);
  EXPECT_EQ(run_({"ckpt", "export", "digits@20", "--out", "w", "--format", "onnx"}).code, 2);
  EXPECT_EQ(run_({"ckpt", "export", "digits@20"}).code, 2);
}

TEST_F(VerbsTest, VerifyTellsTheVerdict) {
  EXPECT_EQ(run_({"ckpt", "verify", "3"}).out, "checkpoint 3: VERIFIED\n");
  service_.SetVerdict(v1::CORRUPT, "model.safetensors: hash differs");
  const CliResult result = run_({"ckpt", "verify", "3"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "checkpoint 3: CORRUPT: model.safetensors: hash differs\n");
}

TEST_F(VerbsTest, VersionTellsBothSides) {
  EXPECT_THAT(run_({"version"}).out, HasSubstr("musterd 9.9.9 (protocol 3)"));
  EXPECT_EQ(Json::parse(run_({"version", "-o", "json"}).out)["controller"]["term"], 4);
  service_.Stop();
  const CliResult alone = run_({"version"});
  EXPECT_EQ(alone.code, 5);
  EXPECT_THAT(alone.out, StartsWith("muster "));
}

TEST_F(VerbsTest, SubmitSendsTheSpecAsItWasWrittenOnceWithAKey) {
  const CliResult result = run_({"submit", "-f", JobFile(kGood)});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "job 7 good submitted\n");
  ASSERT_EQ(service_.submits().size(), 1u);
  const v1::SubmitRequest request = service_.submits()[0];
  EXPECT_EQ(request.idempotency_key().size(), 32u);
  EXPECT_EQ(request.protocol_version(), kProtocolVersion);
  EXPECT_NE(request.owner(), "");
  EXPECT_FALSE(request.spec().train().has_optimizer() || request.spec().has_checkpoint())
      << "the defaults are the controller's";
  EXPECT_EQ(run_({"submit", "-q", "-f", JobFile(kGood), "--idempotency-key", "mine"}).out, "7\n");
  EXPECT_EQ(service_.submits()[1].idempotency_key(), "mine");
}

TEST_F(VerbsTest, SubmitTakesStdinJsonAndOverrides) {
  const std::string json =
      R"({"name": "j", "train": {"model": {"mlp": {}}, "data": {"synthetic": {}}, "batch_size": 8, "steps": 1}})";
  const CliResult result =
      run_({"submit", "-f", "-", "--set", "train.steps=3", "--set", "train.optimizer.lr=0.5",
            "--name", "other", "--ranks", "1:2", "--pool", "big", "--project", "p", "-o", "json"},
           json);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(Json::parse(result.out)["job_id"], 7);
  const v1::JobSpec spec = service_.submits()[0].spec();
  EXPECT_EQ(spec.name(), "other");
  EXPECT_EQ(spec.train().steps(), 3u);
  EXPECT_EQ(spec.train().optimizer().lr(), 0.5);
  EXPECT_EQ(spec.ranks().min(), 1u);
  EXPECT_EQ(spec.ranks().max(), 2u);
  EXPECT_EQ(spec.placement().pool(), "big");
  EXPECT_EQ(spec.project(), "p");
}

TEST_F(VerbsTest, SubmitTakesAProgramBehindDashes) {
  const CliResult result = run_({"submit", "--ranks", "2", "--env", "A=b: c=d", "--env", "E=", "--",
                                 "python", "t.py", "--lr", "1", "--", "-h"});
  EXPECT_EQ(result.code, 0) << result.err;
  const v1::JobSpec spec = service_.submits()[0].spec();
  EXPECT_EQ(spec.name(), "python");
  EXPECT_THAT(spec.command().argv(),
              ::testing::ElementsAre("python", "t.py", "--lr", "1", "--", "-h"));
  EXPECT_EQ(spec.command().env().at("A"), "b: c=d");
  EXPECT_EQ(spec.command().env().at("E"), "");
  EXPECT_EQ(spec.command().workdir(), WorkingDirectory());
  EXPECT_EQ(spec.ranks().max(), 2u);
  ASSERT_EQ(run_({"submit", "--workdir", "src", "--name", "x", "--gpus", "1", "--", "a"}).code, 0);
  EXPECT_EQ(service_.submits()[1].spec().command().workdir(), WorkingDirectory() + "/src");
  EXPECT_EQ(service_.submits()[1].spec().name(), "x");
  EXPECT_EQ(service_.submits()[1].spec().per_rank().gpus(), 1u);
  ASSERT_EQ(run_({"submit", "--image", "python:3.12", "--", "a"}).code, 0);
  EXPECT_EQ(service_.submits()[2].spec().command().image(), "python:3.12");
  EXPECT_FALSE(service_.submits()[2].spec().command().has_workdir()) << "it is the image's";
  EXPECT_EQ(run_({"submit", "--image", "--privileged", "--", "a"}).code, 2);
  EXPECT_EQ(run_({"submit", "-f", JobFile(kGood), "--", "a"}).code, 2);
  EXPECT_THAT(run_({"submit"}).err, HasSubstr("a job is either a file or a program"));
  EXPECT_EQ(run_({"submit", "--env", "A", "--", "a"}).code, 2);
  EXPECT_EQ(run_({"submit", "--env", "RANK=1", "--", "a"}).code, 2);
  EXPECT_EQ(service_.submits().size(), 3u);
}

TEST_F(VerbsTest, RelativePathsStartAtTheFileAndThoseOfSetWhereTheCommandRuns) {
  std::string text = kGood;
  text.replace(text.find("{synthetic: {samples: 64, shape: [4]}}"), 38, "{digits: {path: data}}");
  const std::string path = JobFile(text);
  ASSERT_EQ(run_({"submit", "-f", path}).code, 0);
  EXPECT_EQ(service_.submits()[0].spec().train().data().digits().path(), run_.dir() / "data");
  ASSERT_EQ(run_({"submit", "-f", path, "--set", "train.data.digits.path=data"}).code, 0);
  EXPECT_EQ(service_.submits()[1].spec().train().data().digits().path(),
            WorkingDirectory() + "/data");
}

TEST_F(VerbsTest, SubmitReportsEveryFaultAndSendsNothing) {
  const std::string path = JobFile(
      "name: good\n"
      "train:\n"
      "  model: {mlp: {hidden: [8]}}\n"
      "  data: {synthetic: {}}\n"
      "  batch_size: -3\n"
      "  steps: 10\n"
      "  optimizer:\n"
      "    lrr: 0.1\n");
  const CliResult result = run_({"submit", "-f", path});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr(path), HasSubstr("line 5: train.batch_size"),
                                HasSubstr("line 8: train.optimizer.lrr"), HasSubstr("lr")));
  EXPECT_EQ(service_.submits().size(), 0u);
  EXPECT_EQ(run_({"submit", "-f", "/nonexistent/job.yaml"}).code, 2);
  EXPECT_EQ(run_({"submit", "-f", run_.dir().path()}).code, 2);
  EXPECT_EQ(run_({"submit", "-f", "-"}, std::string((1 << 20) + 1, ' ')).code, 2);
  EXPECT_EQ(run_({"submit", "-f", path, "--idempotency-key", std::string(129, 'k')}).code, 2);
}

TEST_F(VerbsTest, SubmitWaitsForAJobByItsName) {
  service_.PutJob(MakeJob(7, "digits", v1::RUNNING));
  v1::GetJobResponse task = MakeJob(12, "sweep", v1::PENDING);
  task.mutable_summary()->set_array_id(9);
  task.mutable_summary()->set_array_index(3);
  service_.PutJob(task);
  const CliResult result =
      run_({"submit", "-f", JobFile(kGood), "--after", "digits,sweep:any,42_7:fail,5"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(service_.submits()[0].spec().scheduling().after(),
              ::testing::ElementsAre("7", "9:any", "42_7:fail", "5"))
      << "of an array all of it";
  EXPECT_EQ(run_({"submit", "-f", JobFile(kGood), "--after", "nosuch"}).code, 3);
  EXPECT_EQ(service_.submits().size(), 1u);
}

TEST_F(VerbsTest, SubmitNamesExcludedWorkersThatNobodyKnows) {
  v1::WorkerInfo worker;
  worker.set_name("worker-1");
  service_.PutWorker(worker);
  EXPECT_EQ(run_({"submit", "-f", JobFile(kGood), "--exclude", "worker-1"}).err, "");
  const CliResult result = run_({"submit", "-f", JobFile(kGood), "--exclude", "worker-1,wroker-2"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, StartsWith("warning: no worker is called `wroker-2`"));
  EXPECT_EQ(service_.submits().size(), 2u) << "it may come";
}

TEST_F(VerbsTest, DryRunPrintsASpecThatCanBeSubmitted) {
  const CliResult result = run_({"submit", "-f", JobFile(kGood), "--dry-run"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, StartsWith("would start now on worker-1\n"));
  EXPECT_THAT(result.err, HasSubstr("where:    1 rank on worker-1 (slot 0)\n"));
  EXPECT_TRUE(service_.submits()[0].dry_run());
  EXPECT_EQ(run_({"submit", "-f", "-"}, result.out).code, 0) << result.out;
  EXPECT_EQ(service_.submits()[1].spec().DebugString(), service_.submits()[0].spec().DebugString());
  const Json json =
      Json::parse(run_({"submit", "-f", JobFile(kGood), "--dry-run", "-o", "json"}).out);
  EXPECT_EQ(json["spec"]["name"], "good");
  EXPECT_EQ(json["forecast"], "would start now on worker-1");
  EXPECT_EQ(json["outlook"]["places"][0]["worker"], "worker-1");
}

TEST_F(VerbsTest, ASubmitSaysWhatItBeginsFrom) {
  const std::string file = JobFile(kGood);
  CliResult result = run_({"submit", "-f", file, "--resume-from", "3@best"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "job 7 good submitted; begins from job 3 (first), step 500\n");
  EXPECT_EQ(service_.submits()[0].spec().checkpoint().resume_from(), "3@best");
  Json json = Json::parse(run_({"submit", "-f", file, "--resume-from", "3", "-o", "json"}).out);
  EXPECT_EQ(json["resume_from"]["steps"][0], 500);
  result = run_({"submit", "-f", file, "--resume-from", "3", "--dry-run"});
  EXPECT_THAT(result.err, HasSubstr("begins:   from job 3 (first), step 500\n"));
  result = run_({"submit", "-f", file, "--resume-from", "auto", "--dry-run"});
  EXPECT_THAT(result.err, HasSubstr("begins:   from nothing: no job of its name has a checkpoint"));
  json = Json::parse(run_({"submit", "-f", file, "--dry-run", "-o", "json"}).out);
  EXPECT_TRUE(json["resume_from"].is_null());
  EXPECT_EQ(run_({"submit", "--resume-from", "3", "--", "a"}).code, 0) << "a program, too";
  EXPECT_EQ(run_({"submit", "-f", file, "--resume-from", "3@worst"}).code, 2);
  EXPECT_EQ(service_.submits().size(), 6u);
}

TEST_F(VerbsTest, ExplainAsksForOneJobAndPrintsWhatItHears) {
  service_.PutJob(MakeJob(7, "digits", v1::PENDING));
  const CliResult result = run_({"explain", "digits"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("job:      7 digits\n"));
  EXPECT_THAT(result.out, HasSubstr("2 CPU slots  1 of 4 free"));
  const Json json = Json::parse(run_({"explain", "7", "-o", "json"}).out);
  EXPECT_EQ(json["outlook"]["blockers"][0]["kind"], "SLOTS");
  EXPECT_TRUE(json["outlook"]["start_ms"].is_null()) << "nobody knows";
  EXPECT_THAT(run_({"explain", "7", "-o", "csv"}).out, StartsWith("kind,"));
  EXPECT_EQ(run_({"explain", "8"}).code, 3);
}

TEST_F(VerbsTest, SubmitTriesAgainWithTheSameKeyWhileNobodyAnswers) {
  service_.FailSubmits({absl::UnavailableError("stopping"), absl::UnavailableError("stopping")});
  const CliResult result = run_({"submit", "-f", JobFile(kGood)});
  EXPECT_EQ(result.code, 0) << result.err;
  ASSERT_EQ(service_.submits().size(), 3u);
  EXPECT_EQ(service_.submits()[0].idempotency_key(), service_.submits()[2].idempotency_key());
  EXPECT_THAT(result.err, HasSubstr("trying for 10s"));
}

TEST_F(VerbsTest, SubmitGivesUpWhenTheTimeIsOver) {
  service_.Stop();
  EXPECT_EQ(run_({"submit", "-f", JobFile(kGood), "--timeout", "150ms"}).code, 5);
}

TEST_F(VerbsTest, ASubmitWhoseAnswerWasLostTellsHowToRepeatIt) {
  const std::string file = JobFile(kGood);
  service_.FailSubmits({absl::DeadlineExceededError("slow")});
  const CliResult lost =
      run_({"submit", "-f", file, "--deadline", "now+2h", "--after", "5", "-o", "json"});
  EXPECT_EQ(lost.code, 5);
  const Json error = Json::parse(lost.err);
  const v1::SubmitRequest sent = service_.submits()[0];
  const std::string deadline = sent.spec().scheduling().deadline();
  EXPECT_EQ(error["idempotency_key"], sent.idempotency_key());
  EXPECT_THAT(error["hint"].get<std::string>(),
              HasSubstr(absl::StrCat("`--idempotency-key ", sent.idempotency_key(), " --deadline ",
                                     deadline, " --after 5`")));
  const std::vector<std::string> repeat = {
      "submit", "-f", file, "--idempotency-key", sent.idempotency_key(), "--after", "5"};
  std::vector<std::string> same = repeat;
  same.insert(same.end(), {"--deadline", deadline});
  EXPECT_EQ(run_(same).out, "job 7 good was submitted before with this key\n");
  const CliResult other = run_(repeat);
  EXPECT_EQ(other.code, 6);
  EXPECT_THAT(other.err, AllOf(HasSubstr("job 7 was submitted with the same idempotency key"),
                               HasSubstr("nothing new was submitted")));
}

TEST_F(VerbsTest, ASubmitThatNobodyHeardTellsItsKeyToo) {
  service_.Stop();
  const CliResult result =
      run_({"submit", "-f", JobFile(kGood), "--timeout", "1s", "--idempotency-key", "mine"});
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--idempotency-key mine"), HasSubstr("muster local up")));
  const CliResult dry = run_({"submit", "-f", JobFile(kGood), "--timeout", "150ms", "--dry-run"});
  EXPECT_THAT(dry.err, Not(HasSubstr("--idempotency-key"))) << "nothing is stored";
}

TEST_F(VerbsTest, SubmitDoesNotRepeatWhatWasRefused) {
  const std::vector<std::pair<absl::Status, int>> cases = {
      {absl::FailedPreconditionError("refused: 64 ranks can never fit"), 7},
      {absl::AlreadyExistsError("key k belongs to job 3"), 6},
      {absl::ResourceExhaustedError("the disk under the controller is full"), 7},
  };
  for (const auto& [status, code] : cases) {
    const size_t before = service_.submits().size();
    service_.FailSubmits({status});
    const CliResult result = run_({"submit", "-f", JobFile(kGood)});
    EXPECT_EQ(result.code, code);
    EXPECT_THAT(result.err, HasSubstr(std::string(status.message())));
    EXPECT_EQ(service_.submits().size(), before + 1);
  }
}

TEST_F(VerbsTest, SubmitWaitsOrWatches) {
  service_.PutJob(MakeJob(7, "good", v1::FAILED));
  const CliResult waited = run_({"submit", "-f", JobFile(kGood), "--wait"});
  EXPECT_EQ(waited.code, 10);
  EXPECT_EQ(waited.out, "job 7 good: FAILED\n");
  EXPECT_EQ(waited.err, "job 7 good submitted\n");
  EXPECT_EQ(run_({"submit", "-f", JobFile(kGood), "--watch"}).code, 10);
}

TEST_F(VerbsTest, AWaitThatIsCutShortTellsWhichTasksHaveEnded) {
  service_.PutJob(MakeJob(7, "good_1", v1::SUCCEEDED));
  service_.PutJob(MakeJob(8, "good_2", v1::RUNNING));
  service_.PutJob(MakeJob(9, "good_3", v1::FAILED));
  const CliResult result = run_({"submit", "-f", JobFile(kGood), "--array", "1-3", "--wait",
                                 "--timeout", "300ms", "-o", "json"});
  EXPECT_EQ(result.code, 8) << result.err;
  const Json ended = Json::parse(result.out);
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[0]["state"], "SUCCEEDED");
  EXPECT_EQ(ended[1]["state"], "FAILED");
}

}  // namespace
}  // namespace muster::cli::testing
