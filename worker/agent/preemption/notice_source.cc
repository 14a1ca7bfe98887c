#include "worker/agent/preemption/notice_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "worker/agent/preemption/aws_notice.h"
#include "worker/agent/preemption/azure_notice.h"
#include "worker/agent/preemption/gcp_notice.h"
#include "worker/agent/preemption/metadata_client.h"

namespace muster::worker {
namespace {

constexpr size_t kMaxUrlBytes = 512;

absl::Status CheckUrl(absl::string_view url) {
  const auto bad = [](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("--preemption-url: ", what,
                                                   "; it is http://HOST[:PORT][/PATH], and ",
                                                   kMetadataUrl, " unless it is given"));
  };
  if (url.size() > kMaxUrlBytes) return bad(absl::StrCat("more than ", kMaxUrlBytes, " bytes"));
  absl::string_view rest = url;
  if (!absl::ConsumePrefix(&rest, "http://") && !absl::ConsumePrefix(&rest, "https://")) {
    return bad("does not begin with http:// or https://");
  }
  const auto is_plain = [](char c) { return absl::ascii_isgraph(c) && c != '\\'; };
  if (!std::all_of(rest.begin(), rest.end(), is_plain)) return bad("holds a character of no URL");
  if (rest.find_first_of("@?#") != rest.npos) return bad("holds a user, a query or a fragment");
  const absl::string_view host = rest.substr(0, rest.find('/'));
  if (host.empty() || host[0] == ':') return bad("names no host");
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckNoticeSource(const std::string& name, const std::string& url) {
  if (name != kNoSource && name != kAwsSource && name != kGcpSource && name != kAzureSource) {
    return absl::InvalidArgumentError(
        absl::StrCat("--preemption-source: `", name, "` is none of aws, gcp, azure and none"));
  }
  if (url.empty()) return absl::OkStatus();
  if (name == kNoSource) {
    return absl::InvalidArgumentError(
        "--preemption-url: needs --preemption-source aws, gcp or azure, whose service it is");
  }
  return CheckUrl(url);
}

absl::StatusOr<std::unique_ptr<NoticeSource>> MakeNoticeSource(const std::string& name,
                                                               const std::string& url,
                                                               bool has_gpus, Clock& clock,
                                                               const HttpStop& stop) {
  MUSTER_RETURN_IF_ERROR(CheckNoticeSource(name, url));
  if (name == kNoSource) return nullptr;
  auto client = std::make_unique<MetadataClient>(
      absl::StripSuffix(url.empty() ? kMetadataUrl : absl::string_view(url), "/"), stop);
  std::unique_ptr<NoticeSource> source;
  if (name == kAwsSource) source = std::make_unique<AwsNotice>(std::move(client), clock);
  if (name == kGcpSource) source = std::make_unique<GcpNotice>(std::move(client), has_gpus);
  if (name == kAzureSource) source = std::make_unique<AzureNotice>(std::move(client), clock);
  return source;
}

}  // namespace muster::worker
