#include "cli/session/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/session/error.h"
#include "cli/session/host.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

constexpr char kNoController[] =
    "start one with `muster local up`, or set MUSTER_ADDR (or --addr) to where it is";
constexpr char kCompareVersions[] = "`muster version` shows whether both are of the same version";

}  // namespace

absl::StatusOr<v1::JobRef> ParseJobRef(absl::string_view text) {
  constexpr size_t kMaxNameBytes = 63;
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
  if (text.empty() || text.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        "a job is given by its id or by its name of at most 63 characters");
  }
  ref.set_name(std::string(text));
  return ref;
}

Client::Client(Endpoint endpoint) : endpoint_(std::move(endpoint)) {}

absl::Status Client::Explain(const CallEnd& end, absl::Duration timeout) const {
  const absl::Status& error = end.status;
  switch (error.code()) {
    case absl::StatusCode::kUnavailable:
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
      return WithHint(absl::UnauthenticatedError(absl::StrCat(
                          "the controller at ", endpoint_.address,
                          endpoint_.token.empty() ? " wants a token" : " refuses this token")),
                      "set MUSTER_TOKEN_FILE (or --token-file) to the file `token` in musterd's "
                      "data folder, or set "
                      "MUSTER_TOKEN");
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
