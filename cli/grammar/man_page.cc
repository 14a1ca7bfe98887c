#include "cli/grammar/man_page.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cli/grammar/verb_hints.h"

namespace muster::cli {
namespace {

// One line of text as roff takes it for text.
std::string Roff(absl::string_view text) {
  std::string out = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"\n", " "}});
  if (absl::StartsWith(out, ".") || absl::StartsWith(out, "'")) out.insert(0, "\\&");
  return out;
}

// Lines that stand as they are.
std::string Verbatim(absl::string_view text) {
  std::string out = ".nf\n";
  for (const absl::string_view line : absl::StrSplit(absl::StripAsciiWhitespace(text), '\n')) {
    absl::StrAppend(&out, line.empty() ? "\\&" : Roff(line), "\n");
  }
  return absl::StrCat(out, ".fi\n");
}

bool HasValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// "\-f, \-\-file TEXT", or the name of an argument.
std::string Names(const CLI::Option& option) {
  if (!option.nonpositional()) {
    return absl::StrCat("\\fI", Roff(option.get_name(/*positional=*/true)), "\\fR",
                        option.get_items_expected_max() > 1 ? "..." : "");
  }
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) {
    names.push_back(absl::StrCat("\\fB", Roff(absl::StrCat("-", name)), "\\fR"));
  }
  for (const std::string& name : option.get_lnames()) {
    names.push_back(absl::StrCat("\\fB", Roff(absl::StrCat("--", name)), "\\fR"));
  }
  std::string text = absl::StrJoin(names, ", ");
  if (!HasValue(option)) return text;
  std::string type = option.get_type_name();
  type = type.substr(0, type.find(':'));
  return absl::StrCat(text, " \\fI", Roff(type.empty() ? "VALUE" : type), "\\fR");
}

std::vector<const CLI::Option*> OwnOptions(const CLI::App& verb) {
  return verb.get_options([](const CLI::Option* option) { return !option->get_group().empty(); });
}

std::string Options(const CLI::App& verb) {
  std::string text;
  for (const CLI::Option* option : OwnOptions(verb)) {
    std::string help = option->get_description();
    if (!option->get_default_str().empty()) {
      absl::StrAppend(&help, " (", option->get_default_str(), " unless given)");
    }
    absl::StrAppend(&text, ".TP\n", Names(*option), "\n", Roff(help), "\n");
  }
  return text;
}

std::string Synopsis(const CLI::App& verb) {
  std::string text = absl::StrCat(".B ", Roff(absl::StrCat("muster ", VerbPath(verb))), "\n");
  if (!ShownVerbs(verb).empty()) {
    absl::StrAppend(&text,
                    verb.get_require_subcommand_min() > 0 ? "\\fIverb\\fR\n" : "[\\fIverb\\fR]\n");
  }
  absl::StrAppend(&text, "[\\fIflags\\fR]\n");
  for (const CLI::Option* option : OwnOptions(verb)) {
    if (!option->get_positional()) continue;
    const std::string name = Roff(option->get_name(/*positional=*/true));
    const bool needed = option->get_required();
    absl::StrAppend(&text, needed ? "" : "[", "\\fI", name, "\\fR",
                    option->get_items_expected_max() > 1 ? "..." : "", needed ? "" : "]", "\n");
  }
  return text;
}

std::string Head(absl::string_view name, absl::string_view what, absl::string_view version) {
  return absl::StrCat(".TH \"", absl::AsciiStrToUpper(Roff(name)), "\" \"1\" \"\" \"Muster ",
                      Roff(version), "\" \"Muster\"\n.SH NAME\n", Roff(name), " \\- ", Roff(what),
                      "\n");
}

ManPage PageOf(const CLI::App& verb, absl::string_view version) {
  const std::string name = absl::StrCat("muster-", verb.get_name());
  std::string text = Head(name, verb.get_description(), version);
  absl::StrAppend(&text, ".SH SYNOPSIS\n", Synopsis(verb));
  absl::StrAppend(&text, ".SH DESCRIPTION\n", Roff(verb.get_description()), ".\n");
  if (verb.get_parent() != nullptr && verb.get_footer() != verb.get_parent()->get_footer() &&
      !verb.get_footer().empty()) {
    absl::StrAppend(&text, ".PP\n", Verbatim(verb.get_footer()));
  }
  absl::StrAppend(&text, ".SH OPTIONS\n", Options(verb));
  const std::vector<const CLI::App*> below = ShownVerbs(verb);
  if (!below.empty()) absl::StrAppend(&text, ".SH VERBS\n");
  for (const CLI::App* sub : below) {
    absl::StrAppend(&text, ".SS ", Roff(VerbPath(*sub)), "\n", Synopsis(*sub), ".PP\n",
                    Roff(sub->get_description()), ".\n", Options(*sub));
  }
  absl::StrAppend(&text, ".SH SEE ALSO\n.BR muster (1)\nfor the flags that every verb takes, and ",
                  "the exit codes.\n");
  return {absl::StrCat(name, ".1"), std::move(text)};
}

ManPage MainPage(const CLI::App& app, absl::string_view version) {
  std::string text = Head("muster", "trains models on machines that come and go", version);
  absl::StrAppend(&text, ".SH SYNOPSIS\n.B muster\n\\fIverb\\fR\n[\\fIflags\\fR]\n");
  absl::StrAppend(&text, ".SH DESCRIPTION\n", Roff(app.get_description()), "\n.SH VERBS\n");
  std::vector<std::string> pages;
  for (const CLI::App* verb : ShownVerbs(app)) {
    absl::StrAppend(&text, ".TP\n\\fB", Roff(verb->get_name()), "\\fR\n",
                    Roff(verb->get_description()), "\n");
    pages.push_back(absl::StrCat(".BR ", Roff(absl::StrCat("muster-", verb->get_name())), " (1)"));
  }
  absl::StrAppend(&text, ".SH OPTIONS\nEvery verb takes these.\n", Options(app));
  absl::StrAppend(&text, ".SH NOTES\n", Verbatim(app.get_footer()));
  absl::StrAppend(&text, ".SH SEE ALSO\n", absl::StrJoin(pages, ",\n"), "\n");
  return {"muster.1", std::move(text)};
}

}  // namespace

std::vector<ManPage> ManPages(const CLI::App& app, absl::string_view version) {
  std::vector<ManPage> pages = {MainPage(app, version)};
  for (const CLI::App* verb : ShownVerbs(app)) pages.push_back(PageOf(*verb, version));
  return pages;
}

}  // namespace muster::cli
