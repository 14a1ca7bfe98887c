"""What the boards show: each panel's title, queries and unit, and each board's variables. Plain data; make_boards.py turns
it into Grafana's JSON.

Metrics are those of common/metrics/metric_names.h (a test holds the names), the recording rules of
deploy/prometheus/rules/recording.yml, and two of node_exporter's. `worker` and `pool` on an agent's series come from
musterd's service discovery.
"""
from dataclasses import dataclass, field

RATE = "[$__rate_interval]"


@dataclass(frozen=True)
class Query:
    expr: str
    legend: str


@dataclass(frozen=True)
class Panel:
    title: str
    queries: tuple[Query, ...]
    unit: str = "short"  # Grafana's name of it
    kind: str = "timeseries"  # or stat: the newest values in large letters
    stacked: bool = False
    width: int = 8  # of 24
    description: str = ""
    lowest: float | None = 0  # where the axis begins; None: wherever the data does


@dataclass(frozen=True)
class Variable:
    name: str
    label: str
    query: str
    several: bool = True  # many values at a time, all of them at first


@dataclass(frozen=True)
class Board:
    uid: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    rows: tuple[tuple[str, tuple[Panel, ...]], ...] = field(default=())


def line(title: str, *queries: tuple[str, str], **more: object) -> Panel:
    return Panel(title, tuple(Query(*query) for query in queries), **more)  # type: ignore[arg-type]


def stat(title: str, *queries: tuple[str, str], **more: object) -> Panel:
    return line(title, *queries, kind="stat", **({"width": 4} | more))


POOL = Variable("pool", "Pool", "label_values(muster_slots, pool)")
PROJECT = Variable("project", "Project", "label_values(muster_project_queue_seconds_total, project)")
WORKER = Variable("worker", "Worker", 'label_values(muster_worker_start_time_seconds{pool=~"$pool"}, worker)')
JOB_NAME = Variable("job_name", "Job name", "label_values(muster_job_state, job_name)")
ONE_JOB = Variable("job", "Job", 'label_values(muster_job_state{job_name=~"$job_name"}, job_id)', several=False)
JOBS = Variable("job", "Job", 'label_values(muster_job_state{job_name=~"$job_name"}, job_id)')

W = '{pool=~"$pool",worker=~"$worker"}'  # series of agents
J = '{job_id="$job"}'  # musterd's series of the one job
R = '{job_id="$job",pool=~"$pool",worker=~"$worker"}'  # series of its ranks
JS = '{job_id=~"$job"}'  # of several jobs
P = '{project=~"$project"}'
GPU = "Of GPUs alone, as their driver says."

