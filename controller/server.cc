#include "controller/server.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/fs/file_system.h"
#include "common/metrics/metric_names.h"
#include "common/os/host_port.h"
#include "common/os/loopback.h"
#include "common/rpc/token_file.h"
#include "controller/autoscale/autoscale_file.h"
#include "controller/autoscale/command_scaler.h"
#include "controller/autoscale/kubernetes_scaler.h"
#include "controller/backup/restore_command.h"
#include "controller/controller_token.h"
#include "controller/model/ledger_rules.h"
#include "controller/model/rank_origin.h"
#include "controller/this_boot.h"
#include "controller/web/page.h"
#include "controller/web/series.h"

namespace muster::controller {
namespace {

constexpr int kPeopleReceiveBytes = 4 << 20;
constexpr int kWorkerReceiveBytes = 16 << 20;
constexpr size_t kPeopleMemoryBytes = 256 << 20;
constexpr size_t kWorkerMemoryBytes = 1 << 30;
// What a bucket of calls holds, in seconds of its rate: a script that starts many things at once.
constexpr double kBurstSeconds = 2;
// Descriptors for everything but gRPC's connections: databases, uploads, logs, the HTTP port (256
// connections), and what threads wait on. Of the others agents may have three quarters, and one
// address half of a port's.
constexpr uint64_t kOwnDescriptors = 512;
// OpenSSL's reasons for what a client has shown or not shown.
constexpr absl::string_view kBadCertificate = "certificate verify failed";
constexpr absl::string_view kNoCertificate = "peer did not return a certificate";
constexpr absl::Duration kStopGrace = absl::Seconds(5);

ConnectionBounds BoundsOf(uint64_t descriptors) {
  const ConnectionBounds bounds{descriptors, descriptors / 2};
  return {descriptors - bounds.leaving(), bounds.of_host};
}

std::string EndpointsPath(const Config& config) { return config.data_dir + "/endpoints.json"; }

}  // namespace

Server::Server(Config config, Clock& clock)
    : config_(std::move(config)), clock_(clock), families_(metric::kControllerDroppedTotal) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const Config& config, Clock& clock, std::function<void(const absl::Status&)> on_fatal) {
  MUSTER_RETURN_IF_ERROR(CheckConfig(config));
  FileSystem& fs = PosixFileSystem();
  MUSTER_RETURN_IF_ERROR(fs.MakeDirectories(config.data_dir));
  std::unique_ptr<Server> server(new Server(config, clock));
  MUSTER_ASSIGN_OR_RETURN(server->lock_, DataDirLock::Take(config.data_dir, "musterd"));
  MUSTER_ASSIGN_OR_RETURN(const bool half_restored,
                          fs.Exists(absl::StrCat(config.data_dir, "/", kRestoringMark)));
  if (half_restored) {
    return absl::FailedPreconditionError(
        absl::StrCat(config.data_dir,
                     ": `musterd restore` did not get to its end here: run it "
                     "again, with the same or another backup"));
  }
  // Any other root may lie on storage that hangs or is away, which holds up no controller: agents
  // alone touch it.
  if (config.own_checkpoint_root) {
    MUSTER_RETURN_IF_ERROR(fs.MakeDirectories(config.checkpoint_root));
  }
  // What an earlier life wrote is wrong from here on.
  const absl::Status removed = fs.RemoveFile(EndpointsPath(config));
  if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  MUSTER_ASSIGN_OR_RETURN(std::string token, LoadOrMakeToken(fs, config.data_dir + "/token"));
  if (!config.tls.empty()) {
    MUSTER_ASSIGN_OR_RETURN(
        server->tls_, TlsWatcher::Start(fs, clock, config.tls, config.data_dir + "/tls-in-use"));
  }
  const RateLimit limit{static_cast<double>(config.calls_per_second),
                        kBurstSeconds * static_cast<double>(config.calls_per_second)};
  std::optional<std::string> worker_token;
  if (config.tls.empty()) worker_token = token;
  server->token_ = token;
  AccessOptions access;
  access.path = config.data_dir + "/access.db";
  access.audit_max_bytes = config.audit_max_bytes;
  access.on_fatal = on_fatal;
  MUSTER_ASSIGN_OR_RETURN(server->access_, AccessControl::Open(std::move(access), token, clock));
  server->gate_ = std::make_unique<CallGate>(std::move(token), server->families_, clock, limit,
                                             StreamPatience(), server->access_.get());
  server->worker_gate_ =
      std::make_unique<CallGate>(std::move(worker_token), server->families_, clock, limit,
                                 StreamPatience(), server->access_.get());
  MUSTER_RETURN_IF_ERROR(server->OpenEnrollment(on_fatal));
  MUSTER_RETURN_IF_ERROR(server->OpenDatabases(std::move(on_fatal)));
  MUSTER_RETURN_IF_ERROR(server->OpenAutoscaler());
  MUSTER_RETURN_IF_ERROR(server->OpenUploads());
  server->OpenBackups();
  MUSTER_RETURN_IF_ERROR(server->OpenPorts());
  MUSTER_RETURN_IF_ERROR(server->WriteEndpoints());
  if (server->autoscaler_ != nullptr) server->autoscaler_->Start();
  server->ready_ = true;
  Log(LogLevel::kInfo, "started",
      {{"version", Version()},
       {"term", server->term()},
       {"grpc", server->grpc_address()},
       {"workers", server->worker_address()},
       {"http", server->http_address()},
       {"max_descriptors", config.max_descriptors}});
  return server;
}

