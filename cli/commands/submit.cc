// `muster submit`: a job from a file to the controller.
#include <pwd.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/command_job.h"
#include "cli/commands/commands.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/base/version.h"
#include "common/spec/load_spec.h"
#include "common/spec/spec_writer.h"

namespace muster::cli {
namespace {

constexpr uint64_t kMaxSpecBytes = 1 << 20;
constexpr absl::Duration kFirstRetryPause = absl::Milliseconds(100);
constexpr absl::Duration kMaxRetryPause = absl::Seconds(1);

struct Flags {
  std::string file;
  std::vector<std::string> sets;
  // Short for --set of one field each.
  std::optional<std::string> name, project, pool, ranks, gpus, workdir;
  std::vector<std::string> env;  // NAME=VALUE
  std::string key;
  bool dry_run = false;
  bool wait = false;
  bool watch = false;
};

// Laid over the file in this order, so the named flags win over --set.
std::vector<std::string> Overrides(const Flags& flags) {
  std::vector<std::string> overrides = flags.sets;
  const auto add = [&](const char* path, const std::optional<std::string>& value) {
    if (value.has_value()) overrides.push_back(absl::StrCat(path, "=", *value));
  };
  add("name", flags.name);
  add("project", flags.project);
  add("placement.pool", flags.pool);
  add("per_rank.gpus", flags.gpus);
  if (flags.workdir.has_value()) {
    overrides.push_back(absl::StrCat("command.workdir=", QuoteText(*flags.workdir)));
  }
  for (const std::string& variable : flags.env) {
    const size_t equals = variable.find('=');
    overrides.push_back(absl::StrCat("command.env.", variable.substr(0, equals), "=",
                                     QuoteText(variable.substr(equals + 1))));
  }
  if (!flags.ranks.has_value()) return overrides;
  const size_t colon = flags.ranks->find(':');
  overrides.push_back(colon == std::string::npos
                          ? absl::StrCat("ranks=", *flags.ranks)
                          : absl::StrCat("ranks={min: ", flags.ranks->substr(0, colon),
                                         ", max: ", flags.ranks->substr(colon + 1), "}"));
  return overrides;
}

// The folder that relative paths in the spec start from.
std::string BaseDir(const std::string& file) {
  const size_t slash = file.rfind('/');
  if (file == "-" || slash == std::string::npos) return WorkingDirectory();
  if (file[0] == '/') return slash == 0 ? "/" : file.substr(0, slash);
  return absl::StrCat(WorkingDirectory(), "/", file.substr(0, slash));
}

absl::StatusOr<std::string> ReadText(const std::string& file, Session& session) {
  if (file != "-") {
    auto text = session.fs().ReadFile(file, kMaxSpecBytes);
    if (text.ok()) return text;
    // Whatever is wrong with the file, the command line is what to correct.
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read the job file: ", text.status().message()));
  }
  std::string text(kMaxSpecBytes + 1, '\0');
  session.host().in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(session.host().in.gcount()));
  if (text.size() > kMaxSpecBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the job on stdin is longer than ", HumanBytes(kMaxSpecBytes)));
  }
  return text;
}

// The first line says how much is wrong with which file, each further line is one fault.
absl::StatusOr<v1::JobSpec> ReadJob(const Flags& flags, Session& session) {
  const std::vector<std::string>& program = session.globals().program;
  if (flags.file.empty() == program.empty()) {
    return WithHint(absl::InvalidArgumentError("a job is either a file or a program"),
                    "`muster submit -f job.yaml`, or `muster submit -- python train.py`; "
                    "`muster submit --help` shows more");
  }
  SpecSource source;
  source.name = program.empty() ? flags.file == "-" ? "stdin" : flags.file : "command";
  std::string text;
  if (program.empty()) {
    MUSTER_ASSIGN_OR_RETURN(text, ReadText(flags.file, session));
  } else {
    MUSTER_ASSIGN_OR_RETURN(text, CommandJobText(program));
  }
  source.overrides = Overrides(flags);
  source.base_dir = BaseDir(flags.file);
  source.overrides_dir = WorkingDirectory();
  return LoadSpec(text, source);
}

absl::StatusOr<std::string> RandomKey() {
  std::array<char, 16> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return absl::InternalError("no random numbers for the idempotency key");
  }
  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

std::string Owner(const Host& host) {
  const struct passwd* user = ::getpwuid(::geteuid());
  return user != nullptr ? user->pw_name : host.Env("USER");
}

// Again and again while nobody answers and there is time: the key makes that safe, so a controller
// that is just being restarted is no error.
absl::StatusOr<v1::SubmitResponse> Send(const v1::SubmitRequest& request, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  const absl::Duration end = SteadyNow() + session.timeout();
  absl::Duration pause = kFirstRetryPause;
  bool told = false;
  while (true) {
    const absl::Duration left = end - SteadyNow();
    auto response =
        client->Call(&v1::JobService::Stub::Submit, request, std::max(left, kFirstRetryPause));
    if (!absl::IsUnavailable(response.status()) || left <= pause) return response;
    if (!std::exchange(told, true)) {
      session.Say(absl::StrCat(response.status().message(), "; trying for ",
                               HumanDuration(session.timeout())));
    }
    absl::SleepFor(pause);
    pause = std::min(2 * pause, kMaxRetryPause);
  }
}

// The spec alone, so that it can be saved and submitted.
void PrintDryRun(const v1::SubmitResponse& response, Session& session) {
  session.Say(response.forecast());
  const Json spec =
      Json::parse(SpecToJson(response.resolved_spec()), nullptr, /*allow_exceptions=*/false);
  session.PrintOne(SpecToYaml(response.resolved_spec()), spec, "name");
}

std::string SubmittedText(const v1::SubmitResponse& response) {
  return absl::StrCat(
      "job ", response.job_id(), " ", response.resolved_spec().name(),
      response.already_existed() ? " was submitted before with this key" : " submitted");
}

void PrintSubmitted(const v1::SubmitResponse& response, Session& session) {
  const Json json = {{"job_id", response.job_id()},
                     {"name", response.resolved_spec().name()},
                     {"already_existed", response.already_existed()},
                     {"spec", Json::parse(SpecToJson(response.resolved_spec()), nullptr,
                                          /*allow_exceptions=*/false)}};
  session.PrintOne(absl::StrCat(SubmittedText(response), "\n"), json, "job_id");
}

absl::StatusOr<ExitCode> Run(const Flags& flags, Session& session) {
  v1::SubmitRequest request;
  MUSTER_ASSIGN_OR_RETURN(*request.mutable_spec(), ReadJob(flags, session));
  request.set_dry_run(flags.dry_run);
  request.set_owner(Owner(session.host()));
  request.set_protocol_version(kProtocolVersion);
  request.set_idempotency_key(flags.key);
  if (flags.key.empty()) {
    MUSTER_ASSIGN_OR_RETURN(*request.mutable_idempotency_key(), RandomKey());
  }
  MUSTER_ASSIGN_OR_RETURN(const v1::SubmitResponse response, Send(request, session));
  if (flags.dry_run) {
    PrintDryRun(response, session);
    return ExitCode::kDone;
  }
  if (!flags.wait && !flags.watch) {
    PrintSubmitted(response, session);
    return ExitCode::kDone;
  }
  session.Say(SubmittedText(response));
  v1::JobRef job;
  job.set_id(response.job_id());
  return flags.watch ? WatchJob(session, job) : WaitForJob(session, job);
}

}  // namespace