FLEET = Board("muster-fleet", "Muster: fleet", "Workers, slots and devices.", (POOL, WORKER), (
    ("Now", (
        stat("Workers ready", ('muster_workers{state="ready"}', "ready")),
        stat("Workers lost", ('muster_workers{state="lost"}', "lost")),
        stat("Slots free", ('sum(muster_slots{pool=~"$pool",use="free"})', "free")),
        stat("Slots used", ('sum(muster_slots{pool=~"$pool",use="used"})', "used")),
        stat("Slots unavailable", ('sum(muster_slots{pool=~"$pool",use="unavailable"})', "unavailable"),
             description="Their worker is lost, suspect, draining or in quarantine."),
        stat("Alerts firing", ('count(ALERTS{alertstate="firing"}) or vector(0)', "firing")),
    )),
    ("Slots and workers", (
        line("Slots by use", ('sum by (pool, kind, use) (muster_slots{pool=~"$pool"})', "{{pool}} {{kind}} {{use}}"),
             stacked=True),
        line("Workers by state", ("sum by (state) (muster_workers)", "{{state}}"), stacked=True),
        line("Slots used by worker", (f"sum by (worker, kind) (muster_worker_slots_used{W})", "{{worker}} {{kind}}"),
             (f"sum by (worker, kind) (muster_worker_slots{W})", "{{worker}} {{kind}}, all")),
        line("Session with the controller", (f"max by (worker) (muster_worker_connected{W})", "{{worker}}"),
             description="1 while it is up."),
        line("Workers of scaled pools", ('muster_autoscale_wanted_workers{pool=~"$pool"}', "{{pool}} wanted"),
             description="As musterd --autoscale wants them; a pool without it has no series."),
        line("Scaling fails", (f'rate(muster_autoscale_failures_total{{pool=~"$pool"}}{RATE})', "{{pool}}, failures"),
             ('muster_autoscale_failing{pool=~"$pool"}', "{{pool}}, now"), description="Failures a second, and 1 while it fails."),
        line("Agents that answer Prometheus",
             ('max by (worker) (up{job="muster-workers",pool=~"$pool",worker=~"$worker"})', "{{worker}}"),
             description="1: it does."),
        line("Sessions opened", (f"sum by (worker) (increase(muster_worker_connects_total{W}{RATE}))", "{{worker}}"),
             description="Reconnects: a link or a controller that comes and goes."),
        line("Heartbeats", (f"sum by (worker) (rate(muster_worker_heartbeats_total{W}{RATE}))", "{{worker}}"), unit="cps"),
        line("Term of the controller", (f"max by (worker) (muster_worker_controller_term{W})", "{{worker}}"),
             description="All the same, unless an agent still speaks to an old controller."),
        line("Machines that the cloud takes away",
             (f"max by (worker) (muster_worker_preemption_pending{W})", "{{worker}}, a notice stands"),
             (f"sum by (worker) (increase(muster_worker_preemption_notices_total{W}{RATE}))", "{{worker}}, notices"),
             (f"min by (worker) (muster_worker_preemption_source_up{W})", "{{worker}}, metadata service answers"),
             description="Of agents with a --preemption-source."),
        line("Certificates of workers end in", (f"min by (worker) (muster_worker_certificate_expiry_time_seconds{W}) - time()",
                                                "{{worker}}"), unit="s", lowest=None, description="Of agents with TLS."),
        line("Age of agents", (f"time() - max by (worker) (muster_worker_start_time_seconds{W})", "{{worker}}"), unit="s"),
    )),
    ("Ranks", (
        line("Ranks started", (f"sum by (worker) (increase(muster_worker_ranks_started_total{W}{RATE}))", "{{worker}}")),
        line("Ranks ended, by outcome", (f"sum by (outcome) (increase(muster_worker_ranks_exited_total{W}{RATE}))",
                                         "{{outcome}}")),
        line("Ranks that made steps", (f"count by (worker) (muster_rank_step{W})", "{{worker}}")),
    )),
    ("Machines", (
        line("Memory of the agent",
             (f"max by (worker) (muster_worker_resident_memory_bytes{W})", "{{worker}}"), unit="bytes"),
        line("Memory of the machine", (f"max by (worker) (muster_worker_machine_memory_bytes{W})", "{{worker}}"),
             unit="bytes"),
        line("CPU cores", (f"max by (worker) (muster_worker_cpus{W})", "{{worker}}")),
        line("Spool, share of its room",
             (f"max by (worker) (worker:muster_worker_spool:ratio{W})", "{{worker}}"), unit="percentunit",
             description="What waits on disk for the controller. When it is full, records are lost."),
        line("Spool", (f"max by (worker) (muster_worker_spool_bytes{W})", "{{worker}}"),
             (f"max by (worker) (muster_worker_spool_limit_bytes{W})", "{{worker}}, the most"), unit="bytes"),
        line("Records lost",
             (f"sum by (worker) (increase(muster_worker_spool_dropped_records_total{W}{RATE}))", "{{worker}}, spool full"),
             (f"sum by (worker) (increase(muster_worker_dropped_series_total{W}{RATE}))", "{{worker}}, too many series")),
        line("Free disk", ('instance_mountpoint:node_filesystem_avail:ratio', "{{instance}} {{mountpoint}}"),
             unit="percentunit", width=24, description="From node_exporter on each machine."),
    )),
    ("Devices", (
        line("Slots held", (f"sum by (worker, device) (muster_device_held{W})", "{{worker}} {{device}}"), stacked=True),
        line("Memory of devices",
             (f"max by (worker, slot, device) (muster_device_memory_size_bytes{W})", "{{worker}} {{slot}} {{device}}"),
             unit="bytes"),
        line("Memory in use",
             (f"max by (worker, slot, device) (muster_device_memory_used_bytes{W})", "{{worker}} {{slot}} {{device}}"),
             unit="bytes",
             description=GPU),
        line("Utilization",
             (f"max by (worker, slot, device) (muster_device_utilization_ratio{W})", "{{worker}} {{slot}} {{device}}"),
             unit="percentunit", description=GPU),
        line("Power",
             (f"max by (worker, slot, device) (muster_device_power_watts{W})", "{{worker}} {{slot}} {{device}}"),
             unit="watt", description=GPU),
        line("Temperature",
             (f"max by (worker, slot, device) (muster_device_temperature_celsius{W})", "{{worker}} {{slot}} {{device}}"),
             unit="celsius",
             description=GPU),
    )),
))