absl::Status Server::OpenDatabases(std::function<void(const absl::Status&)> on_fatal) {
  EngineOptions engine;
  engine.data_dir = config_.data_dir;
  engine.heartbeat_interval = config_.heartbeat_interval;
  engine.suspect_after = config_.suspect_after;
  engine.lost_after = config_.lost_after;
  engine.startup_grace = config_.startup_grace;
  engine.start_timeout = config_.start_timeout;
  engine.forget_lost_after = config_.forget_lost_after == absl::ZeroDuration()
                                 ? absl::InfiniteDuration()
                                 : std::max(config_.forget_lost_after, config_.quarantine_longest);
  engine.forget_gone_after = config_.forget_gone_after == absl::ZeroDuration()
                                 ? absl::InfiniteDuration()
                                 : std::max({config_.forget_gone_after, config_.forget_lost_after,
                                             config_.quarantine_longest});
  engine.archive.recent = config_.recent_jobs;
  if (config_.forget_ended_after > absl::ZeroDuration()) {
    engine.archive.forget_after = config_.forget_ended_after;
  }
  if (config_.max_ended_jobs > 0) engine.archive.most = config_.max_ended_jobs;
  engine.use_half_life = config_.fair_share_half_life;
  engine.elastic.grow_after = config_.grow_after;
  engine.elastic.shrink_after = config_.shrink_after;
  engine.elastic.restart_cost = config_.restart_cost;
  engine.quarantine.incidents = config_.quarantine_after;
  engine.quarantine.window = config_.quarantine_window;
  engine.quarantine.first = config_.quarantine_first;
  engine.quarantine.longest = config_.quarantine_longest;
  engine.accept_lost_history = config_.accept_lost_history;
  engine.boot = ThisBoot();
  engine.on_fatal = on_fatal;
  MUSTER_ASSIGN_OR_RETURN(engine_, Engine::Open(std::move(engine), clock_));
  MetricsIngestOptions ingest;
  ingest.path = config_.data_dir + "/metrics.db";
  ingest.retention = config_.metrics_retention;
  ingest.max_bytes = config_.metrics_max_bytes;
  ingest.job_log_bytes = config_.job_log_max_bytes;
  ingest.job_point_bytes = config_.job_metrics_max_bytes;
  ingest.known = [this](const RankKey& key, const std::string& worker) {
    return WasPlacedOn(*engine_->snapshot(), engine_->history(), key, worker);
  };
  ingest.ends = [this](const std::vector<uint64_t>& jobs) { return EndsOf(jobs); };
  ingest.on_fatal = std::move(on_fatal);
  MUSTER_ASSIGN_OR_RETURN(ingest_, MetricsIngest::Open(std::move(ingest), clock_));
  engine_->Start();
  ingest_->Start();
  return absl::OkStatus();
}

