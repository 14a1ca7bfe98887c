#include "worker/agent/join/join_command.h"

#include <string.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/os/host_port.h"
#include "common/protocol/join_token.h"
#include "common/protocol/name_rule.h"
#include "common/rpc/token_file.h"
#include "common/tls/certificate_authority.h"
#include "common/tls/certificate_facts.h"
#include "common/tls/tls_files.h"
#include "worker/agent/agent_config.h"
#include "worker/agent/connection/enroll_client.h"

namespace muster::worker {
namespace {

constexpr uint32_t kOwnMode = 0600;
constexpr uint64_t kMaxFileBytes = 64 << 10;
constexpr size_t kMaxStdinBytes = 1024;
constexpr int kJoinTries = 10;
constexpr absl::Duration kJoinPause = absl::Seconds(2);
// Certificates are valid from an hour before they are made.
constexpr absl::Duration kMostClockError = absl::Minutes(55);

struct JoinFlags {
  std::string address;
  std::string token;
  std::string token_file;
  std::string name;
  std::string data_dir;
  std::string config;
  std::string http_listen = "0.0.0.0:7073";
};

// Others read command lines in /proc, and machines log them.
void Overwrite(int argc, char** argv, const std::string& secret) {
  for (int i = 1; i < argc && !secret.empty(); ++i) {
    if (char* at = ::strstr(argv[i], secret.c_str()); at != nullptr) {
      ::memset(at, 'x', secret.size());
    }
  }
}

absl::StatusOr<JoinTokenText> ReadToken(const JoinFlags& flags) {
  if (!flags.token_file.empty()) {
    MUSTER_ASSIGN_OR_RETURN(const std::string text, ReadTokenFile(flags.token_file));
    return ParseJoinToken(text);
  }
  if (flags.token == "-") {
    std::string text(kMaxStdinBytes, '\0');
    std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
    return ParseJoinToken(text.substr(0, static_cast<size_t>(std::cin.gcount())));
  }
  if (!flags.token.empty()) return ParseJoinToken(flags.token);
  const char* given = ::getenv("MUSTER_JOIN_TOKEN");
  if (given != nullptr) return ParseJoinToken(given);
  return absl::InvalidArgumentError(
      "no join token: set MUSTER_JOIN_TOKEN, or give --token-file FILE, or --token - and the token "
      "on stdin; `muster join-token create` makes one");
}

absl::StatusOr<std::string> AbsoluteOf(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  if (error) return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.message()));
  return absolute.lexically_normal().string();
}

class Join {
 public:
  Join(FileSystem& fs, Clock& clock, JoinFlags flags, JoinTokenText token)
      : fs_(fs), clock_(clock), flags_(std::move(flags)), token_(std::move(token)) {}

  absl::StatusOr<std::string> Run() {
    MUSTER_ASSIGN_OR_RETURN(const HostPort address, ParseHostPort(flags_.address));
    MUSTER_RETURN_IF_ERROR(fs_.MakeDirectories(Tls("")));
    MUSTER_ASSIGN_OR_RETURN(const std::string key, LoadOrMakeKey());
    MUSTER_ASSIGN_OR_RETURN(const std::string authority, KnownAuthority());
    // Beside the one in use, which may be that of a cluster that this machine leaves.
    const std::string next_ca = Tls("ca.pem.next");
    MUSTER_RETURN_IF_ERROR(WriteFileAtomically(fs_, next_ca, authority));
    MUSTER_ASSIGN_OR_RETURN(const std::string request, MakeSigningRequest(key));
    MUSTER_ASSIGN_OR_RETURN(const IssuedCertificate issued, Enrolled(next_ca, request));
    MUSTER_RETURN_IF_ERROR(CheckIssued(issued, authority, request));
    MUSTER_RETURN_IF_ERROR(WriteFileAtomically(fs_, Tls("worker.pem"), issued.certificate));
    if (ServesMetrics(issued)) {
      MUSTER_RETURN_IF_ERROR(WriteFileAtomically(fs_, Tls("http.pem"), issued.http_certificate));
      MUSTER_RETURN_IF_ERROR(
          WriteFileAtomically(fs_, ScrapeTokenFile(), issued.scrape_token + "\n", kOwnMode));
    }
    MUSTER_RETURN_IF_ERROR(fs_.Rename(next_ca, Tls("ca.pem")));
    MUSTER_RETURN_IF_ERROR(CheckTlsFiles(
        {.ca = Tls("ca.pem"), .cert = Tls("worker.pem"), .key = Tls("worker.key")}, clock_.Now()));
    std::string text =
        absl::StrCat("Worker ", flags_.name, " has a certificate until ",
                     absl::FormatTime("%Y-%m-%d %H:%M", issued.not_after, absl::UTCTimeZone()),
                     " UTC; its agent renews it\n");
    MUSTER_ASSIGN_OR_RETURN(const std::string written, WriteConfig(address.host, issued));
    absl::StrAppend(&text, written, "\nNext, as the same user:\n  muster-worker --config ",
                    flags_.config,
                    "\nor, for a service, as deploy/systemd has it:\n"
                    "  systemctl edit muster-worker   # ExecStart=, then "
                    "ExecStart=/usr/bin/muster-worker --config ",
                    flags_.config, "\n  systemctl enable --now muster-worker\n");
    return text;
  }