JOB = Board("muster-job", "Muster: job", "One job, and its ranks.", (JOB_NAME, ONE_JOB, POOL, WORKER), (
    ("Now", (
        stat("State", (f"muster_job_state{J}", "{{state}}")),
        stat("Done", (f"muster_job_step{J} / muster_job_planned_steps{J}", "steps"), unit="percentunit"),
        stat("Ranks", (f"muster_job_ranks{J}", "ranks")),
        stat("Restarts", (f"muster_job_restarts_total{J}", "restarts")),
        stat("Checkpoints", (f"muster_job_checkpoints_total{J}", "committed")),
        stat("In the queue", (f"muster_job_queue_seconds_total{J}", "waited"), unit="s"),
    )),
    ("Learning", (
        line("Loss", (f"muster_job_loss{J}", "train"), (f"muster_job_evaluation_loss{J}", "{{split}}"), lowest=None),
        line("Accuracy", (f"muster_job_accuracy_ratio{J}", "{{split}}"), unit="percentunit"),
        line("Perplexity", (f"muster_job_perplexity{J}", "{{split}}"), description="Of language models."),
        line("Learning rate", (f"muster_job_learning_rate{J}", "learning rate"), unit="sci"),
        line("Gradient norm", (f"muster_job_gradient_norm{J}", "before clipping")),
        line("What it reports under its own names", (f"muster_job_own_metric{J}", "{{metric}}"), lowest=None,
             description="Of commands that report, mostly."),
        line("Step", (f"muster_job_step{J}", "done")),
        line("Epoch", (f"muster_job_epoch{J}", "epoch")),
        line("Attempts lost, by failure", (f"muster_job_failures_total{J}", "{{failure_class}}"),
             description="A class that never came has no line. preempted: asked to leave, by a person as well."),
    )),
    ("Speed", (
        line("Samples per second", (f"muster_job_samples_per_second{J}", "the whole gang"), unit="short"),
        line("Time of a step", (f"muster_job_step_seconds{J}", "rank 0"), unit="s"),
        line("Parts of a step", (f"muster_job_step_part_seconds{J}", "{{part}}"), unit="s", stacked=True),
        line("Slot-time by what it was good for",
             (f"sum by (label) (muster_job_slot_seconds_total{J})", "{{label}}"), unit="s", stacked=True,
             description="So far. Time is shown once its label is settled: productive with the next checkpoint."),
        line("Work since the newest checkpoint", (f"muster_job_checkpoint_age_ratio{J}", "of its interval"),
             unit="percentunit", description="100 %: the next one is due."),
        line("Memory of the largest rank", (f"muster_job_memory_bytes{J}", "now"),
             (f"muster_job_memory_peak_bytes{J}", "highest"), unit="bytes"),
    )),
    ("Ranks", (
        line("Step by rank", (f"max by (rank, worker) (muster_rank_step{R})", "rank {{rank}}, {{worker}}")),
        line("Samples per second by rank",
             (f"max by (rank, worker) (muster_rank_samples_per_second{R})", "rank {{rank}}, {{worker}}")),
        line("Time of a step by rank",
             (f"max by (rank, worker) (muster_rank_step_seconds{R})", "rank {{rank}}, {{worker}}"), unit="s"),
        line("Parts of a step, the slowest rank", (f"max by (part) (muster_rank_step_part_seconds{R})", "{{part}}"),
             unit="s"),
        line("Threads that make batches", (f"max by (rank, stage) (muster_rank_data_stage_seconds{R})",
                                           "rank {{rank}} {{stage}}"), unit="s"),
        line("Memory by rank", (f"max by (rank) (muster_rank_memory_bytes{R})", "rank {{rank}}"),
             (f"max by (rank) (muster_rank_memory_peak_bytes{R})", "rank {{rank}}, highest"), unit="bytes"),
        line("Estimated memory by rank",
             (f"max by (rank) (muster_rank_memory_estimate_bytes{R})", "rank {{rank}}"), unit="bytes"),
        line("Loss by rank", (f"max by (rank) (muster_rank_loss{R})", "rank {{rank}}"),
             (f"max by (rank, split) (muster_rank_evaluation_loss{R})", "rank {{rank}} {{split}}"), lowest=None),
        line("Gradient norm by rank", (f"max by (rank) (muster_rank_gradient_norm{R})", "rank {{rank}}")),
        line("Learning rate by rank", (f"max by (rank) (muster_rank_learning_rate{R})", "rank {{rank}}"), unit="sci"),
        line("Accuracy by rank",
             (f"max by (rank, split) (muster_rank_accuracy_ratio{R})", "rank {{rank}} {{split}}"), unit="percentunit"),
        line("Perplexity by rank", (f"max by (rank, split) (muster_rank_perplexity{R})", "rank {{rank}} {{split}}"),
             description="Of language models."),
        line("Epoch by rank", (f"max by (rank) (muster_rank_epoch{R})", "rank {{rank}}")),
        line("Log written", (f"sum by (rank) (rate(muster_rank_log_bytes_total{R}{RATE}))", "rank {{rank}}"), unit="Bps"),
        line("fp16: loss scale",
             (f"max by (rank) (muster_rank_loss_scale{R})", "rank {{rank}}"), description="Of fp16 training."),
        line("fp16: steps that overflowed", (f"max by (rank) (muster_rank_skipped_steps{R})", "rank {{rank}}"),
             description="Of fp16 training."),
        line("Energy drawn",
             (f"max by (rank) (muster_rank_energy_joules{R})", "rank {{rank}}"), unit="joule", description=GPU),
    )),
))