absl::Status Server::OpenAutoscaler() {
  if (config_.autoscale.empty()) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(AutoscaleSettings settings,
                          LoadAutoscale(PosixFileSystem(), config_.autoscale));
  if (settings.pools.empty()) return absl::OkStatus();
  std::vector<Autoscaler::Pool> pools;
  for (ScaledPool& pool : settings.pools) {
    std::unique_ptr<Scaler> scaler;
    if (pool.command.empty()) {
      scaler = std::make_unique<KubernetesScaler>(std::move(pool.target), settings.kubernetes,
                                                  PosixFileSystem());
    } else {
      scaler = std::make_unique<CommandScaler>(pool.scaling.pool, std::move(pool.command),
                                               pool.command_timeout);
    }
    pools.push_back({std::move(pool.scaling), std::move(scaler)});
  }
  autoscaler_ =
      std::make_unique<Autoscaler>(*engine_, clock_, families_, settings.every, std::move(pools));
  return absl::OkStatus();
}

absl::Status Server::OpenUploads() {
  UploadStore::Options options;
  options.folder = config_.data_dir + "/uploads";
  options.max_bytes = config_.uploads_max_bytes;
  options.referred = [this] { return ReferredUploads(); };
  MUSTER_ASSIGN_OR_RETURN(uploads_,
                          UploadStore::Open(std::move(options), PosixFileSystem(), clock_));
  upload_thread_ = std::make_unique<UploadThread>(*uploads_, clock_);
  people_uploads_ =
      std::make_unique<UploadService>(*upload_thread_, *gate_, UploadService::Side::kPeople,
                                      [this](const Caller& caller, const std::string& sha256) {
                                        return MayUseUpload(caller, sha256);
                                      });
  agent_uploads_ = std::make_unique<UploadService>(
      *upload_thread_, *worker_gate_, UploadService::Side::kAgents, nullptr,
      [this](const PeerNames& agent, const std::string& sha256) {
        absl::Status status = CheckWorkerMayFetch(*engine_->snapshot(), agent, sha256);
        if (!status.ok()) {
          const std::string workers = agent.has_value() ? absl::StrJoin(*agent, " or ") : "";
          worker_gate_->RecordRefusedAgent("UploadService/Fetch", absl::StrCat("worker ", workers),
                                           status);
        }
        return status;
      });
  return absl::OkStatus();
}

WorkersToCome Server::NewWorkers() {
  if (autoscaler_ == nullptr) return {};
  return {.could_hold = [this](const JobNeeds& needs) { return autoscaler_->CouldCome(needs); },
          .hints = [this](const JobNeeds& needs) { return autoscaler_->Hints(needs); }};
}

absl::Status Server::OpenEnrollment(std::function<void(const absl::Status&)> on_fatal) {
  EnrollerOptions options;
  options.data_dir = config_.data_dir;
  options.tls = config_.tls;
  options.certificate_lifetime = config_.certificate_lifetime;
  options.on_fatal = std::move(on_fatal);
  MUSTER_ASSIGN_OR_RETURN(enroller_, Enroller::Open(std::move(options), PosixFileSystem(), clock_));
  enroll_thread_ = std::make_unique<EnrollThread>(*enroller_);
  renew_service_ = std::make_unique<RenewService>(*enroll_thread_, *worker_gate_);
  return absl::OkStatus();
}

