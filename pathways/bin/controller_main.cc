// pathways-controller: the one controller of a cluster. Wiring only; controller/ and frontend/ have the substance.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "pathways/base/clock.h"
#include "pathways/base/flags.h"
#include "pathways/base/json_writer.h"
#include "pathways/base/log.h"
#include "pathways/base/machine_memory.h"
#include "pathways/base/open_files.h"
#include "pathways/base/port_file.h"
#include "pathways/base/secret.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/stop_signal.h"
#include "pathways/base/thread_pool.h"
#include "pathways/base/timer_queue.h"
#include "pathways/bin/controller_questions.h"
#include "pathways/controller/cluster_impl.h"
#include "pathways/frontend/server.h"
#include "pathways/gang/scheduler.h"
#include "pathways/net/asio_transport.h"
#include "pathways/session/service.h"

namespace {

struct Options {
  std::string listen_clients = "127.0.0.1:0";
  std::string listen_workers = "127.0.0.1:0";
  std::string listen_bulk;
  std::string listen_sessions;
  std::string port_file;
  std::string dispatch = "parallel";
  std::string shared_directory;
  std::string persistence_directory;
  std::string object_directory;
  std::string translator_python;
  std::string status;
  absl::Duration status_timeout = absl::Seconds(10);
  std::string share;
  int64_t share_client = 0;
  std::string share_weight;
  std::string share_priority;
  std::string suspend;
  std::string resume;
  int64_t suspend_client = 0;
  std::string drain;
  std::string drain_host;
  bool drain_undo = false;
  std::string trace;
  std::string trace_output = "pathways-trace.json";
  absl::Duration trace_duration = absl::Seconds(5);
  absl::Duration coalesce_delay = absl::ZeroDuration();
  int64_t coalesce_bytes = 0;
  int64_t coalesce_messages = 0;
  bool checksum = false;
  bool spill = false;
  absl::Duration gang_window = absl::Milliseconds(10);
  absl::Duration gang_aging = absl::Milliseconds(500);
  bool own_workers = false;
  bool exit_with_parent = false;
  bool version = false;
  pw::controller::ClusterOptions cluster;
};

void Declare(Options* options, pw::Flags* flags) {
  flags->Add("listen-clients", &options->listen_clients, "HOST:PORT", "where jax programs connect; port 0 picks a free one");
  flags->Add("listen-workers", &options->listen_workers, "ADDRESS", "where workers join: HOST:PORT or unix:PATH");
  flags->Add("listen-bulk", &options->listen_bulk, "HOST:PORT",
             "where jax programs on other machines bring and fetch large arrays; default: where they connect, at a free port; "
             "'none': there "
             "is no such place, and large arrays go the slower way of everything else");
  flags->Add("listen-sessions", &options->listen_sessions, "ADDRESS", "where agents (pathways-agent) and other clients of the session protocol connect, HOST:PORT or unix:PATH; default: nowhere");
  flags->Add("expect-hosts", &options->cluster.expect_hosts, "N",
             "wait until so many hosts have joined, then number them by name; further hosts may join later");
  flags->Add("heartbeat-limit", &options->cluster.heartbeat_limit, "DURATION", "a host that is silent for so long is lost");
  options->cluster.limits.staged_bytes = 0;
  flags->Add(
      "staged-limit", &options->cluster.limits.staged_bytes, "BYTES",
      "host buffers of one client that the controller keeps on their way to the devices; 0: half of this machine's memory");
  flags->Add("handle-limit", &options->cluster.limits.handles, "N", "arrays that one client may have at a time");
  flags->Add("virtual-devices", &options->cluster.virtual_devices, "N",
             "devices that each client can have in virtual slices at a time; 0: four times those of the cluster, at least 64");
  flags->Add("checksum", &options->checksum, "have all hosts protect transfers to each other by checksums (CRC-32C)");
  flags->Add(
      "spill", &options->spill,
      "have hosts move arrays that nobody uses at present to host memory when their devices' memory (--memory-limit) is full");
  flags->Add("coalesce-delay", &options->coalesce_delay, "DURATION",
             "how long hosts keep dataflow messages that can wait, to send several as one; 0: 200us");
  flags->Add("coalesce-bytes", &options->coalesce_bytes, "BYTES", "they leave when there are so many bytes of them; 0: 64 KiB");
  flags->Add("coalesce-messages", &options->coalesce_messages, "N", "or so many of them; 0: 1024");
  flags->Add("dispatch", &options->dispatch, "parallel|sequential",
             "how programs of many nodes go to the hosts: all at once, or node by node, for comparison");
  flags->Add("shared-directory", &options->shared_directory, "DIR",
             "a folder in memory through which clients on this machine hand over large arrays; default: none");
  flags->Add("persistence-directory", &options->persistence_directory, "DIR",
             "clients may have arrays and profiles written below this folder and read from it; default: none");
  flags->Add("object-directory", &options->object_directory, "DIR",
             "where what clients write to gs://BUCKET/OBJECT is kept, as DIR/gs/BUCKET/OBJECT; default: nowhere");
  flags->Add("translator-python", &options->translator_python, "PATH",
             "the Python, with this package and jaxlib, that translates programs which are newer than the devices' runtime, for "
             "clients without this package; default: they are refused");
  flags->Add("policy", &options->cluster.gang.policy, "fifo|share|priority",
             "whose computation goes next: first come, device time in proportion to the clients' weights, or their priorities");
  flags->Add("gang-window", &options->gang_window, "DURATION",
             "computations that a device may have been given ahead, by the time that they are predicted to take");
  flags->Add("gang-window-count", &options->cluster.gang.window_gangs, "N", "so many it may have whatever they take");
  flags->Add("gang-aging", &options->gang_aging, "DURATION", "with --policy=priority: waiting so long counts as one priority");
  flags->Add(
      "port-file", &options->port_file, "PATH",
      "written once all addresses are listened on: the clients' address, the workers' address and the process id, a line each");
  flags->Add("own-workers", &options->own_workers, "stop the workers too when this process is stopped");
  flags->Add("exit-with-parent", &options->exit_with_parent, "stop when the process that started this one ends");
  flags->Add("status", &options->status, "ADDRESS",
             "do not serve: print the report of the controller at ADDRESS as JSON (docs/status.md)");
  flags->Add("status-timeout", &options->status_timeout, "DURATION", "how long --status, and --trace after its duration, waits");
  flags->Add("share", &options->share, "HOST:PORT",
             "do not serve: change what a client of the controller whose clients connect there is entitled to");
  flags->Add("share-client", &options->share_client, "ID", "of --share: which client, as --status numbers them");
  flags->Add("share-weight", &options->share_weight, "W", "of --share: device time in proportion to it (--policy=share)");
  flags->Add("share-priority", &options->share_priority, "P", "of --share: the highest goes first (--policy=priority)");
  flags->Add("suspend", &options->suspend, "HOST:PORT",
             "do not serve: have a client of the controller there step aside, its arrays in host memory");
  flags->Add("resume", &options->resume, "HOST:PORT", "do not serve: have it come back");
  flags->Add("suspend-client", &options->suspend_client, "ID", "of --suspend and --resume: which client");
  flags->Add("drain", &options->drain, "HOST:PORT",
             "do not serve: have the controller whose clients connect there move the virtual slices off a host");
  flags->Add("drain-host", &options->drain_host, "NAME", "of --drain: which host");
  flags->Add("drain-undo", &options->drain_undo, "of --drain: the host takes slices again");
  flags->Add("trace", &options->trace, "HOST:PORT",
             "do not serve: have the cluster of the controller whose clients connect there record what it does");
  flags->Add("trace-duration", &options->trace_duration, "DURATION", "how long --trace records");
  flags->Add("trace-output", &options->trace_output, "PATH", "where --trace writes; ui.perfetto.dev opens it");
  flags->Add("version", &options->version, "print the version");
}

absl::StatusOr<pathways::v1::HostConfig> HostConfigFrom(const Options& options) {
  if (options.coalesce_delay < absl::ZeroDuration() || options.coalesce_bytes < 0 || options.coalesce_messages < 0)
    return absl::InvalidArgumentError("--coalesce-delay, --coalesce-bytes and --coalesce-messages must not be negative");
  pathways::v1::HostConfig config;
  config.set_checksum(options.checksum);
  config.set_spill(options.spill);
  config.mutable_coalescing()->set_max_delay_nanoseconds(static_cast<uint64_t>(absl::ToInt64Nanoseconds(options.coalesce_delay)));
  config.mutable_coalescing()->set_max_bytes(static_cast<uint64_t>(options.coalesce_bytes));
  config.mutable_coalescing()->set_max_messages(static_cast<uint64_t>(options.coalesce_messages));
  return config;
}

absl::Status Serve(const Options& options, pw::StopSignal* stop) {
  if (options.cluster.limits.staged_bytes < 0)
    return absl::InvalidArgumentError("--staged-limit is a number of bytes, 0 for half of the memory");
  if (options.cluster.expect_hosts < 1) return absl::InvalidArgumentError("--expect-hosts must be at least 1");
  if (options.dispatch != "parallel" && options.dispatch != "sequential")
    return absl::InvalidArgumentError("--dispatch is parallel or sequential");
  if (options.cluster.heartbeat_limit < absl::Milliseconds(10))
    return absl::InvalidArgumentError("--heartbeat-limit is too short: 10ms at least");
  pw::frontend::ServerOptions server_options;
  server_options.shared_directory = options.shared_directory;
  server_options.persistence_directory = options.persistence_directory;
  server_options.object_directory = options.object_directory;
  if (!options.translator_python.empty()) server_options.translator = pw::frontend::TranslatorCommand(options.translator_python);
  PW_RETURN_IF_ERROR(pw::frontend::ParseListenAddress(options.listen_clients, "--listen-clients", &server_options));
  if (options.listen_bulk != "none")
    server_options.bulk_address = options.listen_bulk.empty() ? absl::StrCat(server_options.host, ":0") : options.listen_bulk;

  // Destroyed in the reverse order: clients, timers, connections, the executor with what it still runs, then the state.
  pw::SteadyClock clock;
  std::shared_ptr<pw::controller::ClusterImpl> cluster;
  pw::ThreadPool executor("pw-controller", 1);
  pw::net::AsioTransport transport;
  pw::TimerQueue timers(&clock);
  pw::controller::ClusterOptions cluster_options = options.cluster;
  if (cluster_options.limits.staged_bytes == 0) cluster_options.limits.staged_bytes = pw::HalfOfMemory();
  cluster_options.gang.window_ns = absl::ToInt64Nanoseconds(options.gang_window);
  cluster_options.gang.aging_ns = absl::ToInt64Nanoseconds(options.gang_aging);
  PW_RETURN_IF_ERROR(pw::gang::Scheduler::Create(cluster_options.gang).status());
  // Not a flag: everybody on the machine can read command lines.
  if (const char* token = std::getenv("PATHWAYS_TOKEN")) cluster_options.join_token = token;
  cluster_options.sequential_dispatch = options.dispatch == "sequential";
  PW_ASSIGN_OR_RETURN(cluster_options.host_config, HostConfigFrom(options));
  cluster = pw::controller::ClusterImpl::Create(cluster_options, {&executor, &timers, &clock});
  PW_ASSIGN_OR_RETURN(const std::string workers, cluster->Listen(&transport, options.listen_workers));
  PW_ASSIGN_OR_RETURN(auto server, pw::frontend::Server::Start(server_options, cluster.get()));
  pw::session::SessionService::Options sessions;
  sessions.make_key = pw::RandomKey;
  const auto service = pw::session::SessionService::Create(std::move(sessions), {cluster.get(), &timers});
  if (!options.listen_sessions.empty()) {
    PW_ASSIGN_OR_RETURN(const std::string address, service->Listen(&transport, options.listen_sessions));
    cluster->ServesSessionsAt(address);
    PW_LOG_INFO << "controller: agents and other clients of the session protocol connect to " << address;
  }
  const std::string clients = absl::StrCat(server_options.host, ":", server->port());
  if (!options.port_file.empty())
    PW_RETURN_IF_ERROR(pw::WritePortFile(options.port_file, absl::StrCat(clients, "\n", workers, "\n", getpid())));
  PW_LOG_INFO << "controller: clients connect to " << clients << ", workers to " << workers << "; waiting for "
              << options.cluster.expect_hosts << (options.cluster.expect_hosts == 1 ? " host" : " hosts");

  const std::string reason = stop->Wait(options.exit_with_parent);
  PW_LOG_INFO << "controller: stopping: " << reason;
  server->Shutdown();
  cluster->Post([&, reason] { service->Stop(absl::UnavailableError(absl::StrCat("the controller ends: ", reason))); });
  std::promise<void> stopped;
  cluster->Stop(absl::StrCat("the controller ends: ", reason), options.own_workers, [&] { stopped.set_value(); });
  stopped.get_future().wait();
  return absl::OkStatus();
}

absl::Status ChangeShare(const Options& options) {
  PW_ASSIGN_OR_RETURN(const pw::gang::ShareChange change,
                      pw::gang::ParseShareChange(options.share_weight, options.share_priority));
  if (change.empty()) return absl::InvalidArgumentError("nothing to change: give --share-weight, --share-priority or both");
  PW_ASSIGN_OR_RETURN(const pw::gang::Share share,
                      pw::SetShare(options.share, options.status_timeout, static_cast<uint64_t>(options.share_client), change));
  pw::JsonWriter json;
  json.BeginObject().Key("client").Int(options.share_client).Key("weight").Number(share.weight);
  std::puts(json.Key("priority").Int(share.priority).EndObject().Take().c_str());
  return absl::OkStatus();
}

int PrintAnswer(const absl::StatusOr<std::string>& report) {
  if (report.ok()) {
    std::puts(report->c_str());
    return 0;
  }
  std::fprintf(stderr, "pathways-controller: %s\n", std::string(report.status().message()).c_str());
  return 1;
}

int Trace(const Options& options) {
  const auto summary = pw::SaveTrace(options.trace, options.trace_duration, options.status_timeout, options.trace_output);
  if (!summary.ok()) {
    std::fprintf(stderr, "pathways-controller: %s\n", std::string(summary.status().message()).c_str());
    return 1;
  }
  pw::JsonWriter json;
  json.BeginObject().Key("path").String(options.trace_output).Key("events").Int(summary->events);
  json.Key("events_not_recorded").Int(summary->events_not_recorded).Key("silent_hosts").BeginArray();
  for (const std::string& host : summary->silent_hosts) json.String(host);
  std::puts(json.EndArray().EndObject().Take().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  pw::StopSignal stop;
  pw::RaiseOpenFilesLimit();
  setenv("GRPC_VERBOSITY", "NONE", 0);  // its complaints repeat, less clearly, what our errors say
  Options options;
  pw::Flags flags("pathways-controller",
                  "Drives the accelerators of a cluster: takes the workers of its hosts, serves jax programs, and sends every "
                  "host what it has to do.");
  Declare(&options, &flags);
  if (const auto code = flags.ParseMain(argc, argv)) return *code;
  if (options.version) {
    std::puts(options.cluster.version.c_str());
    return 0;
  }
  if (!options.status.empty()) return PrintAnswer(pw::AskForStatus(options.status, options.status_timeout));
  const auto client = static_cast<uint64_t>(options.suspend_client);
  if (!options.suspend.empty()) return PrintAnswer(pw::Suspend(options.suspend, options.status_timeout, client, false));
  if (!options.resume.empty()) return PrintAnswer(pw::Suspend(options.resume, options.status_timeout, client, true));
  if (!options.drain.empty())
    return PrintAnswer(pw::Drain(options.drain, options.status_timeout, options.drain_host, options.drain_undo));
  if (!options.trace.empty()) return Trace(options);
  const absl::Status status = options.share.empty() ? Serve(options, &stop) : ChangeShare(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "pathways-controller: %s\n", std::string(status.message()).c_str());
  return 2;  // bad flags, an address in use: nothing was served
}
