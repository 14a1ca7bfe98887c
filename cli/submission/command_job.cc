#include "cli/submission/command_job.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/protocol/name_rule.h"
#include "nlohmann/json.hpp"

namespace muster::cli {
namespace {

using nlohmann::json;


// Bytes that are no UTF-8 come out as another character.
std::string Dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string QuoteText(absl::string_view text) {
  return Dump(std::string(text.data(), text.size()));
}

std::string JobNameOf(absl::string_view program) {
  std::string name(program.substr(program.rfind('/') + 1));
  for (char& c : name) {
    c = absl::ascii_tolower(static_cast<unsigned char>(c));
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '-';
  }
  name = name.substr(0, kMostNameBytes);
  const size_t first = name.find_first_not_of('-');
  if (first == std::string::npos) return "command";
  return name.substr(first, name.find_last_not_of('-') - first + 1);
}

absl::StatusOr<std::string> CommandJobText(const std::vector<std::string>& program) {
  const json job = {{"name", JobNameOf(program.front())}, {"command", {{"argv", program}}}};
  std::string text = Dump(job);
  if (json::parse(text) != job) {
    return absl::InvalidArgumentError(
        "an argument of the program is not text in UTF-8, which a job cannot hold");
  }
  return text;
}

}  // namespace muster::cli