void Server::OpenBackups() {
  if (config_.backup_dir.empty()) {
    // Of a life that made backups.
    BackupMaker::RemoveStaging(PosixFileSystem(), config_.data_dir);
  } else {
    BackupMaker::Sources sources;
    sources.copy_databases = [this](const std::string& folder) {
      MUSTER_RETURN_IF_ERROR(engine_->CopyDatabases(folder));
      MUSTER_RETURN_IF_ERROR(ingest_->CopyTo(folder + "/metrics.db"));
      MUSTER_RETURN_IF_ERROR(access_->CopyTo(folder + "/access.db"));
      return enroll_thread_->CopyTo(folder + "/enrollment.db");
    };
    sources.term = [this] { return term(); };
    sources.uploads = [this](absl::Duration ended_within) {
      std::vector<std::string> hashes;
      for (const auto& [hash, ago] : ReferredUploads()) {
        if (ago <= ended_within) hashes.push_back(hash);
      }
      return hashes;
    };
    backups_ = std::make_unique<BackupMaker>(BackupMaker::Options{.data_dir = config_.data_dir,
                                                                  .backup_dir = config_.backup_dir,
                                                                  .every = config_.backup_every,
                                                                  .keep = config_.backup_keep,
                                                                  .version = Version()},
                                             std::move(sources), PosixFileSystem(), clock_);
    backups_->Start();
  }
  admin_service_ = std::make_unique<AdminService>(backups_.get(), *engine_, *gate_);
}

void Server::MakeWebPages() {
  WebOptions web{config_.data_dir, config_.series_grace, ServesUnencrypted(config_),
                 /*has_tls=*/!config_.tls.empty()};
  if (backups_ != nullptr) {
    web.backups = [this] {
      BackupTimes times{.every = config_.backup_every};
      if (const auto newest = backups_->newest()) times.newest = newest->manifest.finished;
      return times;
    };
  }
  if (tls_ != nullptr) web.certificate_end = [this] { return tls_->not_after(); };
  // The gRPC ports serve before this is asked.
  web.closed_connections = [this] {
    const auto closed = [](const ConnectionListener& port) {
      return port.refused() + port.displaced();
    };
    return std::map<std::string, uint64_t>{{"people", closed(people_->listener())},
                                           {"workers", closed(workers_->listener())},
                                           {"http", http_displaced_}};
  };
  web_ = std::make_unique<WebPages>(std::move(web), *engine_, *ingest_, families_, clock_);
}

