// `muster debug bundle`: what a report of a fault needs, in one file, without secrets.
#include <re2/re2.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/calls/all_workers.h"
#include "cli/commands/cluster/local_dir.h"
#include "cli/commands/cluster/loopback_page.h"
#include "cli/commands/commands.h"
#include "cli/local/local_control.h"
#include "cli/output/bundle_archive.h"
#include "cli/session/interrupt.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"

namespace muster::cli {
namespace {

constexpr uint32_t kMostBundledJobs = 500;
constexpr uint32_t kMostBundledEvents = 2000;
constexpr size_t kDetailedJobs = 20;         // the newest, with their attempts and events
constexpr uint64_t kMostLogBytes = 1 << 20;  // of the end of each
constexpr uint64_t kMostSecretBytes = 4096;
constexpr uint64_t kMostConfigBytes = 64 << 10;
constexpr size_t kMostNameBytes = 28;
constexpr char kPackagesConfigDir[] = "/etc/muster";

struct BundleFlags {
  std::string out;
  std::string dir;
  std::string config_dir = kPackagesConfigDir;
};

// A line of a configuration with its value only where that is a path, an address, a number or a
// name, under a key that does not speak of a secret. Other values, comments, lists and programs'
// words are hidden.
std::string ShownLine(absl::string_view line) {
  static const LazyRE2 kPlain = {"(\\s*[a-z0-9-]+:) *(\"?[A-Za-z0-9._:/-]{0,200}\"?)(?: +#.*)?"};
  static const LazyRE2 kSecret = {"secret|token|password|credential|key"};
  static const LazyRE2 kNamesAFile = {"\\s*([a-z-]+-file|tls-key|http-key):"};
  if (absl::StripAsciiWhitespace(line).empty()) return "";
  std::string key, value;
  if (!RE2::FullMatch(re2::StringPiece(line.data(), line.size()), *kPlain, &key, &value)) {
    return absl::StrCat(line.substr(0, line.find_first_not_of(' ')), "[hidden]");
  }
  if (RE2::PartialMatch(key, *kSecret) && !RE2::FullMatch(key, *kNamesAFile)) value = "[hidden]";
  return absl::StrCat(key, value.empty() ? "" : " ", value);
}

class Bundling {
 public:
  Bundling(const BundleFlags& flags, absl::Time now, Session& session)
      : flags_(flags),
        session_(session),
        archive_(absl::FormatTime("muster-debug-%Y%m%dT%H%M%SZ", now, absl::UTCTimeZone()),
                 absl::ToUnixSeconds(now)) {}

  // Whatever cannot be had is told in the bundle itself.
  std::string Run() && {
    HideSecrets();
    Versions();
    Lists();
    Events();
    Local();
    Configs();
    std::string readme = absl::StrCat(
        "A report of `muster debug bundle`. Tokens, and the environment and arguments of "
        "jobs' programs, are cut out; names of jobs, workers and paths are not.\n\n");
    for (const std::string& name : archive_.names()) absl::StrAppend(&readme, name, "\n");
    absl::StrAppend(&readme, "\n", missing_.empty() ? "Nothing is missing.\n" : missing_);
    archive_.Add("README.txt", readme);
    return std::move(archive_).Take();
  }

 private:
  void Missing(const std::string& what, const absl::Status& why) {
    absl::StrAppend(&missing_, "missing: ", what, ": ", why.message(), "\n");
  }

