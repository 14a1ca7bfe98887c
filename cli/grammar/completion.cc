#include "cli/grammar/completion.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/grammar/verb_hints.h"
#include "muster/v1/job_service.pb.h"

namespace muster::cli {
namespace {

enum class ValueKind { kFree, kFile, kJob, kLiveJob, kWorker, kProject, kFormat, kState };

constexpr std::array<std::pair<const char*, ValueKind>, 22> kKinds = {{
    {"JOB", ValueKind::kJob},
    {"OTHER", ValueKind::kJob},
    {"CKPT", ValueKind::kJob},
    {"FILE", ValueKind::kFile},
    {"PROJECT", ValueKind::kProject},
    {"--file", ValueKind::kFile},
    {"--token-file", ValueKind::kFile},
    {"--out", ValueKind::kFile},
    {"--upload", ValueKind::kFile},
    {"--workdir", ValueKind::kFile},
    {"--dir", ValueKind::kFile},
    {"--bin-dir", ValueKind::kFile},
    {"--ckpt-dir", ValueKind::kFile},
    {"--after", ValueKind::kJob},
    {"--resume-from", ValueKind::kJob},
    {"--exclude", ValueKind::kWorker},
    {"--project", ValueKind::kProject},
    {"--output", ValueKind::kFormat},
    {"--state", ValueKind::kState},
    // NAME is whatever the verb is about.
    {"nodes NAME", ValueKind::kWorker},
    {"project NAME", ValueKind::kProject},
    {"local NAME", ValueKind::kFree},
}};

ValueKind KindNamed(absl::string_view name) {
  for (const auto& [known, kind] : kKinds) {
    if (name == known) return kind;
  }
  return ValueKind::kFree;
}

ValueKind KindOf(const CLI::App& verb, const CLI::Option& option) {
  const std::string path = VerbPath(verb);
  if (option.nonpositional()) {
    return option.get_lnames().empty() ? ValueKind::kFree
                                       : KindNamed(absl::StrCat("--", option.get_lnames().front()));
  }
  const std::string name = option.get_name(/*positional=*/true);
  const std::string first = path.substr(0, path.find(' '));
  if (name == "NAME") return KindNamed(absl::StrCat(first, " NAME"));
  // These are refused for a job that has ended.
  constexpr std::array<const char*, 5> kOfLiveJobs = {"cancel", "hold", "release", "suspend",
                                                      "update"};
  const bool live = std::count(kOfLiveJobs.begin(), kOfLiveJobs.end(), path) > 0;
  const ValueKind kind = KindNamed(name);
  return kind == ValueKind::kJob && live ? ValueKind::kLiveJob : kind;
}

std::vector<Candidate> Words(std::initializer_list<const char*> words) {
  std::vector<Candidate> candidates;
  for (const char* word : words) candidates.push_back({word, ""});
  return candidates;
}

std::vector<Candidate> States() {
  std::vector<Candidate> candidates;
  const auto* states = v1::JobState_descriptor();
  for (int i = 0; i < states->value_count(); ++i) {
    if (states->value(i)->number() == v1::JOB_STATE_UNSPECIFIED) continue;
    candidates.push_back({absl::AsciiStrToLower(states->value(i)->name()), ""});
  }
  return candidates;
}

// CLI11 describes a choice as ":{auto,always,never}".
std::vector<Candidate> Choices(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  const size_t close = type.find('}', open == std::string::npos ? 0 : open);
  std::vector<Candidate> candidates;
  if (open == std::string::npos || close == std::string::npos) return candidates;
  for (const absl::string_view word :
       absl::StrSplit(absl::string_view(type).substr(open + 1, close - open - 1), ',')) {
    candidates.push_back({std::string(word), ""});
  }
  return candidates;
}

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// Walks over the words in front of the one that is wanted.
class Walk {
 public:
  explicit Walk(const CLI::App& app) : verb_(&app) {}

  void Pass(const std::string& word) {
    if (awaiting_ != nullptr) {
      awaiting_ = nullptr;
    } else if (word == "--") {
      in_program_ = true;
    } else if (absl::StartsWith(word, "-") && word != "-") {
      PassFlag(word);
    } else if (!PassVerb(word)) {
      ++positionals_;
    }
  }

  const CLI::App& verb() const { return *verb_; }
  bool in_program() const { return in_program_; }
  // The flag whose value is wanted; null: none.
  const CLI::Option* awaiting() const { return awaiting_; }

  // "--output" or "-o".
  const CLI::Option* FlagNamed(const std::string& flag) const {
    const bool is_long = absl::StartsWith(flag, "--");
    for (const CLI::Option* option : OptionsInReach(*verb_)) {
      if (is_long ? option->check_lname(flag.substr(2)) : option->check_sname(flag.substr(1))) {
        return option;
      }
    }
    return nullptr;
  }

