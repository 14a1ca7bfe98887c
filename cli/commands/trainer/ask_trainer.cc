#include "cli/commands/trainer/ask_trainer.h"

#include "cli/commands/trainer/sibling_program.h"
#include "cli/output/document.h"
#include "cli/submission/spec_file.h"
#include "common/base/status_macros.h"
#include "common/spec/load_spec.h"
#include "common/spec/spec_writer.h"

namespace muster::cli {

absl::StatusOr<ExitCode> AskTrainer(std::vector<std::string> arguments, const std::string& input,
                                    Session& session) {
  if (session.globals().tables()) {
    MUSTER_ASSIGN_OR_RETURN(const std::string page, RunTrainer(arguments, input, session.host()));
    session.host().out << page;
    return ExitCode::kDone;
  }
  arguments.insert(arguments.end(), {"-o", "json"});
  MUSTER_ASSIGN_OR_RETURN(const std::string text, RunTrainer(arguments, input, session.host()));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_array()) {
    session.host().out << RenderList(session.globals().format, {json.begin(), json.end()}, "name");
  } else {
    session.PrintOne("", json, "name");
  }
  return ExitCode::kDone;
}

absl::StatusOr<std::string> ResolvedSpec(const std::string& file,
                                         const std::vector<std::string>& sets, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadSpecText(file, session));
  SpecSource source;
  source.name = file == "-" ? "stdin" : file;
  source.overrides = sets;
  source.base_dir = BaseDirOfSpec(file);
  source.overrides_dir = WorkingDirectory();
  MUSTER_ASSIGN_OR_RETURN(const v1::JobSpec spec, LoadSpec(text, source));
  return SpecToJson(spec);
}

}  // namespace muster::cli