RECOVERY = Board("muster-recovery", "Muster: recovery and goodput",
                 "What the slots that jobs held were good for, and what was lost and repeated.",
                 (PROJECT, JOB_NAME, JOBS), (
    ("Now", (
        stat("Goodput", ("muster:muster_goodput:ratio_rate30m", "30 minutes"), unit="percentunit",
             description="Productive slot-time over all that was held."),
        stat("Jobs recovering", ('muster_jobs{state="recovering"}', "recovering")),
        stat("Restarts of jobs", (f"sum(muster_job_restarts_total{JS})", "restarts")),
        stat("Workers lost", ('muster_workers{state="lost"}', "lost")),
        stat("Work lost on leaving", ('muster_save_slot_seconds_total{work="lost"}', "lost"), unit="s",
             description="Slot-time of gangs that were asked to save and leave."),
        stat("Most overdue checkpoint", (f"max(muster_job_checkpoint_age_ratio{JS})", "of its interval"),
             unit="percentunit"),
    )),
    ("Goodput", (
        line("Goodput by project",
             (f"project:muster_goodput:ratio_rate30m{P}", "{{project}}"), unit="percentunit", width=12),
        line("Slots by what they were good for",
             (f"sum by (label) (project_label:muster_project_slot_seconds:rate5m{P})", "{{label}}"), stacked=True,
             width=12, description="Slot-seconds a second, which is slots. Settled time alone."),
        line("Slot-time by label, all so far", (f"sum by (label) (muster_project_slot_seconds_total{P})", "{{label}}"),
             unit="s", stacked=True, width=12),
        line("Slot-time that was not productive, by job",
             (f'sum by (job_id, job_name) (muster_job_slot_seconds_total{{job_id=~"$job",label!="productive"}})',
              "{{job_id}} {{job_name}}"), unit="s", width=12),
    )),
    ("Failures", (
        line("Attempts lost, by failure", (f"sum by (failure_class) (muster_job_failures_total{JS})", "{{failure_class}}"),
             description="Of the jobs that have series: those that run, wait, or ended of late."),
        line("Restarts by job", (f"muster_job_restarts_total{JS}", "{{job_id}} {{job_name}}")),
        line("Jobs that ended", ("sum by (state) (muster_jobs_finished_total)", "{{state}}"), stacked=True,
             description="In this life of the controller."),
        line("Hang and recompute", (f'sum by (label) (muster_project_slot_seconds_total{{project=~"$project",'
                                    'label=~"hang|recompute"})', "{{label}}"), unit="s"),
        line("Start, rendezvous and load", (f'sum by (label) (muster_project_slot_seconds_total{{project=~"$project",'
                                            'label=~"start|rendezvous|load"})', "{{label}}"), unit="s"),
        line("Reports of fenced attempts", ("muster_ingest_stale_reports_total", "refused")),
    )),
    ("Checkpoints and the queue", (
        line("Checkpoints committed", (f"muster_job_checkpoints_total{JS}", "{{job_id}} {{job_name}}")),
        line("Work since the newest checkpoint", (f"muster_job_checkpoint_age_ratio{JS}", "{{job_id}} {{job_name}}"),
             unit="percentunit", description="100 %: the next one is due."),
        line("Save and leave: work at stake and lost", ("muster_save_slot_seconds_total", "{{work}}"), unit="s"),
        line("Time in the queue, by project", (f"muster_project_queue_seconds_total{P}", "{{project}}"), unit="s"),
        line("Time in the queue, by job", (f"muster_job_queue_seconds_total{JS}", "{{job_id}} {{job_name}}"), unit="s"),
        line("Time lost to saves", (f'sum by (label) (muster_project_slot_seconds_total{{project=~"$project",'
                                    'label=~"save_stall|drain|idle"})', "{{label}}"), unit="s"),
    )),
))