void AddSubmit(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("submit", "submit a job: `-f job.yaml`, or any program: `-- CMD ARGS...`");
  const auto flags = std::make_shared<Flags>();
  command->add_option("-f,--file", flags->file, "the job in YAML or JSON; - is stdin");
  command
      ->add_option("--set", flags->sets,
                   "PATH=VALUE, over what the file says: train.optimizer.lr=0.1 (repeatable)")
      ->allow_extra_args(false);
  command->add_option("--name", flags->name, "short for --set name=");
  command->add_option("--project", flags->project, "short for --set project=");
  command->add_option("--pool", flags->pool, "short for --set placement.pool=");
  command->add_option("--ranks", flags->ranks, "N or MIN:MAX, short for --set ranks=");
  command->add_option("--gpus", flags->gpus, "GPUs of each rank, short for --set per_rank.gpus=");
  command->add_option("--workdir", flags->workdir,
                      "where a program runs, as the worker sees it (default: this folder)");
  command->add_option("--env", flags->env, "NAME=VALUE for a program (repeatable)")
      ->allow_extra_args(false)
      ->check([](const std::string& text) {
        return text.find('=') == std::string::npos ? "must be NAME=VALUE" : std::string();
      });
  command
      ->add_option("--idempotency-key", flags->key,
                   "a repeated submit with the same key is the same job (default: random)")
      ->check([](const std::string& key) {
        constexpr size_t kMaxKeyBytes = 128;
        return key.empty() || key.size() > kMaxKeyBytes ? std::string("must have 1 to 128 bytes")
                                                        : std::string();
      });
  command->add_flag("--dry-run", flags->dry_run,
                    "check all of it, say where it would run, print the resolved spec");
  command->add_flag("--wait", flags->wait, "stay until it has ended; its exit code as of `wait`");
  command->add_flag("--watch", flags->watch, "stay and show it live; its exit code as of `wait`");
  command->callback(
      [flags, &session, &verb] { verb = [flags, &session] { return Run(*flags, session); }; });
}

}  // namespace muster::cli
