#include "cli/submission/upload.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/calls/change.h"
#include "cli/submission/submission.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

constexpr size_t kPieceBytes = 256 << 10;
// Of 64 MiB over a slow line.
constexpr absl::Duration kUploadTimeout = absl::Minutes(10);

absl::Status Send(const PackedFolder& folder, const Client& client, absl::Duration timeout,
                  InterruptGuard* guard) {
  StubCall call(client.endpoint(), timeout, guard);
  v1::UploadResponse response;
  const auto stream = Uploads(call.channel()).Upload(&call.context(), &response);
  v1::UploadRequest piece;
  piece.set_sha256(folder.sha256);
  piece.set_bytes(folder.archive.size());
  const absl::string_view archive = folder.archive;
  for (size_t at = 0; at < archive.size(); at += kPieceBytes) {
    const absl::string_view data = archive.substr(at, kPieceBytes);
    piece.set_data(data.data(), data.size());
    // What ended the call early, its end tells.
    if (!stream->Write(piece)) break;
    piece.Clear();
  }
  stream->WritesDone();
  const CallEnd end = call.End(stream->Finish());
  return end.ok() ? absl::OkStatus() : client.Explain(end, timeout);
}

}  // namespace

absl::Status SendUpload(const std::optional<PackedFolder>& folder, Session& session,
                        InterruptGuard* guard) {
  if (!folder.has_value()) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  v1::FindUploadRequest find;
  find.set_sha256(folder->sha256);
  Patience patience(session, guard);
  while (true) {
    const auto there = client->Call(&Uploads::Find, find, patience.left(), guard);
    absl::Status status = there.status();
    if (there.ok() && there->found()) return absl::OkStatus();
    if (there.ok()) {
      session.Say(absl::StrCat("uploading ", folder->entries, " files and folders, ",
                               HumanBytes(folder->archive.size())));
      status = Send(*folder, *client, session.timeout(kUploadTimeout), guard);
    }
    // Others of this user, or of this address, are sending theirs; or the store is full for now.
    const bool is_crowded = absl::IsResourceExhausted(status);
    if (status.ok() ||
        !patience.Again(is_crowded ? absl::UnavailableError(status.message()) : status)) {
      return status;
    }
  }
}

absl::StatusOr<v1::SubmitResponse> SendJobIn(const std::optional<PackedFolder>& folder,
                                             v1::SubmitRequest request, Session& session,
                                             InterruptGuard* guard) {
  // Of both submits, so that they are one job.
  if (request.idempotency_key().empty()) {
    MUSTER_ASSIGN_OR_RETURN(*request.mutable_idempotency_key(), RandomKey());
  }
  absl::StatusOr<v1::SubmitResponse> response = SendJob(request, session, guard);
  if (!folder.has_value() || !absl::IsNotFound(response.status())) return response;
  MUSTER_RETURN_IF_ERROR(SendUpload(folder, session, guard));
  return SendJob(request, session, guard);
}

}  // namespace muster::cli