absl::Status Server::OpenPorts() {
  job_service_ = std::make_unique<JobService>(
      *engine_, *ingest_, *gate_, clock_, config_.checkpoint_root,
      [this](const std::string& hash, const Caller* caller) {
        return (caller == nullptr || MayUseUpload(*caller, hash)) && uploads_->Find(hash);
      },
      NewWorkers());
  exec_service_ = std::make_unique<ExecService>(*engine_, *gate_, exec_sessions_);
  page_service_ = std::make_unique<PageService>(*engine_, *ingest_, *gate_);
  access_service_ = std::make_unique<AccessService>(
      *access_, *gate_, absl::BytesToHexString(engine_->snapshot()->controller_id));
  WorkerService::CertificateCheck check_certificate;
  if (tls_ != nullptr) {
    check_certificate = [this](absl::string_view certificate) {
      const absl::Status status = enroller_->CheckCertificate(certificate);
      worker_gate_->RecordRefusedAgent("WorkerService/Control", "the certificate of an agent",
                                       status);
      return status;
    };
    // Others are of who speaks no TLS, or does not trust us.
    handshake_failures_ = std::make_unique<HandshakeFailures>([this](absl::string_view reason) {
      if (reason == kBadCertificate || reason == kNoCertificate) {
        worker_gate_->RecordRefusedAgent("WorkerService/Control", "a TLS handshake",
                                         absl::UnauthenticatedError(absl::StrCat(
                                             "the workers' port took no connection: ", reason)));
      }
    });
  }
  worker_service_ =
      std::make_unique<WorkerService>(*engine_, *ingest_, *worker_gate_, exec_sessions_,
                                      WorkerService::kMaxStreams, check_certificate);
  MakeWebPages();
  const uint64_t connections =
      config_.max_descriptors - std::min(config_.max_descriptors / 2, kOwnDescriptors);
  RpcServerOptions people{"people", config_.listen, kPeopleReceiveBytes, kPeopleMemoryBytes};
  RpcServerOptions workers{"workers", config_.worker_listen, kWorkerReceiveBytes,
                           kWorkerMemoryBytes};
  gate_->OnKnown([open = people.open](const std::string& peer) { open->Know(peer); });
  worker_gate_->OnKnown([open = workers.open](const std::string& peer) { open->Know(peer); });
  people.connections = BoundsOf(connections / 4);
  workers.connections = BoundsOf(connections - connections / 4);
  people.check = [this](absl::string_view path, absl::string_view authorization) {
    // Who joins has no token yet.
    return EnrollService::IsOpen(path) ? absl::OkStatus()
                                       : gate_->CheckPersonHeaders(path, authorization);
  };
  workers.check = [this](absl::string_view, absl::string_view authorization) {
    return worker_gate_->CheckHeaders(authorization);
  };
  if (tls_ != nullptr) {
    people.security = {.tls = tls_->files()};
    workers.security = {.tls = tls_->files(),
                        .of_known_clients = true,
                        .check_certificate = std::move(check_certificate)};
  }
  MUSTER_ASSIGN_OR_RETURN(
      workers_, RpcServer::Start(
                    workers, {worker_service_.get(), agent_uploads_.get(), renew_service_.get()}));
  MUSTER_ASSIGN_OR_RETURN(const HostPort bound, ParseHostPort(workers_->address()));
  EnrollServiceOptions enroll;
  enroll.worker_port = static_cast<uint32_t>(bound.port);
  enroll.close_streams = [this](const std::string& name) { worker_service_->CloseOf(name); };
  if (!config_.tls.empty()) {
    MUSTER_ASSIGN_OR_RETURN(
        enroll.worker_scrape_token,
        LoadOrMakeToken(PosixFileSystem(), config_.data_dir + "/worker-scrape-token"));
  }
  enroll_service_ =
      std::make_unique<EnrollService>(*enroll_thread_, *gate_, clock_, std::move(enroll));
  MUSTER_ASSIGN_OR_RETURN(
      people_,
      RpcServer::Start(people, {job_service_.get(), exec_service_.get(), page_service_.get(),
                                people_uploads_.get(), access_service_.get(), enroll_service_.get(),
                                admin_service_.get()}));
  return OpenHttp();
}

absl::Status Server::OpenHttp() {
  JsonGateway::Options gateway;
  MUSTER_ASSIGN_OR_RETURN(const HostPort listen, ParseHostPort(config_.http_listen));
  if (IsLoopback(listen.host)) gateway.open_read_token = token_;
  gateway_ = std::make_unique<JsonGateway>(people_->InProcessChannel(), std::move(gateway));
  HttpServer::Options http;
  http.listen = config_.http_listen;
  http.displaced = &http_displaced_;
  if (GuardsHttp(config_)) {
    http.identity_file = tls_->files().cert;
    MUSTER_ASSIGN_OR_RETURN(http.token,
                            ReadTokenFile(config_.scrape_token_file, TokenReaders::kGroup));
    // The page itself tells nothing: what it shows it asks for with a person's token.
    for (const auto& [path, handler] : PageHandlers()) http.open_paths.insert(path);
  }
  const auto ready = [this] {
    return ready_ ? absl::OkStatus() : absl::UnavailableError("starting or stopping");
  };
  const auto details =
      IsLoopback(listen.host) ? std::nullopt : std::optional<std::string>(http.token);
  MUSTER_ASSIGN_OR_RETURN(http_, HttpServer::Create(http, web_->Handlers(ready, details),
                                                    {{JsonGateway::kFolder, gateway_->Folder()}}));
  return absl::OkStatus();
}

absl::Status Server::WriteEndpoints() {
  const nlohmann::json endpoints = {{"grpc_address", grpc_address()},
                                    {"worker_address", worker_address()},
                                    {"http_address", http_address()},
                                    {"pid", ::getpid()},
                                    {"term", term()},
                                    {"version", Version()}};
  return WriteFileAtomically(PosixFileSystem(), EndpointsPath(config_), endpoints.dump() + "\n");
}

