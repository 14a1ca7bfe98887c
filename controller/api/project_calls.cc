// The calls of JobService on projects: their weights, quotas and what they have used.
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/protocol/name_rule.h"
#include "controller/api/calls/post_event.h"
#include "controller/api/calls/submit_check.h"
#include "controller/api/convert/pages.h"
#include "controller/api/job_service.h"
#include "controller/rules/projects/project_accounts.h"

namespace muster::controller {
namespace {

constexpr int kMostUsers = 1000;  // of one project, in an answer

v1::Quota ToProto(const Quota& quota) {
  v1::Quota out;
  if (quota.slots.has_value()) out.set_slots(*quota.slots);
  if (quota.queued.has_value()) out.set_queued(*quota.queued);
  return out;
}

Quota FromProto(const v1::Quota& quota) {
  Quota out;
  if (quota.has_slots()) out.slots = quota.slots();
  if (quota.has_queued()) out.queued = quota.queued();
  return out;
}

v1::ProjectInfo ToProto(const ProjectAccount& account) {
  v1::ProjectInfo out;
  const Project& project = account.project;
  out.set_name(project.name);
  out.set_weight(project.weight);
  *out.mutable_quota() = ToProto(project.quota);
  *out.mutable_each_user() = ToProto(project.each_user);
  for (const auto& [user, quota] : project.users) (*out.mutable_users())[user] = ToProto(quota);
  out.set_slots(account.use.all.slots);
  out.set_queued(account.use.all.queued);
  out.set_used_slot_seconds(account.used_slot_seconds);
  for (const auto& [user, part] : account.use.users) {
    if (out.user_use_size() == kMostUsers) break;
    v1::ProjectInfo::UserUse* row = out.add_user_use();
    row->set_user(user);
    row->set_slots(part.slots);
    row->set_queued(part.queued);
  }
  return out;
}

absl::StatusOr<controller::SetProject> EventOf(const v1::SetProjectRequest& request,
                                               UnaryCall& call) {
  const std::string user = call.caller().NameOr(request.user());
  call.Changes(request.project(), absl::StrCat("project ", request.project()));
  MUSTER_RETURN_IF_ERROR(CheckWord("user", request.user(), kMaxUserBytes));
  if (!IsName(request.project())) {
    return absl::InvalidArgumentError(
        absl::StrCat("project: a name is 1 to ", kMostNameBytes,
                     " of a-z, 0-9 and '-', with no '-' at either end, as in a spec"));
  }
  controller::SetProject event;
  event.project = request.project();
  if (request.has_weight()) event.weight = request.weight();
  if (request.has_quota()) event.quota = FromProto(request.quota());
  if (request.has_each_user()) event.each_user = FromProto(request.each_user());
  for (const auto& [user, quota] : request.users()) {
    MUSTER_RETURN_IF_ERROR(CheckWord("users", user, kMaxUserBytes));
    event.users[user] = FromProto(quota);
  }
  for (const std::string& user : request.reset_users()) event.users[user] = std::nullopt;
  event.actor = absl::StrCat("user:", user.empty() ? "unknown" : user);
  return event;
}

}  // namespace

grpc::ServerUnaryReactor* JobService::ListProjects(grpc::CallbackServerContext* context,
                                                   const v1::ListProjectsRequest* request,
                                                   v1::ListProjectsResponse* response) {
  auto* call = new UnaryCall(gate_, "ListProjects");
  const absl::Status allowed = call->Enter(*context, "JobService/ListProjects");
  if (allowed.ok()) {
    PageBytes page;
    const MayRead may_read = gate_.ReadsOf(call->caller());
    for (const ProjectAccount& account :
         AccountsOf(*engine_.snapshot(), clock_.SinceBoot(), engine_.options().use_half_life)) {
      if (account.project.name <= request->page_token()) continue;  // the last one of a page
      if (may_read != nullptr && !may_read(account.project.name)) continue;
      v1::ProjectInfo info = ToProto(account);
      if (!page.Take(info.ByteSizeLong())) {
        response->set_next_page_token(response->projects().rbegin()->name());
        break;
      }
      *response->add_projects() = std::move(info);
    }
  }
  call->Done(allowed);
  return call;
}

grpc::ServerUnaryReactor* JobService::SetProject(grpc::CallbackServerContext* context,
                                                 const v1::SetProjectRequest* request,
                                                 v1::SetProjectResponse* response) {
  auto* call = new UnaryCall(gate_, "SetProject");
  if (const absl::Status allowed = call->Enter(*context, "JobService/SetProject"); !allowed.ok()) {
    call->Done(allowed);
    return call;
  }
  PostAndAnswer(engine_, EventOf(*request, *call), call,
                [this, name = request->project(), response](const EventResult&) {
                  *response->mutable_project() =
                      ToProto(AccountOf(*engine_.snapshot(), name, clock_.SinceBoot(),
                                        engine_.options().use_half_life));
                });
  return call;
}

}  // namespace muster::controller
