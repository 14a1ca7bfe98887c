#include "controller/api/access_service.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "controller/access/access_rules.h"
#include "controller/api/convert/pages.h"

namespace muster::controller {
namespace {

// Longer ones never expire, by their own word.
constexpr int64_t kMostLifetimeMs = int64_t{10} * 366 * 24 * 3600 * 1000;

// Unix milliseconds; 0: never.
int64_t MillisOf(absl::Time time) {
  return time == absl::InfiniteFuture() || time == absl::InfinitePast() ? 0
                                                                        : absl::ToUnixMillis(time);
}

v1::TokenInfo ToProto(const Token& token) {
  v1::TokenInfo info;
  info.set_id(token.id);
  info.set_user(token.user);
  info.set_name(token.name);
  info.set_created_ms(MillisOf(token.created));
  info.set_expires_ms(MillisOf(token.expires));
  info.set_revoked_ms(MillisOf(token.revoked));
  info.set_last_used_ms(MillisOf(token.last_used));
  return info;
}

template <typename Message>
void AddGrants(const Grants& grants, Message& message) {
  for (const auto& [project, role] : grants) {
    v1::RoleGrant* grant = message.add_grants();
    grant->set_project(project);
    grant->set_role(static_cast<v1::Role>(role));
  }
}

std::string ObjectOf(const Token& token) {
  return absl::StrCat("token ", token.id, " (", token.name, " of ", token.user, ")");
}

}  // namespace

void AccessService::Change(UnaryCall* call, AccessControl::Edit edit, const std::string& project,
                           const std::string& object) {
  AuditEntry entry = gate_.EntryOf(call->caller(), project, object);
  call->NeedsNoRecord();  // the row goes with the change
  access_.Change(std::move(edit), std::move(entry),
                 [call](const absl::Status& status) { call->Done(status); });
}

grpc::ServerUnaryReactor* AccessService::WhoAmI(grpc::CallbackServerContext* context,
                                                const v1::WhoAmIRequest*,
                                                v1::WhoAmIResponse* response) {
  auto* call = new UnaryCall(gate_, "WhoAmI");
  const absl::Status allowed = call->Enter(*context, "AccessService/WhoAmI");
  if (allowed.ok()) {
    const Principal& caller = *call->caller().principal;
    response->set_user(caller.user);
    AddGrants(caller.grants, *response);
    response->set_token_name(caller.token_name);
    response->set_token_expires_ms(MillisOf(caller.expires));
    response->set_controller_id(controller_id_);
  }
  call->Done(allowed);
  return call;
}

grpc::ServerUnaryReactor* AccessService::ListUsers(grpc::CallbackServerContext* context,
                                                   const v1::ListUsersRequest* request,
                                                   v1::ListUsersResponse* response) {
  auto* call = new UnaryCall(gate_, "ListUsers");
  const absl::Status allowed = call->Enter(*context, "AccessService/ListUsers");
  if (allowed.ok()) {
    const std::shared_ptr<const AccessTables> tables = access_.tables();
    const absl::Time now = access_.Now();
    std::map<std::string, uint32_t> live;
    for (const auto& [id, token] : tables->tokens) {
      if (token.IsLive(now)) ++live[token.user];
    }
    PageBytes page;
    for (auto it = tables->users.upper_bound(request->page_token()); it != tables->users.end();
         ++it) {
      v1::UserInfo info;
      info.set_name(it->second.name);
      info.set_created_ms(MillisOf(it->second.created));
      AddGrants(it->second.grants, info);
      info.set_tokens(live[it->first]);
      if (!page.Take(info.ByteSizeLong())) {
        response->set_next_page_token(response->users().rbegin()->name());
        break;
      }
      *response->add_users() = std::move(info);
    }
  }
  call->Done(allowed);
  return call;
}

grpc::ServerUnaryReactor* AccessService::AddUser(grpc::CallbackServerContext* context,
                                                 const v1::AddUserRequest* request,
                                                 v1::AddUserResponse* response) {
  auto* call = new UnaryCall(gate_, "AddUser");
  if (const absl::Status allowed = call->Enter(*context, "AccessService/AddUser"); !allowed.ok()) {
    call->Done(allowed);
    return call;
  }
  Change(
      call,
      [this, response, name = request->user(), reuse = request->reuse_name()](
          AccessTables& tables, AccessControl::Touched& touched) {
        MUSTER_ASSIGN_OR_RETURN(const bool added,
                                controller::AddUser(tables, name, access_.Now(), reuse));
        response->set_already_existed(!added);
        if (added) touched.users.push_back(name);
        return absl::OkStatus();
      },
      "", absl::StrCat("user ", request->user(), request->reuse_name() ? " (--reuse-name)" : ""));
  return call;
}

grpc::ServerUnaryReactor* AccessService::RemoveUser(grpc::CallbackServerContext* context,
                                                    const v1::RemoveUserRequest* request,
                                                    v1::RemoveUserResponse* response) {
  auto* call = new UnaryCall(gate_, "RemoveUser");
  if (const absl::Status allowed = call->Enter(*context, "AccessService/RemoveUser");
      !allowed.ok()) {
    call->Done(allowed);
    return call;
  }
  Change(
      call,
      [this, response, name = request->user()](AccessTables& tables,
                                               AccessControl::Touched& touched) {
        MUSTER_ASSIGN_OR_RETURN(const uint32_t tokens,
                                controller::RemoveUser(tables, name, access_.Now()));
        response->set_tokens(tokens);
        touched.users.push_back(name);
        return absl::OkStatus();
      },
      "", absl::StrCat("user ", request->user()));
  return call;
}

absl::Status AccessService::MayGiveRoles(const UnaryCall& call, const std::string& project,
                                         const std::string& object) {
  MUSTER_RETURN_IF_ERROR(CheckProjectName(project));
  return gate_.CheckProject(call.caller(), project, object);
}

grpc::ServerUnaryReactor* AccessService::GrantRole(grpc::CallbackServerContext* context,
                                                   const v1::GrantRoleRequest* request,
                                                   v1::GrantRoleResponse*) {
  auto* call = new UnaryCall(gate_, "GrantRole");
  const Role role =
      v1::Role_IsValid(request->role()) ? static_cast<Role>(request->role()) : Role::kNone;
  const std::string object = absl::StrCat("user ", request->user(), ": ", NameOf(role));
  absl::Status allowed = call->Enter(*context, "AccessService/GrantRole");
  if (allowed.ok()) allowed = MayGiveRoles(*call, request->project(), object);
  if (!allowed.ok()) {
    call->Done(allowed);
    return call;
  }
  Change(
      call,
      [role, user = request->user(), project = request->project()](
          AccessTables& tables, AccessControl::Touched& touched) {
        touched.users.push_back(user);
        return controller::GrantRole(tables, user, project, role);
      },
      request->project(), object);
  return call;
}

grpc::ServerUnaryReactor* AccessService::RevokeRole(grpc::CallbackServerContext* context,
                                                    const v1::RevokeRoleRequest* request,
                                                    v1::RevokeRoleResponse*) {
  auto* call = new UnaryCall(gate_, "RevokeRole");
  const std::string object = absl::StrCat("user ", request->user());
  absl::Status allowed = call->Enter(*context, "AccessService/RevokeRole");
  if (allowed.ok()) allowed = MayGiveRoles(*call, request->project(), object);
  if (!allowed.ok()) {
    call->Done(allowed);
    return call;
  }
  Change(
      call,
      [user = request->user(), project = request->project()](AccessTables& tables,
                                                             AccessControl::Touched& touched) {
        touched.users.push_back(user);
        return controller::RevokeRole(tables, user, project);
      },
      request->project(), object);
  return call;
}

grpc::ServerUnaryReactor* AccessService::CreateToken(grpc::CallbackServerContext* context,
                                                     const v1::CreateTokenRequest* request,
                                                     v1::CreateTokenResponse* response) {
  auto* call = new UnaryCall(gate_, "CreateToken");
  absl::Status allowed = call->Enter(*context, "AccessService/CreateToken");
  if (allowed.ok() && (request->lifetime_ms() < 0 || request->lifetime_ms() > kMostLifetimeMs)) {
    allowed = absl::InvalidArgumentError("lifetime_ms: at most ten years; 0: it never expires");
  }
  const absl::StatusOr<std::string> text = MakeTokenText();
  if (allowed.ok()) allowed = text.status();
  if (!allowed.ok()) {
    call->Done(allowed);
    return call;
  }
  Token token;
  token.user = request->user();
  token.name = request->name();
  token.hash = TokenHash(*text);
  token.created = access_.Now();
  if (request->lifetime_ms() > 0) {
    token.expires = token.created + absl::Milliseconds(request->lifetime_ms());
  }
  Change(
      call,
      [response, token, text = *text](AccessTables& tables, AccessControl::Touched& touched) {
        MUSTER_ASSIGN_OR_RETURN(const uint64_t id,
                                AddUserToken(tables, token, token.created, touched.tokens));
        touched.tokens.push_back(id);
        *response->mutable_info() = ToProto(tables.tokens.at(id));
        response->set_token(text);
        return absl::OkStatus();
      },
      "",
      absl::StrCat("token ", request->name(), " of ", request->user(),
                   request->lifetime_ms() == 0 ? ", which never expires" : ""));
  return call;
}

absl::Status AccessService::FillTokens(const Caller& caller, const v1::ListTokensRequest& request,
                                       v1::ListTokensResponse& response) {
  const Principal& principal = *caller.principal;
  std::string user = request.user();
  if (user.empty() && principal.RoleIn(kAllProjects) < Role::kAdmin) user = principal.user;
  if (user != principal.user) {
    MUSTER_RETURN_IF_ERROR(gate_.CheckAdmin(caller, absl::StrCat("tokens of ", user)));
  }
  MUSTER_ASSIGN_OR_RETURN(const uint64_t after, IdOfToken(request.page_token(), /*first=*/0));
  const std::shared_ptr<const AccessTables> tables = access_.tables();
  PageBytes page;
  for (auto it = tables->tokens.upper_bound(after); it != tables->tokens.end(); ++it) {
    if (!user.empty() && it->second.user != user) continue;
    v1::TokenInfo info = ToProto(it->second);
    if (!page.Take(info.ByteSizeLong())) {
      response.set_next_page_token(absl::StrCat(response.tokens().rbegin()->id()));
      break;
    }
    *response.add_tokens() = std::move(info);
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* AccessService::ListTokens(grpc::CallbackServerContext* context,
                                                    const v1::ListTokensRequest* request,
                                                    v1::ListTokensResponse* response) {
  auto* call = new UnaryCall(gate_, "ListTokens");
  absl::Status status = call->Enter(*context, "AccessService/ListTokens");
  if (status.ok()) status = FillTokens(call->caller(), *request, *response);
  call->Done(status);
  return call;
}

grpc::ServerUnaryReactor* AccessService::RevokeToken(grpc::CallbackServerContext* context,
                                                     const v1::RevokeTokenRequest* request,
                                                     v1::RevokeTokenResponse* response) {
  auto* call = new UnaryCall(gate_, "RevokeToken");
  absl::Status allowed = call->Enter(*context, "AccessService/RevokeToken");
  std::string object = absl::StrCat("token ", request->id());
  if (allowed.ok()) {
    const std::shared_ptr<const AccessTables> tables = access_.tables();
    const auto token = tables->tokens.find(request->id());
    const bool there = token != tables->tokens.end();
    if (there) object = ObjectOf(token->second);
    // Of others not even whether it is there.
    const bool own = there && token->second.user == call->caller().principal->user;
    if (!own) allowed = gate_.CheckAdmin(call->caller(), object);
    // Once revoked it stays so, and these tables are durable.
    if (allowed.ok() && there && token->second.is_revoked()) {
      *response->mutable_info() = ToProto(token->second);
      call->NeedsNoRecord();
      call->Done(allowed);
      return call;
    }
  }
  if (!allowed.ok()) {
    call->Done(allowed);
    return call;
  }
  Change(
      call,
      [this, response, id = request->id()](AccessTables& tables, AccessControl::Touched& touched) {
        MUSTER_ASSIGN_OR_RETURN(const bool revoked,
                                controller::RevokeToken(tables, id, access_.Now()));
        *response->mutable_info() = ToProto(tables.tokens.at(id));
        if (revoked) touched.tokens.push_back(id);
        return absl::OkStatus();
      },
      "", object);
  return call;
}

}  // namespace muster::controller