bool Server::MayUseUpload(const Caller& caller, const std::string& sha256) const {
  return uploads_->IsFrom(sha256, caller.principal->user) ||
         ReadsJobOf(*gate_, caller, *engine_->snapshot(), sha256);
}

std::map<std::string, absl::Duration> Server::ReferredUploads() const {
  const std::shared_ptr<const Snapshot> snapshot = engine_->snapshot();
  const absl::Time now = snapshot->LedgerTime(clock_.SinceBoot());
  std::map<std::string, absl::Duration> referred;
  snapshot->jobs.ForEach([&](const Job& job) {
    const std::string& upload = job.settings->upload;
    if (upload.empty()) return;
    const absl::Duration ago = IsTerminal(job.state)
                                   ? std::max(now - FinishedAt(job), absl::Nanoseconds(1))
                                   : absl::ZeroDuration();
    const auto [it, is_new] = referred.try_emplace(upload, ago);
    if (!is_new) it->second = std::min(it->second, ago);
  });
  return referred;
}

std::vector<JobEnd> Server::EndsOf(const std::vector<uint64_t>& jobs) const {
  const std::shared_ptr<const Snapshot> snapshot = engine_->snapshot();
  const absl::Time now = snapshot->LedgerTime(clock_.SinceBoot());
  std::vector<JobEnd> ends(jobs.size());
  std::vector<uint64_t> left;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Job* job = snapshot->FindJob(jobs[i]);
    if (job != nullptr && IsTerminal(job->state)) {
      ends[i] = {JobEnd::State::kEnded, now - FinishedAt(*job)};
    } else if (job == nullptr && snapshot->IsForgottenOrArchived(jobs[i])) {
      left.push_back(jobs[i]);
    }
  }
  if (left.empty()) return ends;
  History& history = engine_->history();
  const auto finished = history.FinishedAmong(left);
  if (!finished.ok()) {  // then nothing of them goes
    Log(LogLevel::kWarning, "history_unreadable", {{"error", finished.status().ToString()}});
    return ends;
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (!std::binary_search(left.begin(), left.end(), jobs[i])) continue;
    if (const auto at = finished->find(jobs[i]); at != finished->end()) {
      ends[i] = {JobEnd::State::kEnded, now - at->second};
    } else if (jobs[i] > history.began_after_job()) {
      ends[i] = {JobEnd::State::kForgotten, absl::ZeroDuration()};
    } else {
      // It may have been in a history.db that is not there any more.
      const absl::Duration ago = now - history.began();
      const bool is_over = ago > config_.metrics_retention;
      ends[i] = {is_over ? JobEnd::State::kForgotten : JobEnd::State::kEnded, ago};
    }
  }
  return ends;
}

Server::~Server() { Stop(); }

void Server::Stop() {
  if (std::exchange(stopped_, true)) return;
  ready_ = false;
  // Streams end first: they would outlast any grace. Then calls under way get their answers from
  // parts that still run.
  if (job_service_ != nullptr) job_service_->Stop();
  if (exec_service_ != nullptr) exec_service_->Stop();
  if (worker_service_ != nullptr) worker_service_->Stop();
  if (backups_ != nullptr) backups_->BeginStop();
  if (people_ != nullptr) people_->Stop(kStopGrace);
  if (workers_ != nullptr) workers_->Stop(kStopGrace);
  if (http_ != nullptr) http_->Stop();
  if (autoscaler_ != nullptr) autoscaler_->Stop();
  if (ingest_ != nullptr) ingest_->Stop();
  if (engine_ != nullptr) engine_->Stop();
  if (access_ != nullptr) access_->Stop();
  if (lock_.has_value()) {
    // Nobody should look for a controller at addresses that are gone. A file left behind is removed
    // by the next start.
    PosixFileSystem().RemoveFile(EndpointsPath(config_)).IgnoreError();
  }
  Log(LogLevel::kInfo, "stopped");
  // Last: its thread may be in a mount whose server is away. A copy that was being made has failed.
  if (backups_ != nullptr) backups_->Stop();
}

}  // namespace muster::controller
