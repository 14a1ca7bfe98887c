#include "cli/session/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/session/error.h"
#include "cli/session/host.h"
#include "common/base/units.h"
#include "common/protocol/name_rule.h"
#include "common/spec/tree/spec_fault.h"

namespace muster::cli {
namespace {

constexpr char kNoController[] =
    "start one with `muster local up`, or set MUSTER_ADDR (or --addr) to where it is";
// How far back names are looked for when one is not whole.
constexpr uint32_t kJobsAPage = 1000;
constexpr int kMostPages = 10;
constexpr size_t kMostNames = 2000;  // different ones
constexpr size_t kMostNamed = 8;     // in one message
constexpr char kCompareVersions[] = "`muster version` shows whether both are of the same version";

// gRPC's words for a peer that is there, and whose greeting is not what was expected: in TLS, or a
// connection closed before its first answer.
bool FailedToAgree(absl::string_view message) {
  return absl::StrContains(message, "handshake") ||
         absl::StrContains(message, "not verified as expected") ||
         absl::StrContains(message, "Hostname Verification Check failed") ||
         absl::StrContains(message, "Socket closed");
}

}  // namespace

absl::StatusOr<v1::JobRef> ParseJobRef(absl::string_view text) {
  v1::JobRef ref;
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  if (digits) {
    uint64_t id = 0;
    if (!absl::SimpleAtoi(text, &id) || id == 0) {
      return absl::InvalidArgumentError(absl::StrCat("'", text, "' is no job id"));
    }
    ref.set_id(id);
    return ref;
  }
  // No name has a '_' in it.
  const std::pair<absl::string_view, absl::string_view> task =
      absl::StrSplit(text, absl::MaxSplits('_', 1));
  uint64_t array_id = 0;
  uint32_t index = 0;
  if (absl::SimpleAtoi(task.first, &array_id) && absl::SimpleAtoi(task.second, &index)) {
    ref.mutable_task()->set_array_id(array_id);
    ref.mutable_task()->set_index(index);
    return ref;
  }
  if (text.empty() || text.size() > kMostNameBytes) {
    return absl::InvalidArgumentError(
        "a job is given by its id or by its name of at most 63 characters");
  }
  ref.set_name(std::string(text));
  return ref;
}

absl::StatusOr<bool> Client::CompleteName(v1::JobRef& job, absl::Duration timeout,
                                          InterruptGuard* guard) const {
  const absl::Duration deadline = SteadyNow() + timeout;
  const std::string begin = job.name();
  std::vector<std::string> names;
  std::vector<std::string> candidates;  // those that begin so, with the newest job of each
  std::string only;
  v1::ListJobsRequest request;
  request.set_page_size(kJobsAPage);
  for (int page = 0; page < kMostPages; ++page) {
    v1::ListJobsResponse response;
    const CallEnd end = Attempt(&Jobs::ListJobs, request, response, deadline - SteadyNow(), guard);
    if (!end.ok()) return Explain(end, timeout);
    for (const v1::JobSummary& summary : response.jobs()) {
      const bool known = std::find(names.begin(), names.end(), summary.name()) != names.end();
      if (known || names.size() >= kMostNames) continue;
      names.push_back(summary.name());
      if (!absl::StartsWith(summary.name(), begin)) continue;
      only = summary.name();
      candidates.push_back(absl::StrCat(summary.name(), " (job ", summary.id(), ")"));
    }
    request.set_page_token(response.next_page_token());
    if (request.page_token().empty()) break;
  }
  // Something else than the job was not found.
  if (std::find(names.begin(), names.end(), begin) != names.end()) return false;
  if (candidates.size() == 1) {
    job.set_name(only);
    return true;
  }
  if (candidates.empty()) {
    const std::string nearest = NearestName(begin, names);
    if (nearest.empty()) return false;  // the controller's own words are better
    return WithHint(
        absl::NotFoundError(absl::StrCat("job ", begin, ": no such job")),
        absl::StrCat("did you mean `", nearest, "`? `muster ls` shows the jobs there are"));
  }
  const size_t count = candidates.size();
  if (count > kMostNamed) {
    candidates.resize(kMostNamed);
    candidates.push_back(absl::StrCat(count - kMostNamed, " more"));
  }
  return WithHint(
      absl::NotFoundError(absl::StrCat("job ", begin, ": no job has that name, and ", count,
                                       " names begin so: ", absl::StrJoin(candidates, ", "))),
      "to show a job, the beginning of its name will do where no other one begins so");
}

absl::Status Client::NoSuchName(const std::string& name, const std::string& nearest) {
  return WithHint(absl::NotFoundError(absl::StrCat("job ", name, ": no such job")),
                  absl::StrCat("did you mean `", nearest,
                               "`? What changes a job takes its whole name, or its id"));
}

Client::Client(Endpoint endpoint) : endpoint_(std::move(endpoint)) {}

// What the controller says of a token that it knows, and no more valid, is worth telling.
absl::Status Client::Refused(const absl::Status& error) const {
  if (absl::StartsWith(error.message(), "token ")) {
    return WithHint(
        absl::UnauthenticatedError(absl::StrCat("the controller at ", endpoint_.address,
                                                " refuses this token: ", error.message())),
        absl::StrCat("then: muster login ", endpoint_.address));
  }
  return WithHint(absl::UnauthenticatedError(absl::StrCat(
                      "the controller at ", endpoint_.address,
                      endpoint_.token.empty() ? " wants a token" : " refuses this token")),
                  absl::StrCat("log in with yours: muster login ", endpoint_.address,
                               "; or set MUSTER_TOKEN_FILE (or --token-file) to a file with it "
                               "(the administrator's is `token` in musterd's data folder), or set "
                               "MUSTER_TOKEN"));
}

absl::Status Client::Explain(const CallEnd& end, absl::Duration timeout) const {
  const absl::Status& error = end.status;
  switch (error.code()) {
    case absl::StatusCode::kUnavailable:
      if (end.reached == absl::ZeroDuration() && FailedToAgree(error.message())) {
        return WithHint(
            absl::UnavailableError(absl::StrCat("no safe connection to the controller at ",
                                                endpoint_.address, ": ", error.message())),
            endpoint_.ca_file.empty()
                ? "if it speaks TLS, give its CA's certificates with --ca-file (MUSTER_CA_FILE)"
                : absl::StrCat("it must speak TLS, with a certificate for this host that ",
                               endpoint_.ca_file,
                               " vouches for; `musterd init --host HOST` adds a host"));
      }
      if (end.reached == absl::ZeroDuration()) {
        return WithHint(
            absl::UnavailableError(absl::StrCat("no controller at ", endpoint_.address)),
            kNoController);
      }
      // It is stopping, say.
      return WithHint(absl::UnavailableError(absl::StrCat("the controller at ", endpoint_.address,
                                                          ": ", error.message())),
                      "try again in a moment");
    case absl::StatusCode::kDeadlineExceeded:
      return WithHint(absl::DeadlineExceededError(
                          absl::StrCat("the controller at ", endpoint_.address,
                                       " did not answer within ", HumanDuration(timeout))),
                      "try again, or give it longer with --timeout");
    case absl::StatusCode::kUnauthenticated:
      return Refused(error);
    case absl::StatusCode::kNotFound:
      if (absl::StrContains(error.message(), "job") &&
          !absl::StrContains(error.message(), "`muster"))
        return WithHint(error, "`muster ls` shows the jobs there are");
      return error;
    case absl::StatusCode::kUnimplemented:
      // gRPC's own words for an answer that is no message of the kind that was asked for.
      if (absl::StrContains(error.message(), "No message returned")) {
        return WithHint(absl::InternalError(absl::StrCat("the answer of the controller at ",
                                                         endpoint_.address, " cannot be read")),
                        kCompareVersions);
      }
      return WithHint(absl::UnimplementedError(absl::StrCat("the controller at ", endpoint_.address,
                                                            ": ", error.message())),
                      kCompareVersions);
    default:
      return error;
  }
}

}  // namespace muster::cli