  // The token in use, and whatever the environment calls a secret.
  void HideSecrets() {
    for (const char* name : {"MUSTER_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}) {
      archive_.HideSecret(session_.host().Env(name));
    }
    const absl::StatusOr<Client*> client = session_.Connect();
    if (client.ok()) archive_.HideSecret((*client)->endpoint().token);
  }

  template <typename Request, typename Response>
  absl::StatusOr<Response> Ask(UnaryMethod<Jobs, Request, Response> method,
                               const Request& request) {
    MUSTER_ASSIGN_OR_RETURN(Client * client, session_.Connect());
    return client->Call(method, request, session_.timeout());
  }

  void Versions() {
    Json json = {{"client", {{"version", Version()}, {"protocol_version", kProtocolVersion}}},
                 {"address", nullptr},
                 {"token", "none"},
                 {"controller", nullptr}};
    const absl::StatusOr<Client*> client = session_.Connect();
    if (client.ok()) {
      json["address"] = (*client)->endpoint().address;
      if (!(*client)->endpoint().token.empty()) json["token"] = "given";
    }
    const auto answer = Ask(&Jobs::GetVersion, v1::GetVersionRequest());
    if (answer.ok()) {
      json["controller"] = ToJson(*answer);
    } else {
      Missing("controller", answer.status());
    }
    archive_.Add("versions.json", JsonText(json));
  }

  void Lists() {
    const auto workers = AllWorkers(session_);
    if (workers.ok()) {
      archive_.Add("nodes.json", JsonText(ToJsonList(*workers)));
    } else {
      Missing("nodes.json", workers.status());
    }
    const auto projects = Ask(&Jobs::ListProjects, v1::ListProjectsRequest());
    if (projects.ok()) archive_.Add("projects.json", JsonText(ToJson(*projects)));
    v1::ListJobsRequest request;
    request.set_page_size(kMostBundledJobs);
    const auto jobs = Ask(&Jobs::ListJobs, request);
    if (!jobs.ok()) {
      Missing("jobs.json", jobs.status());
      return;
    }
    archive_.Add("jobs.json", JsonText(ToJsonList(jobs->jobs())));
    const size_t most = std::min<size_t>(kDetailedJobs, static_cast<size_t>(jobs->jobs_size()));
    for (size_t i = 0; i < most; ++i) AddJob(jobs->jobs(static_cast<int>(i)).id());
  }

  // People keep secrets in a program's environment and arguments.
  static void HideCommand(v1::JobSpec& spec) {
    if (!spec.has_command()) return;
    v1::Command& command = *spec.mutable_command();
    for (auto& [name, value] : *command.mutable_env()) value = "[hidden]";
    for (int i = 1; i < command.argv_size(); ++i) command.set_argv(i, "[hidden]");
  }

  void AddJob(uint64_t id) {
    v1::GetJobRequest request;
    request.mutable_job()->set_id(id);
    auto job = Ask(&Jobs::GetJob, request);
    if (!job.ok()) return Missing(absl::StrCat("job ", id), job.status());
    HideCommand(*job->mutable_spec());
    if (job->has_written_spec()) HideCommand(*job->mutable_written_spec());
    archive_.Add(absl::StrCat("jobs/", id, ".json"), JsonText(ToJson(*job)));
  }

  void Events() {
    const absl::StatusOr<Client*> client = session_.Connect();
    if (!client.ok()) return;
    v1::StreamEventsRequest request;
    request.set_tail(kMostBundledEvents);
    InterruptGuard guard;
    ReadCall stream(&Jobs::StreamEvents, request, (*client)->endpoint(), session_.timeout(), guard);
    std::string text;
    v1::StreamEventsResponse response;
    while (stream.Read(response)) {
      for (const v1::JobEvent& event : response.events()) text += JsonLine(ToJson(event));
    }
    const CallEnd end = stream.Finish();
    if (!end.ok()) Missing("the rest of events.jsonl", end.status);
    archive_.Add("events.jsonl", text);
  }

  // What runs on this machine: how it was started, what its daemons wrote, and their metrics.
  void Local() {
    const absl::StatusOr<std::string> dir = LocalDir(flags_.dir, session_.host());
    if (!dir.ok()) return;
    const LocalPaths paths{*dir};
    const absl::StatusOr<std::string> token =
        session_.fs().ReadFile(paths.token(), kMostSecretBytes);
    if (token.ok()) archive_.HideSecret(absl::StripAsciiWhitespace(*token));
    const LocalStatus status = ReadLocalStatus(paths, session_.fs());
    archive_.Add("local/status.json", JsonText(LocalStatusJson(status.record, status.running)));
    for (const DaemonRecord& daemon : status.record.daemons) {
      AddArguments(daemon);
      AddMetrics(daemon);
    }
    const auto logs = session_.fs().List(paths.logs());
    if (!logs.ok()) return Missing("local/logs", logs.status());
    for (const FileInfo& file : *logs) AddEnd(paths.logs(), file.name);
  }

  // Of the daemons that the packages run on this machine, and of an agent that joined.
  void Configs() {
    bool found = false;
    for (const char* name :
         {"musterd.yaml", "muster-worker.yaml", "worker.yaml", "autoscale.yaml"}) {
      const absl::StatusOr<std::string> text =
          session_.fs().ReadFile(absl::StrCat(flags_.config_dir, "/", name), kMostConfigBytes);
      if (absl::IsNotFound(text.status())) continue;
      found = true;
      if (!text.ok()) {
        Missing(name, text.status());
        continue;
      }
      std::string shown;
      for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
        absl::StrAppend(&shown, ShownLine(line), "\n");
      }
      archive_.Add(absl::StrCat("config/", name), shown);
    }
    if (!found && flags_.config_dir != kPackagesConfigDir) {
      Missing("config", absl::NotFoundError(absl::StrCat("--config-dir: ", flags_.config_dir,
                                                         " has none of a daemon's")));
    }
  }

