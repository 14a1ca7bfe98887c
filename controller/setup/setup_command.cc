#include "controller/setup/setup_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/os/host_name.h"
#include "common/protocol/name_rule.h"
#include "common/protocol/worker_server_name.h"
#include "common/tls/certificate_authority.h"
#include "common/tls/certificate_facts.h"
#include "common/tls/tls_files.h"
#include "controller/controller_token.h"

namespace muster::controller {
namespace {

constexpr char kServerName[] = "musterd";  // the common name; no host
constexpr char kInit[] = "init";
constexpr char kCertify[] = "certify";
constexpr int kDayHours = 24;
// As long as the machines that it vouches for; musterd's own certificate ends with it.
constexpr absl::Duration kAuthorityLifetime = absl::Hours(3650 * kDayHours);
constexpr int kWorkerDays = 365;
constexpr int kMostDays = 3650;
constexpr int kMostNames = 1000;  // of one certificate
constexpr uint32_t kSecretMode = 0600;
constexpr uint64_t kMaxPemBytes = 64 << 10;

struct SetupFlags {
  std::string data_dir;
  std::vector<std::string> hosts;
  std::vector<std::string> workers;
  std::string out;
  int days = kWorkerDays;
};

absl::StatusOr<std::string> AbsolutePath(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  if (error) return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.message()));
  return absolute.lexically_normal().string();
}

class Setup {
 public:
  Setup(FileSystem& fs, std::string data_dir, absl::Time now)
      : fs_(fs), data_dir_(std::move(data_dir)), now_(now) {}

  absl::StatusOr<std::string> Init(std::vector<std::string> hosts) {
    MUSTER_RETURN_IF_ERROR(fs_.MakeDirectories(Tls("")));
    MUSTER_RETURN_IF_ERROR(LoadOrMakeToken(fs_, data_dir_ + "/token").status());
    MUSTER_RETURN_IF_ERROR(LoadOrMakeToken(fs_, data_dir_ + "/scrape-token").status());
    MUSTER_ASSIGN_OR_RETURN(const bool has_authority, fs_.Exists(Tls("ca.pem")));
    if (!has_authority) MUSTER_RETURN_IF_ERROR(MakeAuthority());
    MUSTER_ASSIGN_OR_RETURN(const CertificateAuthority authority, LoadAuthority());
    // Who reaches musterd under a name that it had goes on reaching it.
    MUSTER_ASSIGN_OR_RETURN(std::vector<std::string> others, FormerHosts());
    for (const char* own : {"localhost", "127.0.0.1", "::1"}) others.push_back(own);
    others.push_back(HostName());
    for (const std::string& other : others) {
      if (!other.empty() && std::find(hosts.begin(), hosts.end(), other) == hosts.end()) {
        hosts.push_back(other);
      }
    }
    const CertificateSubject server{kServerName, hosts, CertificateSubject::Use::kServer};
    MUSTER_RETURN_IF_ERROR(WriteCertificate(authority, server, kAuthorityLifetime,
                                            Tls("server.pem"), Tls("server.key")));
    MUSTER_RETURN_IF_ERROR(WriteConfig());
    MUSTER_ASSIGN_OR_RETURN(const std::string fingerprint,
                            CertificateFingerprint(authority.certificate()));
    return absl::StrCat(
        has_authority ? "The cluster's CA was there and stays" : "Made the cluster's CA", ": ",
        Tls("ca.pem"), "\n  SHA-256 ", fingerprint, "\nmusterd's certificate is for ",
        absl::StrJoin(hosts, ", "),
        "; another init with --host adds more (without tls/server.pem: none but those)\n\nNext:\n"
        "  musterd --config ",
        data_dir_,
        "/musterd.yaml\n"
        "  muster --addr ",
        hosts.front(), ":7070 --ca-file ", Tls("ca.pem"), " --token-file ", data_dir_,
        "/token nodes\n"
        "  muster join-token create   # prints what to run on each worker's machine\n"
        "or, where machines cannot reach the people's port:\n"
        "  musterd certify NAME --data-dir ",
        data_dir_, " --out FOLDER   # for each worker\n");
  }