 private:
  // Whether the controller says by what the agent may be scraped from elsewhere.
  static bool ServesMetrics(const IssuedCertificate& issued) {
    return !issued.http_certificate.empty() && !issued.scrape_token.empty();
  }
  std::string ScrapeTokenFile() const { return flags_.data_dir + "/scrape-token"; }
  std::string Tls(const char* name) const { return absl::StrCat(flags_.data_dir, "/tls/", name); }

  absl::StatusOr<std::string> LoadOrMakeKey() {
    const std::string path = Tls("worker.key");
    MUSTER_ASSIGN_OR_RETURN(const bool exists, fs_.Exists(path));
    if (exists) return ReadPrivateKey(fs_, path);
    MUSTER_ASSIGN_OR_RETURN(std::string key, MakePrivateKey());
    MUSTER_RETURN_IF_ERROR(WriteFileAtomically(fs_, path, key, kOwnMode));
    return key;
  }

  // The CA's certificate, once it is known that it is the one which the token names.
  absl::StatusOr<std::string> KnownAuthority() {
    absl::StatusOr<AuthorityWord> word =
        Repeated<AuthorityWord>([&] { return AskAuthority(flags_.address); });
    if (absl::IsUnavailable(word.status()) || absl::IsDeadlineExceeded(word.status())) {
      return absl::UnavailableError(absl::StrCat(
          flags_.address,
          ": no controller answers there by TLS: is it musterd's address for "
          "people (--listen, port 7070), reached from here, and does musterd run with the "
          "musterd.yaml of `musterd init`? (",
          word.status().message(), ")"));
    }
    if (absl::IsUnimplemented(word.status())) {
      return absl::FailedPreconditionError(absl::StrCat(
          flags_.address,
          ": nobody can join there: it is not the address for people, or its musterd is older"));
    }
    MUSTER_RETURN_IF_ERROR(word.status());
    const absl::StatusOr<std::string> fingerprint = CertificateFingerprint(word->certificate);
    if (!fingerprint.ok() || *fingerprint != token_.fingerprint) {
      return absl::UnauthenticatedError(absl::StrCat(
          flags_.address,
          ": whoever answers there is not the controller that the join token is of "
          "(the CA's fingerprint differs); the token's secret was not sent. Is it the address of "
          "another cluster, or is somebody on the path?"));
    }
    const absl::Duration error = clock_.Now() - word->controller_time;
    if (absl::AbsDuration(error) > kMostClockError) {
      return absl::FailedPreconditionError(absl::StrCat(
          "this machine's clock is ", HumanDuration(absl::AbsDuration(error)),
          error > absl::ZeroDuration() ? " ahead of" : " behind", " the controller's: here it is ",
          ClockText(clock_.Now()), ", there ", ClockText(word->controller_time),
          ". Certificates would not be valid here; set the clock (NTP), and join again"));
    }
    return word->certificate;
  }

  static std::string ClockText(absl::Time time) {
    return absl::StrCat(absl::FormatTime("%Y-%m-%d %H:%M", time, absl::UTCTimeZone()), " UTC");
  }

  absl::StatusOr<IssuedCertificate> Enrolled(const std::string& ca, const std::string& request) {
    absl::StatusOr<IssuedCertificate> issued = Repeated<IssuedCertificate>(
        [&] { return EnrollBy(flags_.address, ca, token_, flags_.name, request); });
    if (!absl::IsUnavailable(issued.status())) return issued;
    MUSTER_ASSIGN_OR_RETURN(const HostPort address, ParseHostPort(flags_.address));
    return absl::UnavailableError(absl::StrCat(
        flags_.address, ": the controller's certificate is not for `", address.host,
        "`, or the connection broke: join by a name that `musterd init --host` was given, or run "
        "it again with --host ",
        address.host, " (", issued.status().message(), ")"));
  }

  // While the controller restarts, or too many machines join at once.
  template <typename T, typename Call>
  absl::StatusOr<T> Repeated(Call call) {
    absl::StatusOr<T> result = call();
    for (int i = 1; i < kJoinTries; ++i) {
      const bool again = absl::IsResourceExhausted(result.status()) ||
                         (absl::IsUnavailable(result.status()) && i <= 2);
      if (!again) break;
      std::this_thread::sleep_for(absl::ToChronoMilliseconds(kJoinPause));
      result = call();
    }
    return result;
  }

  absl::Status CheckIssued(const IssuedCertificate& issued, const std::string& authority,
                           const std::string& request) const {
    const absl::StatusOr<CertificateFacts> facts = ReadCertificateFacts(issued.certificate);
    MUSTER_ASSIGN_OR_RETURN(const std::string key, KeyOfRequest(request));
    if (facts.ok() && facts->key_sha256 == key && IsSignedBy(issued.certificate, authority)) {
      return absl::OkStatus();
    }
    return absl::InternalError("the controller's answer is no certificate for this machine's key");
  }

