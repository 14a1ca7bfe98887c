// What could stand where the cursor is on a command line: verbs, flags, and values that the source
// knows. The shells' own scripts ask by `muster __complete WORDS...`. Pure but for the source.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster::cli {

struct Candidate {
  std::string value;
  std::string help;  // for shells that show it
};

// What a controller has. Whoever implements it gives what comes within a moment, else nothing.
class CompletionSource {
 public:
  virtual ~CompletionSource() = default;
  // Ids and names. `live`: only those that have not ended.
  virtual std::vector<Candidate> Jobs(bool live) = 0;
  virtual std::vector<Candidate> Workers() = 0;
  virtual std::vector<Candidate> Projects() = 0;
};

struct Completion {
  std::vector<Candidate> candidates;
  bool files = false;  // the shell's own names of files as well
};

// `words` stand behind the program's name; the last one is what has been typed of the one that is
// wanted, and may be empty. `app` was not parsed.
Completion Complete(const CLI::App& app, const std::vector<std::string>& words,
                    CompletionSource& source);

// One candidate a line, with its help behind a tab; `:files` on a line of its own.
std::string CompletionText(const Completion& completion);

// The script that `source`, or a shell's folder of completions, wants; null: no such shell.
const char* CompletionScript(absl::string_view shell);

}  // namespace muster::cli