  absl::StatusOr<std::string> Certify(const std::vector<std::string>& workers,
                                      const std::string& out, absl::Duration lifetime) {
    for (const std::string& worker : workers) {
      if (IsName(worker)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("`", worker,
                       "` is no worker's name: lower-case letters, digits and inner "
                       "dashes, at most 63"));
    }
    MUSTER_ASSIGN_OR_RETURN(const CertificateAuthority authority, LoadAuthority());
    MUSTER_RETURN_IF_ERROR(fs_.MakeDirectories(out));
    MUSTER_RETURN_IF_ERROR(WriteFileAtomically(fs_, out + "/ca.pem", authority.certificate()));
    MUSTER_RETURN_IF_ERROR(WriteCertificate(
        authority, {.name = workers.front(), .hosts = {workers.begin() + 1, workers.end()}},
        lifetime, out + "/worker.pem", out + "/worker.key"));
    MUSTER_RETURN_IF_ERROR(WriteCertificate(
        authority, {kWorkerServerName, {kWorkerServerName}, CertificateSubject::Use::kServer},
        lifetime, out + "/http.pem", out + "/worker.key"));
    return absl::StrCat("Made the certificate of worker ", absl::StrJoin(workers, ", "),
                        ", valid for ", absl::ToInt64Hours(lifetime) / kDayHours, " days, in ", out,
                        "\n\nBring the folder there by a safe way, as with ssh, and start:\n"
                        "  muster-worker --controller HOST:7071 --name ",
                        workers.front(),
                        " --data-dir DIR --tls-ca ca.pem --tls-cert worker.pem --tls-key "
                        "worker.key\n"
                        "To have Prometheus read its metrics: --http-listen 0.0.0.0:7073 "
                        "--http-cert http.pem --scrape-token-file FILE, a copy of "
                        "worker-scrape-token in the controller's data folder\n");
  }

 private:
  std::string Tls(absl::string_view name) const { return absl::StrCat(data_dir_, "/tls/", name); }

  // Of the certificate that musterd has now; none where there is none that can be read.
  absl::StatusOr<std::vector<std::string>> FormerHosts() {
    const absl::StatusOr<std::string> pem = fs_.ReadFile(Tls("server.pem"), kMaxPemBytes);
    if (absl::IsNotFound(pem.status())) return std::vector<std::string>();
    MUSTER_RETURN_IF_ERROR(pem.status());
    absl::StatusOr<CertificateFacts> facts = ReadCertificateFacts(*pem);
    if (!facts.ok()) return std::vector<std::string>();
    std::vector<std::string> hosts = std::move(facts->names);
    std::erase(hosts, kServerName);
    hosts.insert(hosts.end(), facts->addresses.begin(), facts->addresses.end());
    return hosts;
  }

  absl::Status MakeAuthority() {
    MUSTER_ASSIGN_OR_RETURN(const CertificateAuthority made,
                            CertificateAuthority::Make("muster-ca", now_, kAuthorityLifetime));
    // The certificate last: a key that nothing was signed with is replaced.
    MUSTER_RETURN_IF_ERROR(WriteFileAtomically(fs_, Tls("ca.key"), made.key(), kSecretMode));
    return WriteFileAtomically(fs_, Tls("ca.pem"), made.certificate());
  }

  absl::StatusOr<CertificateAuthority> LoadAuthority() {
    absl::StatusOr<std::string> certificate = fs_.ReadFile(Tls("ca.pem"), kMaxPemBytes);
    if (absl::IsNotFound(certificate.status())) {
      return absl::FailedPreconditionError(absl::StrCat(
          Tls("ca.pem"), ": there is no CA yet; run `musterd init --data-dir ", data_dir_, "`"));
    }
    MUSTER_RETURN_IF_ERROR(certificate.status());
    MUSTER_RETURN_IF_ERROR(CheckTlsFiles({.ca = Tls("ca.pem")}, now_));
    MUSTER_ASSIGN_OR_RETURN(const std::string key, ReadPrivateKey(fs_, Tls("ca.key")));
    auto authority = CertificateAuthority::Load(*certificate, key);
    if (authority.ok()) return authority;
    return absl::InvalidArgumentError(
        absl::StrCat(Tls("ca.pem"), ", ", Tls("ca.key"), ": ", authority.status().message()));
  }