  absl::StatusOr<std::string> WriteConfig(const std::string& host,
                                          const IssuedCertificate& issued) {
    const int port = issued.worker_port == 0 ? 7071 : static_cast<int>(issued.worker_port);
    const std::string controller = JoinHostPort({host, port});
    std::vector<std::string> lines = {absl::StrCat("controller: \"", controller, "\""),
                                      absl::StrCat("name: ", flags_.name),
                                      absl::StrCat("data-dir: ", flags_.data_dir),
                                      absl::StrCat("tls-ca: ", Tls("ca.pem")),
                                      absl::StrCat("tls-cert: ", Tls("worker.pem")),
                                      absl::StrCat("tls-key: ", Tls("worker.key")),
                                      "renew-certificate: true"};
    if (ServesMetrics(issued)) {
      // A bracket, as of [::]:7073, would begin a list in YAML.
      const char* quote = flags_.http_listen[0] == '[' ? "\"" : "";
      lines.push_back(absl::StrCat("http-listen: ", quote, flags_.http_listen, quote));
      lines.push_back(absl::StrCat("http-cert: ", Tls("http.pem")));
      lines.push_back(absl::StrCat("scrape-token-file: ", ScrapeTokenFile()));
    }
    MUSTER_ASSIGN_OR_RETURN(const bool exists, fs_.Exists(flags_.config));
    if (exists) {
      MUSTER_ASSIGN_OR_RETURN(const std::string there, fs_.ReadFile(flags_.config, kMaxFileBytes));
      std::string missing;
      for (const std::string& line : lines) {
        if (!absl::StrContains(there, line)) absl::StrAppend(&missing, "  ", line, "\n");
      }
      return missing.empty() ? absl::StrCat(flags_.config, " was there and stays\n")
                             : absl::StrCat(flags_.config,
                                            " was there and stays; these lines of a join are not "
                                            "in it:\n",
                                            missing);
    }
    std::string text = "# A key is a flag of `muster-worker --help` without its dashes.\n";
    for (const std::string& line : lines) absl::StrAppend(&text, line, "\n");
    MUSTER_RETURN_IF_ERROR(WriteFileAtomically(fs_, flags_.config, text));
    return absl::StrCat("Wrote ", flags_.config, "\n");
  }

  FileSystem& fs_;
  Clock& clock_;
  const JoinFlags flags_;
  const JoinTokenText token_;
};

}  // namespace

bool IsJoinCommand(int argc, const char* const* argv) {
  return argc > 1 && absl::string_view(argv[1]) == "join";
}

absl::StatusOr<std::string> RunJoinCommand(int argc, char** argv, FileSystem& fs, Clock& clock) {
  JoinFlags flags;
  CLI::App app{"Makes this machine a worker of a cluster.", "muster-worker"};
  CLI::App* join = app.add_subcommand("join", "Get a certificate by a join token");
  join->add_option("address", flags.address, "musterd's address for people")
      ->type_name("HOST:PORT")
      ->required();
  join->add_option("--token", flags.token,
                   "The join token, or - to read it from stdin; default: MUSTER_JOIN_TOKEN")
      ->type_name("TOKEN");
  join->add_option("--token-file", flags.token_file, "File that holds it, which others cannot read")
      ->type_name("FILE");
  join->add_option("--name", flags.name, "Name of this worker; default: the host's")
      ->type_name("NAME");
  join->add_option("--data-dir", flags.data_dir, "Folder of the agent; made when missing")
      ->type_name("DIR")
      ->required();
  join->add_option("--config", flags.config,
                   "The agent's configuration, written unless it is there; default: worker.yaml in "
                   "the data folder")
      ->type_name("FILE");
  join->add_option(
          "--http-listen", flags.http_listen,
          "Where the agent shall serve its metrics. Port 0: any that is free, for machines "
          "with several workers; /sd tells Prometheus which")
      ->capture_default_str()
      ->type_name("HOST:PORT");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return join->help("muster-worker");
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError(error.what());
  }
  if (flags.token != "-") Overwrite(argc, argv, flags.token);
  MUSTER_ASSIGN_OR_RETURN(JoinTokenText token, ReadToken(flags));
  if (flags.name.empty()) flags.name = DefaultWorkerName();
  if (!IsName(flags.name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--name: `", flags.name,
                     "` must be lower-case letters, digits and inner dashes, at most 63"));
  }
  if (const auto listen = ParseHostPort(flags.http_listen); !listen.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--http-listen: ", listen.status().message()));
  }
  MUSTER_ASSIGN_OR_RETURN(flags.data_dir, AbsoluteOf(flags.data_dir));
  if (flags.config.empty()) flags.config = flags.data_dir + "/worker.yaml";
  MUSTER_ASSIGN_OR_RETURN(flags.config, AbsoluteOf(flags.config));
  return Join(fs, clock, std::move(flags), std::move(token)).Run();
}

}  // namespace muster::worker