  void AddArguments(const DaemonRecord& daemon) {
    if (daemon.pid == 0) return;
    // FileSystem reads as many bytes as the size says; files in /proc have size 0.
    std::ifstream in(absl::StrCat("/proc/", daemon.pid, "/cmdline"));
    std::string text{std::istreambuf_iterator<char>(in), {}};
    if (text.empty()) {
      return Missing(absl::StrCat("arguments of ", daemon.name),
                     absl::NotFoundError("it does not run, or is another user's"));
    }
    std::replace(text.begin(), text.end(), '\0', '\n');
    archive_.Add(absl::StrCat("local/", daemon.name, ".args"), text);
  }

  void AddMetrics(const DaemonRecord& daemon) {
    if (daemon.metrics_url.empty()) return;
    const absl::StatusOr<std::string> page = ReadLoopbackPage(daemon.metrics_url);
    if (!page.ok()) return Missing(absl::StrCat("metrics of ", daemon.name), page.status());
    archive_.Add(absl::StrCat("local/", daemon.name, ".prom"), *page);
  }

  void AddEnd(const std::string& folder, const std::string& name) {
    if (name.size() > kMostNameBytes) return;  // none of ours
    const std::string path = absl::StrCat(folder, "/", name);
    const absl::StatusOr<uint64_t> size = session_.fs().FileSize(path);
    if (!size.ok()) return Missing(name, size.status());
    const uint64_t from = *size > kMostLogBytes ? *size - kMostLogBytes : 0;
    std::string text(*size - from, '\0');
    const absl::StatusOr<uint64_t> read =
        session_.fs().ReadAt(path, from, text.data(), text.size());
    if (!read.ok()) return Missing(name, read.status());
    text.resize(*read);
    archive_.Add(absl::StrCat("local/logs/", name), text);
  }

  const BundleFlags& flags_;
  Session& session_;
  BundleArchive archive_;
  std::string missing_;
};

absl::StatusOr<ExitCode> RunBundle(const BundleFlags& flags, Session& session) {
  const absl::Time now = WallNow();
  const std::string out = flags.out.empty() ? absl::FormatTime("muster-debug-%Y%m%dT%H%M%SZ.tar",
                                                               now, absl::UTCTimeZone())
                                            : flags.out;
  const std::string archive = Bundling(flags, now, session).Run();
  MUSTER_RETURN_IF_ERROR(WriteFileAtomically(session.fs(), Absolute(out), archive, 0600));
  session.PrintOne(absl::StrCat(out, "\n"), {{"file", out}, {"bytes", archive.size()}}, "file");
  return ExitCode::kDone;
}

}  // namespace

void AddDebug(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* debug =
      app.add_subcommand("debug", "what a report of a fault needs")->require_subcommand(1);
  CLI::App* command = debug->add_subcommand("bundle",
                                            "versions, states, events, configurations, and of a "
                                            "local Muster logs and metrics, in one tar without "
                                            "tokens");
  const auto flags = std::make_shared<BundleFlags>();
  command->add_option("--out", flags->out, "the file (default: muster-debug-TIME.tar here)");
  command->add_option("--dir", flags->dir, "the folder of the local Muster, as of `muster local`");
  command
      ->add_option("--config-dir", flags->config_dir,
                   "where musterd.yaml and muster-worker.yaml of this machine's services lie")
      ->capture_default_str();
  command->callback([flags, &session, &verb] {
    verb = [flags, &session] { return RunBundle(*flags, session); };
  });
}

}  // namespace muster::cli
