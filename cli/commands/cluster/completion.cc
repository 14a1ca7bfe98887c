#include "cli/commands/cluster/completion.h"

#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "cli/grammar/completion.h"
#include "cli/output/views/views.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

constexpr absl::Duration kCompletionPatience = absl::Milliseconds(250);
constexpr uint32_t kMostOffered = 200;

// Asks the controller; whatever goes wrong, there is nothing to offer.
class ControllerSource final : public CompletionSource {
 public:
  explicit ControllerSource(Session& session) : session_(session) {}

  std::vector<Candidate> Jobs(bool live) override {
    v1::ListJobsRequest request;
    request.set_page_size(kMostOffered);
    if (live) {
      for (const v1::JobState state :
           {v1::PENDING, v1::STARTING, v1::RUNNING, v1::RECOVERING, v1::STOPPING, v1::SUSPENDED}) {
        request.add_states(state);
      }
    }
    const auto response = Ask(&cli::Jobs::ListJobs, request);
    std::vector<Candidate> candidates;
    if (!response.ok()) return candidates;
    std::set<std::string> names;
    for (const v1::JobSummary& job : response->jobs()) {
      const std::string state = v1::JobState_Name(job.state());
      candidates.push_back({JobIdText(job), absl::StrCat(job.name(), ", ", state)});
      if (!names.insert(job.name()).second) continue;
      candidates.push_back({job.name(), absl::StrCat("job ", JobIdText(job), ", ", state)});
    }
    return candidates;
  }

  std::vector<Candidate> Workers() override {
    std::vector<Candidate> candidates;
    const auto response = Ask(&cli::Jobs::ListWorkers, v1::ListWorkersRequest());
    if (!response.ok()) return candidates;
    for (const v1::WorkerInfo& worker : response->workers()) {
      candidates.push_back({worker.name(), worker.state()});
    }
    return candidates;
  }

  std::vector<Candidate> Projects() override {
    std::vector<Candidate> candidates;
    const auto response = Ask(&cli::Jobs::ListProjects, v1::ListProjectsRequest());
    if (!response.ok()) return candidates;
    for (const v1::ProjectInfo& project : response->projects()) {
      candidates.push_back({project.name(), ""});
    }
    return candidates;
  }

 private:
  template <typename Request, typename Response>
  absl::StatusOr<Response> Ask(UnaryMethod<cli::Jobs, Request, Response> method,
                               const Request& request) {
    MUSTER_ASSIGN_OR_RETURN(Client * client, session_.Connect());
    return client->CallOnce(method, request, kCompletionPatience);
  }

  Session& session_;
};

// Which controller the line names.
void TakeContext(const std::vector<std::string>& words, ContextFlags& context) {
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    for (const auto& [flag, value] :
         {std::pair<std::string, std::string*>("--addr", &context.address),
          {"--token-file", &context.token_file},
          {"--ca-file", &context.ca_file},
          {"--context", &context.context}}) {
      if (words[i] == flag && i + 2 < words.size()) *value = words[i + 1];
      if (words[i].rfind(flag + "=", 0) == 0) *value = words[i].substr(flag.size() + 1);
    }
  }
}

}  // namespace

void PrintCompletion(const CLI::App& app, const std::vector<std::string>& words, Session& session) {
  TakeContext(words, session.globals().context);
  ControllerSource source(session);
  session.host().out << CompletionText(Complete(app, words, source));
}

void AddCompletion(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("completion", "print the script by which a shell completes `muster`");
  const auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish: `source <(muster completion bash)`")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell, &session, &verb] {
    verb = [shell, &session]() -> absl::StatusOr<ExitCode> {
      session.host().out << CompletionScript(*shell);
      return ExitCode::kDone;
    };
  });
}

}  // namespace muster::cli