  absl::Status WriteCertificate(const CertificateAuthority& authority,
                                const CertificateSubject& subject, absl::Duration lifetime,
                                const std::string& path, const std::string& key_path) {
    // A key that is there stays, so that a certificate which cannot be written leaves a pair.
    const absl::StatusOr<std::string> former = ReadPrivateKey(fs_, key_path);
    if (!former.ok() && !absl::IsNotFound(former.status())) return former.status();
    absl::StatusOr<std::string> request = absl::NotFoundError("no key");
    if (former.ok()) request = MakeSigningRequest(*former);
    if (!request.ok()) {
      MUSTER_ASSIGN_OR_RETURN(const std::string key, MakePrivateKey());
      request = MakeSigningRequest(key);
      MUSTER_RETURN_IF_ERROR(request.status());
      MUSTER_RETURN_IF_ERROR(WriteFileAtomically(fs_, key_path, key, kSecretMode));
    }
    MUSTER_ASSIGN_OR_RETURN(const std::string certificate,
                            authority.Sign(*request, subject, now_, lifetime));
    return WriteFileAtomically(fs_, path, certificate);
  }

  absl::Status WriteConfig() {
    const std::string path = data_dir_ + "/musterd.yaml";
    MUSTER_ASSIGN_OR_RETURN(const bool exists, fs_.Exists(path));
    if (exists) return absl::OkStatus();
    return WriteFileAtomically(
        fs_, path,
        absl::StrCat("# A key is a flag of `musterd --help` without its dashes.\n"
                     "data-dir: ",
                     data_dir_,
                     "\n"
                     "listen: 0.0.0.0:7070         # people: TLS and the token\n"
                     "worker-listen: 0.0.0.0:7071  # workers: certificates of both sides\n"
                     "http-listen: 127.0.0.1:7072  # metrics and the page; TLS and the scrape "
                     "token where it is not loopback\n"
                     "scrape-token-file: ",
                     data_dir_,
                     "/scrape-token\n"
                     "tls-ca: ",
                     Tls("ca.pem"),
                     "\n"
                     "tls-cert: ",
                     Tls("server.pem"),
                     "\n"
                     "tls-key: ",
                     Tls("server.key"), "\n"));
  }

  FileSystem& fs_;
  const std::string data_dir_;
  const absl::Time now_;
};

}  // namespace

bool IsSetupCommand(int argc, const char* const* argv) {
  const absl::string_view first = argc > 1 ? argv[1] : "";
  return first == kInit || first == kCertify;
}

absl::StatusOr<std::string> RunSetupCommand(int argc, const char* const* argv, FileSystem& fs,
                                            absl::Time now) {
  SetupFlags flags;
  CLI::App app{"Sets a controller up.", "musterd"};
  app.require_subcommand(1);
  const auto add = [&](const char* name, const char* help) {
    CLI::App* command = app.add_subcommand(name, help);
    command->add_option("--data-dir", flags.data_dir, "Folder of the controller")
        ->type_name("DIR")
        ->required();
    return command;
  };
  CLI::App* init = add(kInit, "Make a token, a CA, musterd's certificate and a configuration");
  init->add_option("--host", flags.hosts,
                   "A host name or IP address under which musterd is reached; may be repeated. "
                   "This machine's name and loopback are always there")
      ->type_name("HOST");
  CLI::App* certify = add(kCertify, "Make a worker's certificate");
  certify
      ->add_option("name", flags.workers,
                   "Name of the worker, for which alone it can speak; several for workers that "
                   "share a certificate, as those of one set of Kubernetes")
      ->required()
      ->expected(1, kMostNames);
  certify->add_option("--out", flags.out, "Folder for the certificate and its key")
      ->type_name("DIR")
      ->required();
  certify->add_option("--days", flags.days, "How long it is valid")
      ->capture_default_str()
      ->check(CLI::Range(1, kMostDays));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return (*init ? init : *certify ? certify : &app)->help("musterd");
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError(error.what());
  }
  MUSTER_ASSIGN_OR_RETURN(std::string data_dir, AbsolutePath(flags.data_dir));
  Setup setup(fs, std::move(data_dir), now);
  if (*init) return setup.Init(std::move(flags.hosts));
  MUSTER_ASSIGN_OR_RETURN(const std::string out, AbsolutePath(flags.out));
  return setup.Certify(flags.workers, out, absl::Hours(flags.days * kDayHours));
}

}  // namespace muster::controller
