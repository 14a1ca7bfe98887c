// The verbs on clusters, users, their tokens, and the record of what they did, as in commands.h.
#pragma once

#include <string>

#include "cli/commands/commands.h"
#include "muster/v1/access_service.pb.h"

namespace muster::cli {

void AddAudit(CLI::App& app, Session& session, Verb& verb);
void AddConfig(CLI::App& app, Session& session, Verb& verb);
void AddLogin(CLI::App& app, Session& session, Verb& verb);
void AddToken(CLI::App& app, Session& session, Verb& verb);
void AddUser(CLI::App& app, Session& session, Verb& verb);
void AddWhoAmI(CLI::App& app, Session& session, Verb& verb);

// "viewer in digits, operator in vision"; "none".
std::string GrantsText(const google::protobuf::RepeatedPtrField<v1::RoleGrant>& grants);

}  // namespace muster::cli
