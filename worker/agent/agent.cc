#include "worker/agent/agent.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/base/version.h"
#include "common/metrics/metric_names.h"
#include "common/os/host_port.h"
#include "common/os/loopback.h"
#include "common/os/secrets.h"
#include "common/protocol/image_pull.h"
#include "common/rpc/channel.h"
#include "common/rpc/token.h"
#include "common/rpc/token_file.h"
#include "nlohmann/json.hpp"
#include "worker/agent/connection/enroll_client.h"
#include "worker/agent/connection/grpc_control.h"
#include "worker/agent/connection/handshake_errors.h"
#include "worker/agent/device/device_probe.h"
#include "worker/agent/identity/surroundings.h"
#include "worker/agent/telemetry/spool_owner.h"

namespace muster::worker {
namespace {

constexpr absl::Duration kTick = absl::Seconds(1);
// A source of notices that is slower is not waited for before the Hello.
constexpr absl::Duration kFirstNoticePatience = absl::Seconds(1);
// For cancelled streams to be done; gRPC needs no peer for that.
constexpr absl::Duration kStreamPatience = absl::Seconds(5);
// torch's libraries are large, and the disk may be slow.
constexpr absl::Duration kTrainerPatience = absl::Seconds(120);
constexpr char kTooManyCheckpoints[] = "too many checkpoints wait here to be verified or deleted";

// Our own environment for the ranks, but for what names secrets, what each rank gets its own of,
// and what would have a program believe that it is a task of the batch system which runs this
// agent. Muster's own programs are found last.
std::vector<std::string> RankEnvironment() {
  const std::filesystem::path own = BesideThisProgram("muster-worker");
  constexpr absl::string_view kWithheld[] = {"MUSTER_TOKEN",
                                             "MUSTER_JOIN_TOKEN",
                                             "MUSTER_RANK_DIR=",
                                             "MUSTER_LINK_FD=",
                                             "OMP_NUM_THREADS=",
                                             "CUDA_VISIBLE_DEVICES=",
                                             "SLURM_",
                                             "PMI_",
                                             "PMIX_"};
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const bool withheld =
        std::any_of(std::begin(kWithheld), std::end(kWithheld),
                    [&](absl::string_view name) { return absl::StartsWith(*entry, name); });
    if (withheld) continue;
    kept.emplace_back(*entry);
    if (absl::StartsWith(*entry, "PATH=") && own.has_parent_path()) {
      absl::StrAppend(&kept.back(), ":", own.parent_path().string());
    }
  }
  return kept;
}

// Those in PATH that the config allows. FAILED_PRECONDITION: the one that it names is not there.
absl::StatusOr<ContainerRuntimes> FindRuntimes(const AgentConfig& config) {
  const char* path = ::getenv("PATH");
  const auto find = [&](const char* name) -> absl::StatusOr<std::string> {
    if (config.container_runtime != "auto" && config.container_runtime != name) return "";
    absl::StatusOr<std::string> found = FindProgram(name, path == nullptr ? "" : path, "/");
    if (found.ok() || config.container_runtime == "auto") return found.ok() ? *found : "";
    return absl::FailedPreconditionError(
        absl::StrCat("--container-runtime: ", found.status().message()));
  };
  ContainerRuntimes runtimes;
  MUSTER_ASSIGN_OR_RETURN(runtimes.podman, find("podman"));
  MUSTER_ASSIGN_OR_RETURN(runtimes.apptainer, find("apptainer"));
  if (!runtimes.podman.empty() && ::access(config.container_init.c_str(), X_OK) != 0) {
    Log(LogLevel::kWarning, "no_podman", {{"reason", "no " + config.container_init}});
    runtimes.podman.clear();
  }
  return runtimes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Agent>> Agent::Create(const AgentConfig& config, Clock& clock,
                                                     FileSystem& fs) {
  auto agent = std::unique_ptr<Agent>(new Agent(config, clock, fs));
  MUSTER_RETURN_IF_ERROR(agent->Build());
  return agent;
}

Agent::~Agent() {
  // The reverse of Build; ranks that still live are killed.
  trainer_check_.reset();
  notices_.reset();
  execs_.reset();
  checkpoints_.reset();
  roots_.reset();
  data_.reset();
  if (bulk_ != nullptr) bulk_->SessionDown();
  if (session_ != nullptr) session_->Stop();
  if (loop_ != nullptr) loop_->FinishSenders(kStreamPatience);
  supervisor_.reset();
}

std::string Agent::DataPath(absl::string_view name) const {
  return absl::StrCat(config_.data_dir, "/", name);
}

absl::Status Agent::BuildTls() {
  // The token opens everything; no machine needs it that has a certificate of its own.
  if (config_.tls.empty()) {
    if (config_.token_file.empty()) return absl::OkStatus();
    MUSTER_ASSIGN_OR_RETURN(token_, ReadTokenFile(config_.token_file));
    return absl::OkStatus();
  }
  MUSTER_ASSIGN_OR_RETURN(tls_,
                          TlsWatcher::Start(fs_, clock_, config_.tls, DataPath("tls-in-use")));
  if (GuardsHttp(config_)) {
    const TlsFiles http{config_.tls.ca, config_.http_cert,
                        config_.http_key.empty() ? config_.tls.key : config_.http_key};
    MUSTER_ASSIGN_OR_RETURN(http_tls_,
                            TlsWatcher::Start(fs_, clock_, http, DataPath("http-tls-in-use")));
  }
  if (!config_.renew_certificate) return absl::OkStatus();
  renewer_ = std::make_unique<CertificateRenewer>(
      fs_, clock_, config_.tls, config_.http_cert,
      [this](const std::string& request) -> absl::StatusOr<CertificateRenewer::Renewed> {
        MUSTER_ASSIGN_OR_RETURN(IssuedCertificate issued,
                                RenewBy(config_.controller, config_.tls, request));
        return CertificateRenewer::Renewed{std::move(issued.certificate),
                                           std::move(issued.http_certificate)};
      });
  return absl::OkStatus();
}

absl::Status Agent::BuildHttp() {
  HttpServer::Options http;
  http.listen = config_.http_listen;
  if (http_tls_ != nullptr) {
    http.identity_file = http_tls_->files().cert;
    MUSTER_ASSIGN_OR_RETURN(http.token,
                            ReadTokenFile(config_.scrape_token_file, TokenReaders::kGroup));
  }
  auto handlers = DaemonHandlers(
      {&families_}, [] { return absl::OkStatus(); },
      [this]() -> absl::Status {
        if (connected_) return absl::OkStatus();
        return absl::UnavailableError("no session with the controller");
      });
  absl::StatusOr<std::unique_ptr<HttpServer>> server =
      HttpServer::Create(http, std::move(handlers));
  if (!server.ok()) {
    return absl::Status(server.status().code(),
                        absl::StrCat("--http-listen: ", server.status().message(),
                                     "; port 0 takes any that is free, and musterd's /sd tells "
                                     "Prometheus which"));
  }
  http_ = *std::move(server);
  hello_.set_metrics_address(http_->address());
  hello_.set_metrics_by_tls(http_tls_ != nullptr);
  return absl::OkStatus();
}

absl::Status Agent::Build() {
  MUSTER_RETURN_IF_ERROR(fs_.MakeDirectories(config_.data_dir));
  // Absolute and without links: ranks are found again by the folder's name.
  std::error_code error;
  const auto canonical = std::filesystem::canonical(config_.data_dir, error);
  if (error) return absl::UnavailableError(absl::StrCat(config_.data_dir, ": ", error.message()));
  config_.data_dir = canonical.string();
  MUSTER_ASSIGN_OR_RETURN(DataDirLock lock, DataDirLock::Take(config_.data_dir, "muster-worker"));
  lock_ = std::make_unique<DataDirLock>(std::move(lock));
  // One that an earlier version made is open to all. What belongs to another user, or is shared by
  // several, stays as it is.
  struct stat info = {};
  const bool is_own = ::stat(config_.data_dir.c_str(), &info) == 0 && info.st_uid == ::geteuid() &&
                      (info.st_mode & S_ISVTX) == 0;
  if (is_own) ::chmod(config_.data_dir.c_str(), 0700);
  MUSTER_RETURN_IF_ERROR(BuildTls());
  MUSTER_ASSIGN_OR_RETURN(loop_, EventLoop::Create(clock_));
  MUSTER_RETURN_IF_ERROR(BuildHello());
  MUSTER_RETURN_IF_ERROR(BuildHttp());
  energy_ = std::make_unique<EnergyMeter>(
      nvml_.get(), std::vector<v1::Slot>(hello_.slots().begin(), hello_.slots().end()));
  metrics_ = std::make_unique<AgentMetrics>(families_, clock_, nvml_.get(), hello_);
  MUSTER_ASSIGN_OR_RETURN(spool_, Spool::Open(fs_, {.directory = DataPath("spool"),
                                                    .max_bytes = config_.spool_max_bytes}));
  const std::vector<std::string> environment = RankEnvironment();
  uploads_ = std::make_unique<UploadFetcher>(ControllerChannel(), token_);
  supervisor_ = std::make_unique<Supervisor>(
      SupervisorDeps{*loop_, fs_, *spool_, families_, *energy_, *this,
                     [this](const std::string& sha256, const std::stop_token& stop,
                            const std::function<void()>& on_piece) {
                       return uploads_->Fetch(sha256, stop, on_piece);
                     }},
      SupervisorOptions{.ranks_root = DataPath("ranks"),
                        .trash_root = DataPath("trash"),
                        .work_root = DataPath("work"),
                        .upload_cache = DataPath("uploads"),
                        .sockets_root = config_.data_dir,
                        .cgroup_name = config_.cgroups ? CgroupName(config_) : "",
                        .trainer = config_.trainer,
                        .allow_commands = config_.allow_commands,
                        .containers = {.runtimes = runtimes_,
                                       .site_options = config_.container_options,
                                       .init = config_.container_init,
                                       .tools_root = DataPath("tools"),
                                       .images_root = DataPath("images"),
                                       .agent = CgroupName(config_),
                                       .environment = environment,
                                       .pull_patience = kImagePullPatience,
                                       .path_patience = config_.path_patience,
                                       .file_mask = config_.rank_file_mask},
                        .worker_name = hello_.worker_name(),
                        .advertise_address = hello_.advertise_address(),
                        .slots = {hello_.slots().begin(), hello_.slots().end()},
                        .base_environment = environment,
                        .kill_patience = config_.kill_patience,
                        .path_patience = config_.path_patience,
                        .file_mask = config_.rank_file_mask});
  MUSTER_RETURN_IF_ERROR(supervisor_->ClearLeftovers());
  MUSTER_RETURN_IF_ERROR(BeginLife());
  MUSTER_RETURN_IF_ERROR(WriteEndpoints());

  uint64_t seed = 0;
  for (const char byte : hello_.incarnation()) seed = SplitMix64(seed ^ static_cast<uint8_t>(byte));
  MUSTER_ASSIGN_OR_RETURN(const HostPort controller, ParseHostPort(config_.controller));
  keeper_ = std::make_unique<HeartbeatKeeper>(clock_);
  SessionHandler& handler = *this;
  session_ = std::make_unique<Session>(*loop_, MakeGrpcControl(*loop_, ControllerChannel(), token_),
                                       families_, handler,
                                       SessionOptions{.hello = hello_,
                                                      .near = IsLoopback(controller.host),
                                                      .seed = seed,
                                                      .controller = identity_->controller(),
                                                      .keeper = keeper_.get(),
                                                      .explain = [this](const absl::Status& why) {
                                                        return ExplainHandshake(why, config_.tls);
                                                      }});
  BulkSenderOptions bulk;
  bulk.hello.set_worker_name(hello_.worker_name());
  bulk.hello.set_incarnation(hello_.incarnation());
  bulk.token = token_;
  bulk.seed = seed + 1;
  bulk_ = std::make_unique<BulkSender>(*loop_, ControllerChannel(), *spool_, std::move(bulk));
  execs_ = std::make_unique<RankExecs>(*loop_, *supervisor_, ControllerChannel(), token_,
                                       config_.allow_commands);
  checkpoints_ = std::make_unique<CheckpointExecutor>(
      fs_, *loop_, loop_->mailbox(), CheckpointExecutorOptions{.patience = config_.path_patience},
      [this](CheckpointOutcome outcome) { OnCheckpointOutcome(std::move(outcome)); });
  roots_ = std::make_unique<RootWatcher>(
      fs_, *loop_, loop_->mailbox(),
      RootWatcherOptions{.who = absl::BytesToHexString(hello_.incarnation())},
      [this] { OnRootsChanged(); });
  MUSTER_ASSIGN_OR_RETURN(
      notices_,
      NoticeWatcher::Create(
          {.source = config_.preemption_source,
           .url = config_.preemption_url,
           .has_gpus = std::any_of(hello_.slots().begin(), hello_.slots().end(),
                                   [](const v1::Slot& slot) { return slot.kind() == v1::GPU; }),
           .seed = seed + 2},
          clock_, families_, loop_->mailbox(),
          [this](const NoticeWord& word) { OnNoticeWord(word); }));
  if (!hello_.checks_data()) return absl::OkStatus();
  data_ = std::make_unique<DataChecker>(*loop_, fs_, supervisor_->children(),
                                        DataCheckerOptions{.program = config_.data_tool,
                                                           .folder = DataPath("looks"),
                                                           .environment = environment,
                                                           .file_mask = config_.rank_file_mask},
                                        [this] { OnDataChanged(); });
  return absl::OkStatus();
}

std::shared_ptr<grpc::Channel> Agent::ControllerChannel() const {
  return MakeChannel(
      {.address = config_.controller, .tls = tls_ == nullptr ? TlsFiles{} : tls_->files()});
}

absl::Status Agent::BuildHello() {
  MUSTER_ASSIGN_OR_RETURN(const std::string incarnation, RandomBytes(kIdentityBytes));
  nvml_ = Nvml::Load();
  const std::vector<GpuReading> all = nvml_ == nullptr ? std::vector<GpuReading>() : nvml_->Read();
  const std::vector<GpuReading> gpus = VisibleGpus(all, ::getenv("CUDA_VISIBLE_DEVICES"));
  if (gpus.size() < all.size()) {
    Log(LogLevel::kInfo, "gpus_hidden",
        {{"shown", absl::StrCat(gpus.size())},
         {"there", absl::StrCat(all.size())},
         {"reason", "CUDA_VISIBLE_DEVICES of the agent names no others"}});
  }
  hello_.set_protocol_version(kProtocolVersion);
  hello_.set_worker_name(config_.name);
  hello_.set_incarnation(incarnation);
  hello_.set_version(Version());
  hello_.set_pool(config_.pool);
  for (const auto& [key, value] : config_.labels) (*hello_.mutable_labels())[key] = value;
  hello_.set_allows_commands(config_.allow_commands);
  if (config_.allow_commands) {
    MUSTER_ASSIGN_OR_RETURN(runtimes_, FindRuntimes(config_));
  }
  hello_.set_checks_data(::access(config_.data_tool.c_str(), X_OK) == 0);
  for (const std::string& name : runtimes_.Names()) hello_.add_container_runtimes(name);
  hello_.set_cpus(AvailableCpus());
  hello_.set_memory_bytes(AvailableMemoryBytes());
  for (v1::Slot& slot : MakeSlots(gpus, config_.slots, hello_.cpus(), hello_.memory_bytes())) {
    *hello_.add_slots() = std::move(slot);
  }
  hello_.set_advertise_address(config_.advertise_address);
  if (config_.advertise_address.empty()) {
    MUSTER_ASSIGN_OR_RETURN(const HostPort controller, ParseHostPort(config_.controller));
    MUSTER_ASSIGN_OR_RETURN(const std::string address, AddressTowards(controller.host));
    hello_.set_advertise_address(address);
  }
  return absl::OkStatus();
}

// The folder is locked, and what an earlier agent of it left is dead: now that may be said. Where
// something of it does not die, the controller must wait for that agent's lease.
absl::Status Agent::BeginLife() {
  MUSTER_ASSIGN_OR_RETURN(const std::string fresh, RandomBytes(kIdentityBytes));
  identity_ = IdentityFile::Begin(fs_, config_.data_dir, ReadSurroundings(config_.data_dir),
                                  hello_.incarnation(), fresh);
  hello_.set_identity(identity_->identity());
  if (supervisor_->has_leftovers()) return absl::OkStatus();
  for (const std::string& incarnation : identity_->predecessors()) {
    hello_.add_predecessors(incarnation);
  }
  return absl::OkStatus();
}

absl::Status Agent::WriteEndpoints() {
  const nlohmann::json endpoints = {{"metrics_address", http_->address()},
                                    {"pid", ::getpid()},
                                    {"name", config_.name},
                                    {"version", Version()}};
  const std::string path = DataPath("endpoints.json");
  const absl::Status written = WriteFileAtomically(fs_, path, endpoints.dump(2) + "\n");
  if (!absl::IsResourceExhausted(written)) return written;
  // Nobody needs it as much as what runs here needs an agent. What an earlier one wrote is wrong.
  fs_.RemoveFile(path).IgnoreError();
  Log(LogLevel::kWarning, "endpoints_not_written", {{"error", written.ToString()}});
  return absl::OkStatus();
}

absl::Status Agent::Run() {
  Log(LogLevel::kInfo, "agent_started",
      {{"worker", config_.name},
       {"controller", config_.controller},
       {"metrics", http_->address()},
       {"slots", hello_.slots_size()},
       {"data_dir", config_.data_dir}});
  if (notices_ == nullptr) {
    StartSession();
  } else {
    // An agent that starts anew on a machine that is about to go says so in its first words.
    notices_->Start();
    loop_->After(kFirstNoticePatience, [this] { StartSession(); });
  }
  CheckTrainer();
  Tick();
  loop_->Run();
  if (notices_ != nullptr) notices_->BeginStop();
  session_->Stop();
  bulk_->SessionDown();
  http_->Stop();
  Log(LogLevel::kInfo, "agent_stopped", {{"status", refused_.ToString()}});
  return refused_;
}

// Packages install a launcher that finds torch, and says when it does not. A trainer of a build
// knows its own torch, and is not asked.
void Agent::CheckTrainer() {
  const std::filesystem::path program(config_.trainer);
  const std::filesystem::path behind =
      program.parent_path().parent_path() / "trainer" / program.filename();
  if (::access(behind.c_str(), X_OK) != 0) return;
  auto run = ToolRun::Start(*loop_, fs_, supervisor_->children(),
                            {.program = config_.trainer,
                             .words = {"--version"},
                             .environment = RankEnvironment(),
                             .folder = DataPath("trainer-check"),
                             .patience = kTrainerPatience,
                             .file_mask = config_.rank_file_mask},
                            [this](const ToolResult& result) {
                              if (!result.ok()) WarnOfTrainer(result);
                              trainer_check_.reset();
                            });
  if (run.ok()) {
    trainer_check_ = *std::move(run);
  } else {
    Log(LogLevel::kWarning, "trainer_not_checked", {{"error", run.status().ToString()}});
  }
}

void Agent::WarnOfTrainer(const ToolResult& result) {
  std::string why(absl::StripAsciiWhitespace(result.errors));
  if (result.timed_out) why = absl::StrCat("no answer within ", HumanDuration(kTrainerPatience));
  if (why.empty()) why = absl::StrCat("exit code ", result.exit_code, ", signal ", result.signal);
  Log(LogLevel::kWarning, "trainer_cannot_run",
      {{"trainer", config_.trainer},
       {"error", why},
       {"effect", "jobs of the built-in trainer fail here until that is mended; commands run"}});
}

void Agent::Tick() {
  supervisor_->Tick(session_->ControllerAway());
  metrics_->Refresh(*spool_, supervisor_->BusySlots());
  if (tls_ != nullptr) {
    families_.Set(metric::kWorkerCertificateExpiry,
                  absl::ToDoubleSeconds(tls_->not_after() - absl::UnixEpoch()));
  }
  ApproveOnceEmpty();
  loop_->After(kTick, [this] { Tick(); });
}

// ---- session ----

void Agent::FillHello(v1::Hello& hello) {
  for (v1::RankStatus& status : supervisor_->Statuses()) *hello.add_ranks() = std::move(status);
  hello.set_last_assignment_seq(assignments_.highest());
  hello.set_takes_no_work(stopping_ || unfit_ || machine_leaves_.has_value() ||
                          supervisor_->has_leftovers());
}

void Agent::OnSessionUp(const v1::Welcome& welcome) {
  connected_ = true;
  const std::string owner = ReadSpoolOwner(fs_, DataPath("spool"));
  const std::string& former = owner.empty() ? identity_->controller().id : owner;
  const std::string& now = session_->controller().id;
  if (!former.empty() && !now.empty() && former != now) {
    supervisor_->DropUndelivered("they are of jobs of another controller");
  }
  if (!now.empty()) WriteSpoolOwner(fs_, DataPath("spool"), now);
  identity_->OnWelcome(session_->controller());
  roots_said_ = false;
  data_said_ = data_ == nullptr;
  for (const v1::Welcome::StaleRank& stale : welcome.stale()) supervisor_->KillStale(stale);
  supervisor_->OnSessionUp(welcome.term());
  bulk_->SessionUp();
}

void Agent::OnSessionDown() {
  connected_ = false;
  if (data_ != nullptr) data_->OnSessionDown();
  supervisor_->OnSessionDown();
  bulk_->SessionDown();
  if (stopping_ || machine_leaves_.has_value()) AskToSave();
}

void Agent::OnControllerMessage(const v1::ControllerMessage& message) {
  switch (message.body_case()) {
    case v1::ControllerMessage::kStoreReply:
      return supervisor_->OnStoreReply(message.store_reply());
    case v1::ControllerMessage::kCheckpointAck:
      return supervisor_->OnCheckpointAck(message.checkpoint_ack());
    case v1::ControllerMessage::kStartRanks: {
      const v1::StartRanks& start = message.start_ranks();
      if (!TakeAssignment(start.outbox_seq())) return;
      const absl::Status taken = supervisor_->Start(start, session_->term());
      if (!taken.ok()) Log(LogLevel::kWarning, "assignment_refused", {{"error", taken.ToString()}});
      return Acknowledge(start.outbox_seq(), std::string(taken.message()));
    }
    case v1::ControllerMessage::kStopRanks:
      if (!TakeAssignment(message.stop_ranks().outbox_seq())) return;
      supervisor_->Stop(message.stop_ranks());
      return Acknowledge(message.stop_ranks().outbox_seq(), "");
    case v1::ControllerMessage::kVerifyCheckpoint: {
      const v1::VerifyCheckpoint& verify = message.verify_checkpoint();
      if (!TakeAssignment(verify.outbox_seq()) || checkpoints_->Verify(verify)) return;
      return Acknowledge(verify.outbox_seq(), kTooManyCheckpoints);
    }
    case v1::ControllerMessage::kDeleteCheckpoint: {
      const v1::DeleteCheckpoint& remove = message.delete_checkpoint();
      if (!TakeAssignment(remove.outbox_seq()) || checkpoints_->Delete(remove)) return;
      return Acknowledge(remove.outbox_seq(), kTooManyCheckpoints);
    }
    case v1::ControllerMessage::kWatchRoots:
      return roots_->Watch(message.watch_roots());
    case v1::ControllerMessage::kCheckData:
      if (data_ != nullptr && !stopping_) data_->Check(message.check_data());
      return;
    case v1::ControllerMessage::kStartExec:
      execs_->Start(message.start_exec(), stopping_);
      return;
    default:
      return;  // a newer controller's word that this agent does not know
  }
}

bool Agent::TakeAssignment(uint64_t outbox_seq) {
  if (assignments_.Take(outbox_seq)) return true;
  const auto answer = assignments_.AnswerOf(outbox_seq);
  if (answer.has_value()) Acknowledge(outbox_seq, *answer);
  return false;
}

void Agent::Acknowledge(uint64_t outbox_seq, const std::string& refusal) {
  assignments_.Answer(outbox_seq, refusal);
  v1::WorkerMessage message;
  message.mutable_assignment_ack()->set_outbox_seq(outbox_seq);
  message.mutable_assignment_ack()->set_refusal(refusal);
  session_->SendMessage(std::move(message));
}

void Agent::OnCheckpointOutcome(CheckpointOutcome outcome) {
  // The result first: an acknowledged assignment is not repeated to the next agent.
  if (outcome.refusal.empty()) session_->SendEvent(std::move(outcome.result));
  Acknowledge(outcome.outbox_seq, outcome.refusal);
}

std::optional<v1::RootReport> Agent::Roots() {
  if (std::exchange(roots_said_, true)) return std::nullopt;
  return roots_->Report();
}

void Agent::OnRootsChanged() {
  roots_said_ = false;
  session_->HeartbeatNow();
}

std::optional<v1::DataReport> Agent::Data() {
  if (std::exchange(data_said_, true)) return std::nullopt;
  return data_->Report();
}

void Agent::OnDataChanged() {
  data_said_ = false;
  session_->HeartbeatNow();
}

void Agent::OnRefused(absl::Status status) {
  Log(LogLevel::kError, "controller_refused_agent", {{"error", status.ToString()}});
  refused_ = std::move(status);
  stopping_ = true;
  if (data_ != nullptr) data_->Clear();
  supervisor_->Drain();
  supervisor_->StopAll(
      {v1::StopRanks::KILL, absl::ZeroDuration(), "the controller refused this agent"});
  OnRanksChanged();
}

void Agent::StartSession() {
  if (!std::exchange(session_started_, true)) session_->Start();
}

}  // namespace muster::worker