  // The argument that comes next: the last one takes all that follow.
  const CLI::Option* Positional() const {
    const CLI::Option* last = nullptr;
    size_t at = 0;
    for (const CLI::Option* option : OptionsInReach(*verb_)) {
      if (!option->get_positional()) continue;
      if (at++ == positionals_) return option;
      last = option;
    }
    return last != nullptr && last->get_items_expected_max() > 1 ? last : nullptr;
  }
  size_t positionals() const { return positionals_; }

 private:
  void PassFlag(const std::string& word) {
    if (absl::StrContains(word, '=')) return;
    const CLI::Option* option = FlagNamed(word);
    if (option != nullptr && TakesValue(*option)) awaiting_ = option;
  }
  bool PassVerb(const std::string& word) {
    for (const CLI::App* below : ShownVerbs(*verb_)) {
      if (below->get_name() != word) continue;
      verb_ = below;
      positionals_ = 0;
      return true;
    }
    return false;
  }

  const CLI::App* verb_;
  const CLI::Option* awaiting_ = nullptr;
  bool in_program_ = false;
  size_t positionals_ = 0;
};

class Finder {
 public:
  Finder(const Walk& walk, const std::string& current, CompletionSource& source)
      : walk_(walk), current_(current), source_(source) {}

  Completion Run() && {
    const size_t equals = current_.find('=');
    if (walk_.in_program()) {
      found_.files = true;
    } else if (walk_.awaiting() != nullptr) {
      Values(*walk_.awaiting(), "");
    } else if (absl::StartsWith(current_, "--") && equals != std::string::npos) {
      const CLI::Option* option = walk_.FlagNamed(current_.substr(0, equals));
      if (option != nullptr) Values(*option, current_.substr(0, equals + 1));
    } else if (absl::StartsWith(current_, "-") && current_ != "-") {
      Flags();
    } else {
      Verbs();
      const CLI::Option* next = walk_.Positional();
      if (next != nullptr) Values(*next, "");
    }
    return std::move(found_);
  }

 private:
  void Add(Candidate candidate, const std::string& before = "") {
    candidate.value = absl::StrCat(before, candidate.value);
    if (absl::StartsWith(candidate.value, current_)) {
      found_.candidates.push_back(std::move(candidate));
    }
  }

  void Verbs() {
    if (walk_.positionals() > 0) return;
    for (const CLI::App* verb : ShownVerbs(walk_.verb())) {
      Add({verb->get_name(), verb->get_description()});
    }
  }

  void Flags() {
    for (const CLI::Option* option : OptionsInReach(walk_.verb())) {
      for (const std::string& name : option->get_lnames()) {
        Add({absl::StrCat("--", name), option->get_description()});
      }
    }
  }

  std::vector<Candidate> Known(const CLI::Option& option) {
    switch (KindOf(walk_.verb(), option)) {
      case ValueKind::kFile:
        found_.files = true;
        return {};
      case ValueKind::kJob:
        return source_.Jobs(/*live=*/false);
      case ValueKind::kLiveJob:
        return source_.Jobs(/*live=*/true);
      case ValueKind::kWorker:
        return source_.Workers();
      case ValueKind::kProject:
        return source_.Projects();
      case ValueKind::kFormat:
        return Words({"table", "wide", "json", "jsonl", "yaml", "csv", "name"});
      case ValueKind::kState:
        return States();
      case ValueKind::kFree:
        return Choices(option);
    }
    return {};
  }

  void Values(const CLI::Option& option, const std::string& before) {
    for (Candidate& candidate : Known(option)) Add(std::move(candidate), before);
  }

  const Walk& walk_;
  const std::string& current_;
  CompletionSource& source_;
  Completion found_;
};

}  // namespace

Completion Complete(const CLI::App& app, const std::vector<std::string>& words,
                    CompletionSource& source) {
  Walk walk(app);
  for (size_t i = 0; i + 1 < words.size(); ++i) walk.Pass(words[i]);
  const std::string current = words.empty() ? "" : words.back();
  return Finder(walk, current, source).Run();
}

std::string CompletionText(const Completion& completion) {
  std::string text;
  for (const Candidate& candidate : completion.candidates) {
    const std::string help = candidate.help.substr(0, candidate.help.find('\n'));
    absl::StrAppend(&text, candidate.value, help.empty() ? "" : "\t", help, "\n");
  }
  if (completion.files) absl::StrAppend(&text, ":files\n");
  return text;
}

}  // namespace muster::cli