CONTROL_PLANE = Board("muster-control-plane", "Muster: control plane", "musterd: the queue, calls, commits, ingest.",
                      (POOL,), (
    ("Now", (
        stat("Controller up", ('up{job="musterd"}', "up")),
        stat("Version", ("muster_controller_info", "{{version}}")),
        stat("Up for", ("time() - muster_controller_start_time_seconds", "up for"), unit="s"),
        stat("Term", ("muster_controller_term", "term")),
        stat("Held", ("muster_controller_held", "held"), description="1: restored from a backup, and waits for a person."),
        stat("Serves without TLS", ("muster_controller_insecure", "insecure"), description="1: beyond loopback."),
        stat("Alerts firing", ('count(ALERTS{alertstate="firing"}) or vector(0)', "firing")),
    )),
    ("Queue", (
        line("Jobs by state", ("sum by (state) (muster_jobs)", "{{state}}"), stacked=True),
        line("The queue beside free slots", ("muster_queue_jobs", "jobs"), ("muster_queue_ranks", "ranks they need"),
             ('sum(muster_slots{pool=~"$pool",use="free"})', "free slots")),
        line("Longest wait", ("muster_queue_oldest_wait_seconds", "waits"),
             ("muster_queue_oldest_fitting_wait_seconds", "though free slots could hold it"), unit="s"),
    )),
    ("Calls", (
        line("Calls", (f"sum by (method) (rate(muster_rpc_requests_total{RATE}))", "{{method}}"), unit="reqps"),
        line("Calls that failed", (f'sum by (method, code) (rate(muster_rpc_requests_total{{code!="OK"}}{RATE}))',
                                   "{{method}} {{code}}"), unit="reqps"),
        line("Time of a call, mean", ("method:muster_rpc_seconds:mean5m", "{{method}}"), unit="s"),
        line("Open streams", ("sum by (method) (muster_rpc_streams)", "{{method}}")),
        line("Connections closed, too many were open", (f"rate(muster_controller_closed_connections_total{RATE})", "{{port}}"),
             unit="cps", description="0 but in a flood of connections."),
        line("Assignments not acknowledged", ("muster_outbox_messages", "waiting")),
        line("Assignments sent", (f"rate(muster_outbox_sent_total{RATE})", "sent"), unit="cps"),
    )),
    ("State", (
        line("Commits", (f"rate(muster_state_commits_total{RATE})", "commits"), unit="cps"),
        line("Time of a commit, mean", ("muster:muster_state_commit_seconds:mean5m", "a commit"), unit="s"),
        line("Events", (f"rate(muster_state_events_total{RATE})", "events"), unit="cps"),
        line("Databases", ("muster_database_bytes", "{{database}}"), unit="bytes"),
        line("Age of the newest backup", ("time() - muster_backup_newest_time_seconds", "age"),
             ("muster_backup_interval_seconds", "how often one is to be made"), unit="s"),
        line("The certificate ends in", ("muster_controller_certificate_expiry_time_seconds - time()", "ends in"), unit="s",
             lowest=None, description="musterd's; with TLS."),
        line("Memory", ("muster_controller_resident_memory_bytes", "resident"), unit="bytes"),
        line("Jobs and values without series", ("muster_jobs_without_series", "jobs: {{state}}"),
             ("muster_job_own_metrics_left_out", "values under own names"),
             ("muster_controller_dropped_series_total", "updates refused"),
             description="More than there are bounds for: 0 in all but the largest clusters."),
    )),
    ("Ingest", (
        line("Metric points taken in", (f"rate(muster_ingest_metric_points_total{RATE})", "points"), unit="cps"),
        line("Logs taken in", (f"rate(muster_ingest_log_bytes_total{RATE})", "logs"), unit="Bps"),
        line("Refused and removed again", (f"increase(muster_ingest_refused_points_total{RATE})", "points refused"),
             (f"increase(muster_ingest_dropped_points_total{RATE})", "points removed"),
             (f"increase(muster_ingest_dropped_log_bytes_total{RATE})", "bytes of logs removed")),
    )),
))

BOARDS: tuple[Board, ...] = (FLEET, JOB, RECOVERY, CONTROL_PLANE)
