// `muster audit`: what was changed and what was denied, and whether that record is whole.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/commands/access/access_verbs.h"
#include "cli/grammar/past_time.h"
#include "cli/output/text.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

constexpr uint32_t kPage = 1000;
constexpr absl::Duration kVerifyTimeout = absl::Minutes(10);

struct AuditFlags {
  std::optional<std::string> since, until;
  std::string user;
  bool denied = false;
  uint32_t limit = 100;
  std::string head;
};

// "CancelJob" of "JobService/CancelJob".
std::string MethodText(const std::string& method) {
  const size_t slash = method.rfind('/');
  return slash == std::string::npos ? method : method.substr(slash + 1);
}

// "ok", "denied", "no valid token"; with how many there were.
std::string OutcomeText(const v1::AuditRow& row) {
  const std::string outcome = row.outcome() == "OK"                  ? "ok"
                              : row.outcome() == "PERMISSION_DENIED" ? "denied"
                              : row.outcome() == "UNAUTHENTICATED"   ? "no valid token"
                                                                     : row.outcome();
  return row.count() > 1 ? absl::StrCat(outcome, ", ", row.count(), " times") : outcome;
}

absl::StatusOr<ExitCode> ListAudit(const AuditFlags& flags, Session& session) {
  v1::ListAuditRequest request;
  MUSTER_ASSIGN_OR_RETURN(const int64_t since, PastMillis("--since", flags.since, WallNow()));
  MUSTER_ASSIGN_OR_RETURN(const int64_t until, PastMillis("--until", flags.until, WallNow()));
  request.set_since_ms(since);
  request.set_until_ms(until);
  request.set_user(flags.user);
  request.set_denied(flags.denied);
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  std::vector<v1::AuditRow> rows;
  do {
    request.set_page_size(
        std::min<uint32_t>(kPage, flags.limit - static_cast<uint32_t>(rows.size())));
    MUSTER_ASSIGN_OR_RETURN(v1::ListAuditResponse page,
                            client->Call(&Access::ListAudit, request, session.timeout()));
    for (v1::AuditRow& row : *page.mutable_rows()) rows.push_back(std::move(row));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && rows.size() < flags.limit);
  Table table({{.title = "ROW", .right = true},
               {.title = "TIME"},
               {.title = "USER"},
               {.title = "METHOD"},
               {.title = "PROJECT"},
               {.title = "OBJECT", .elastic = true},
               {.title = "OUTCOME"}});
  for (const v1::AuditRow& row : rows) {
    table.Add({absl::StrCat(row.seq()), TimeText(row.time_ms()), row.user(),
               MethodText(row.method()), row.project(), row.object(), OutcomeText(row)});
  }
  session.PrintList(table, ToJsonList(rows), "seq");
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> VerifyAudit(const AuditFlags& flags, Session& session) {
  v1::VerifyAuditRequest request;
  if (!flags.head.empty()) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(flags.head, absl::MaxSplits(':', 1));
    uint64_t seq = 0;
    if (!absl::SimpleAtoi(parts.first, &seq) || seq == 0 || parts.second.empty()) {
      return absl::InvalidArgumentError(
          "--head: write it as an earlier `muster audit verify` printed it, ROW:HASH");
    }
    request.set_known_seq(seq);
    request.set_known_hash(parts.second);
  }
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  MUSTER_ASSIGN_OR_RETURN(
      const v1::VerifyAuditResponse answer,
      client->Call(&Access::VerifyAudit, request, session.timeout(kVerifyTimeout)));
  Json json = ToJson(answer);
  json["head"] = absl::StrCat(answer.last_seq(), ":", answer.last_hash());
  session.PrintOne(answer.rows() == 0
                       ? "the record is empty\n"
                       : absl::StrCat("the record is whole: ", answer.rows(), " rows, ",
                                      answer.first_seq(), " to ", answer.last_seq(), "\nhead ",
                                      answer.last_seq(), ":", answer.last_hash(), "\n"),
                   json, "head");
  return ExitCode::kDone;
}

}  // namespace

void AddAudit(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("audit", "what was changed and what was denied, by whom, newest first");
  const auto flags = std::make_shared<AuditFlags>();
  command->add_option("--since", flags->since, "since a time, or how long ago (24h)");
  command->add_option("--until", flags->until, "before it: likewise");
  command->add_option("--user", flags->user, "only of this user");
  command->add_flag("--denied", flags->denied, "only what was denied");
  command->add_option("-n,--limit", flags->limit, "the newest so many")
      ->capture_default_str()
      ->check(CLI::Range(1u, 1'000'000u));
  CLI::App* verify =
      command->add_subcommand("verify", "whether no row was changed, taken out or put in");
  verify->add_option(
      "--head", flags->head,
      "a ROW:HASH that this told earlier: then the record cannot have been made anew "
      "as a whole, either; exit code 3: the row was dropped to bound the size");
  verify->callback([flags, &session, &verb] {
    verb = [flags, &session] { return VerifyAudit(*flags, session); };
  });
  command->callback([command, flags, &session, &verb] {
    if (!command->get_subcommands().empty()) return;
    verb = [flags, &session] { return ListAudit(*flags, session); };
  });
}

}  // namespace muster::cli
