#include "common/tls/tls_watcher.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/tls/certificate_facts.h"

namespace muster {
namespace {

constexpr uint64_t kMaxPemBytes = 1 << 20;
constexpr uint32_t kSecretMode = 0600;

std::string Next(const std::string& path) { return path + ".next"; }

}  // namespace

TlsWatcher::TlsWatcher(FileSystem& fs, Clock& clock, TlsFiles source, const std::string& folder,
                       absl::Duration interval)
    : fs_(fs),
      clock_(clock),
      source_(std::move(source)),
      files_{folder + "/ca.pem", folder + "/identity.pem", folder + "/identity.pem"},
      thread_("tls-files", [this, interval] {
        Look();
        return interval;
      }) {}

absl::StatusOr<std::unique_ptr<TlsWatcher>> TlsWatcher::Start(FileSystem& fs, Clock& clock,
                                                              const TlsFiles& source,
                                                              const std::string& folder,
                                                              absl::Duration interval) {
  // What an earlier life copied, and left half-written.
  MUSTER_RETURN_IF_ERROR(fs.RemoveTree(folder));
  MUSTER_RETURN_IF_ERROR(fs.MakeDirectories(folder));
  std::unique_ptr<TlsWatcher> watcher(new TlsWatcher(fs, clock, source, folder, interval));
  MUSTER_RETURN_IF_ERROR(watcher->Refresh());
  watcher->thread_.Start(interval);
  return watcher;
}

absl::Status TlsWatcher::Refresh() {
  MUSTER_RETURN_IF_ERROR(CheckTlsFiles(source_, clock_.Now()));
  MUSTER_ASSIGN_OR_RETURN(const std::string authorities, fs_.ReadFile(source_.ca, kMaxPemBytes));
  MUSTER_ASSIGN_OR_RETURN(const std::string key, ReadPrivateKey(fs_, source_.key));
  MUSTER_ASSIGN_OR_RETURN(const std::string cert, fs_.ReadFile(source_.cert, kMaxPemBytes));
  std::string contents = absl::StrCat(key, "\n", cert, "\n", authorities);
  if (contents == contents_) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificateFacts(cert));
  // They may have changed since they were checked: what is taken over is checked once more.
  const TlsFiles next{Next(files_.ca), Next(files_.cert), Next(files_.key)};
  MUSTER_RETURN_IF_ERROR(Put(next.ca, authorities));
  MUSTER_RETURN_IF_ERROR(Put(next.cert, absl::StrCat(key, "\n", cert)));
  MUSTER_RETURN_IF_ERROR(CheckTlsFiles(next, clock_.Now()));
  MUSTER_RETURN_IF_ERROR(fs_.Rename(next.ca, files_.ca));
  MUSTER_RETURN_IF_ERROR(fs_.Rename(next.cert, files_.cert));
  contents_ = std::move(contents);
  not_after_seconds_ = absl::ToUnixSeconds(facts.not_after);
  return absl::OkStatus();
}

absl::Status TlsWatcher::Put(const std::string& path, const std::string& text) {
  const absl::Status removed = fs_.RemoveFile(path);
  if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  MUSTER_ASSIGN_OR_RETURN(const auto file, fs_.CreateExclusive(path, kSecretMode));
  MUSTER_RETURN_IF_ERROR(file->Append(text));
  return file->Close();
}

void TlsWatcher::Look() {
  absl::Status status = Refresh();
  // Once, not each time that it is looked at.
  if (!status.ok() && status != said_) {
    Log(LogLevel::kError, "certificate_not_renewed", {{"error", status.ToString()}});
  }
  said_ = std::move(status);
}

}  // namespace muster
