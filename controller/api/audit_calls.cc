// The calls of AccessService on the record of changes and denials.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/os/sha256.h"
#include "controller/api/access_service.h"
#include "controller/api/convert/pages.h"

namespace muster::controller {
namespace {

constexpr uint32_t kDefaultAuditPage = 100;
constexpr uint32_t kMaxAuditPage = 1000;

v1::AuditRow ToProto(const AuditRow& row) {
  v1::AuditRow out;
  const AuditEntry& entry = row.entry;
  out.set_seq(row.seq);
  out.set_time_ms(absl::ToUnixMillis(entry.time));
  out.set_user(entry.user);
  out.set_token_name(entry.token_name);
  out.set_method(entry.method);
  out.set_project(entry.project);
  out.set_object(entry.object);
  out.set_outcome(entry.outcome);
  out.set_count(entry.count);
  out.set_detail(entry.detail);
  out.set_hash(row.hash);
  return out;
}

absl::StatusOr<AuditQuery> QueryOf(const v1::ListAuditRequest& request) {
  MUSTER_ASSIGN_OR_RETURN(const uint64_t below, IdOfToken(request.page_token(), /*first=*/0));
  AuditQuery query{.user = request.user(), .denied = request.denied(), .below = below};
  if (request.since_ms() > 0) query.since = absl::FromUnixMillis(request.since_ms());
  if (request.until_ms() > 0) query.until = absl::FromUnixMillis(request.until_ms());
  query.most =
      request.page_size() == 0 ? kDefaultAuditPage : std::min(request.page_size(), kMaxAuditPage);
  return query;
}

}  // namespace

grpc::ServerUnaryReactor* AccessService::ListAudit(grpc::CallbackServerContext* context,
                                                   const v1::ListAuditRequest* request,
                                                   v1::ListAuditResponse* response) {
  auto* call = new UnaryCall(gate_, "ListAudit");
  absl::Status status = call->Enter(*context, "AccessService/ListAudit");
  absl::StatusOr<AuditQuery> query;
  if (status.ok()) {
    query = QueryOf(*request);
    status = query.status();
  }
  if (!status.ok()) {
    call->Done(status);
    return call;
  }
  access_.ReadAudit(*query, [call, response](absl::StatusOr<AuditPage> page) {
    if (page.ok()) {
      PageBytes bytes;
      bool more = page->more;
      for (const AuditRow& row : page->rows) {
        v1::AuditRow out = ToProto(row);
        if (!bytes.Take(out.ByteSizeLong())) {
          more = true;
          break;
        }
        *response->add_rows() = std::move(out);
      }
      if (more) response->set_next_page_token(absl::StrCat(response->rows().rbegin()->seq()));
    }
    call->Done(page.status());
  });
  return call;
}

grpc::ServerUnaryReactor* AccessService::VerifyAudit(grpc::CallbackServerContext* context,
                                                     const v1::VerifyAuditRequest* request,
                                                     v1::VerifyAuditResponse* response) {
  auto* call = new UnaryCall(gate_, "VerifyAudit");
  absl::Status status = call->Enter(*context, "AccessService/VerifyAudit");
  if (status.ok() && request->known_seq() != 0 && !IsSha256Hex(request->known_hash())) {
    status = absl::InvalidArgumentError("known_hash: 64 lower-case hex digits");
  }
  if (!status.ok()) {
    call->Done(status);
    return call;
  }
  access_.VerifyAudit({.seq = request->known_seq(), .hash = request->known_hash()},
                      [call, response](absl::StatusOr<AuditVerdict> verdict) {
                        if (verdict.ok()) {
                          response->set_rows(verdict->rows);
                          response->set_first_seq(verdict->begin.seq + 1);
                          response->set_last_seq(verdict->end.seq);
                          response->set_last_hash(verdict->end.hash);
                        }
                        call->Done(verdict.status());
                      });
  return call;
}

}  // namespace muster::controller
