// pathways-controller: the one controller of a cluster. Wiring only; controller/ and session/ have the substance.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "pathways/base/json_writer.h"
#include "pathways/base/log.h"
#include "pathways/base/process/flags.h"
#include "pathways/base/process/open_files.h"
#include "pathways/base/process/port_file.h"
#include "pathways/base/process/restarted.h"
#include "pathways/base/process/stop_signal.h"
#include "pathways/base/secret.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/bin/cluster_flags.h"
#include "pathways/bin/controller_questions.h"
#include "pathways/bin/examine_machine.h"
#include "pathways/bin/issuer_flags.h"
#include "pathways/bin/metrics_flags.h"
#include "pathways/bin/page_flags.h"
#include "pathways/bin/profile_files.h"
#include "pathways/controller/cluster/cluster_impl.h"
#include "pathways/identity/cluster_identity.h"
#include "pathways/identity/credentials.h"
#include "pathways/identity/epochs.h"
#include "pathways/identity/token_file.h"
#include "pathways/net/asio/asio_transport.h"
#include "pathways/net/sockets/longest_silence.h"
#include "pathways/session/service.h"
#include "pathways/usage/usage_writer.h"

namespace {

constexpr absl::Duration kLongestGrace = absl::Hours(24 * 7);
constexpr int kReplaced = 3;  // the exit status of a controller that another one has replaced (docs/faults.md)

struct Options {
  pw::ClusterFlags cluster;
  pw::identity::CredentialOptions credentials;  // --tls applies to the served addresses, too
  std::string identity;
  pw::IssuerFlags issuer;
  std::string operator_token_file, worker_token_file, agent_token_file;
  std::string token_create;
  pw::NewToken new_token;
  std::string token_list;
  std::string token_revoke;
  std::string quota;
  pw::NewQuota new_quota;
  std::string token_id;
  pw::MetricsFlags metrics;
  pw::PageFlags page;
  std::string usage_file;
  std::string on_hang = "report";
  absl::Duration client_grace = absl::Minutes(10);
  absl::Duration host_grace = absl::Seconds(10);
  absl::Duration controller_grace = absl::Minutes(1);
  std::string listen_clients = "127.0.0.1:0";
  std::string listen_workers = "127.0.0.1:0";
  std::string port_file;
  std::string status;
  std::string status_at_workers;
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
  std::string profile;
  std::string profile_output = ".";
  absl::Duration profile_duration = absl::Seconds(5);
  int64_t profile_limit = int64_t{256} << 20;
  bool own_workers = false;
  bool restart = false;
  int exit_with_parent = 0;  // a process id
  bool version = false;
};

// The flags of questions to a controller that runs elsewhere.
void DeclareQuestions(Options* options, pw::Flags* flags) {
  flags->Add("status", &options->status, "ADDRESS",
             "do not serve: print the report of the controller whose clients connect to ADDRESS as JSON (docs/status.md)");
  flags->Add("status-at-workers", &options->status_at_workers, "ADDRESS", "the same; ADDRESS is where its workers join");
  flags->Add("status-timeout", &options->status_timeout, "DURATION", "how long --status, and --trace after its duration, waits");
  flags->Add("share", &options->share, "ADDRESS",
             "do not serve: change the share of a client of the controller whose clients connect to ADDRESS");
  flags->Add("share-client", &options->share_client, "ID", "of --share: which client, as --status numbers them");
  flags->Add("share-weight", &options->share_weight, "W", "of --share: device time in proportion to it (--policy=share)");
  flags->Add("share-priority", &options->share_priority, "P", "of --share: the highest goes first (--policy=priority)");
  flags->Add("suspend", &options->suspend, "ADDRESS",
             "do not serve: suspend a client of the controller whose clients connect to ADDRESS; its arrays go to host memory");
  flags->Add("resume", &options->resume, "ADDRESS", "do not serve: resume that client");
  flags->Add("suspend-client", &options->suspend_client, "ID", "of --suspend and --resume: which client");
  flags->Add("drain", &options->drain, "ADDRESS",
             "do not serve: have the controller whose clients connect there move the virtual slices off a host");
  flags->Add("drain-host", &options->drain_host, "NAME", "of --drain: which host");
  flags->Add("drain-undo", &options->drain_undo, "of --drain: the host takes slices again");
  flags->Add("trace", &options->trace, "ADDRESS",
             "do not serve: have the cluster of the controller whose clients connect there record what it does");
  flags->Add("trace-duration", &options->trace_duration, "DURATION", "how long --trace records");
  flags->Add("trace-output", &options->trace_output, "PATH", "where --trace writes; ui.perfetto.dev opens it");
  flags->Add("profile", &options->profile, "ADDRESS",
             "do not serve: have the hosts of the controller whose clients connect there record a profile of all clients");
  flags->Add("profile-duration", &options->profile_duration, "DURATION", "how long --profile records");
  flags->Add("profile-output", &options->profile_output, "DIR",
             "a folder, where --profile writes HOST.xplane.pb for each host and pathways_trace.json; XProf opens it if it is "
             "LOGDIR/plugins/profile/NAME");
  flags->Add("profile-limit", &options->profile_limit, "BYTES",
             "of --profile: a host keeps no more; what does not fit is missing, and the answer says so");
  flags->Add("token-create", &options->token_create, "ADDRESS",
             "do not serve: have the controller whose clients connect there make a token; prints a token file");
  flags->Add("token-user", &options->new_token.user, "NAME", "of --token-create: the user whose token it is");
  flags->Add("token-role", &options->new_token.role, "user|operator|worker", "of --token-create: what its owner may do");
  flags->Add("token-expires", &options->new_token.expires, "DURATION",
             "of --token-create: how long it is valid; 0: until it is revoked");
  flags->Add("token-uses", &options->new_token.uses, "N", "of --token-create: how many hosts may join with it; 0: any number");
  flags->Add("token-list", &options->token_list, "ADDRESS",
             "do not serve: print the tokens of the controller whose clients connect there");
  flags->Add("token-revoke", &options->token_revoke, "ADDRESS",
             "do not serve: have that controller revoke a token, and end its sessions");
  flags->Add("token-id", &options->token_id, "ID", "of --token-revoke: which token");
  flags->Add("quota", &options->quota, "ADDRESS",
             "do not serve: print the limits of the users of the controller whose clients connect there, after changing those of "
             "--quota-user, if named");
  flags->Add("quota-user", &options->new_quota.user, "NAME",
             "of --quota: the user with these limits; *: all users without limits of their own");
  flags->Add("quota-sessions", &options->new_quota.sessions, "N|none", "of --quota: how many sessions at a time");
  flags->Add("quota-device-seconds", &options->new_quota.device_seconds, "S|none", "of --quota: device seconds a day (UTC)");
  flags->Add("quota-weight", &options->new_quota.weight, "W|none", "of --quota: the largest weight of a session");
  flags->Add("quota-priority", &options->new_quota.priority, "P|none", "of --quota: the largest priority of a session");
  flags->Add("quota-devices", &options->new_quota.devices, "N|none", "of --quota: how many devices at a time");
  flags->Add("quota-device-memory", &options->new_quota.device_memory, "BYTES|none", "of --quota: memory of arrays on each device");
  flags->Add("quota-host-memory", &options->new_quota.host_memory, "BYTES|none",
             "of --quota: host memory of arrays on their way from clients, or to them, on each host");
  flags->Add("quota-host-processes", &options->new_quota.host_processes, "N|none", "of --quota: Python processes on each host");
}

void Declare(Options* options, pw::Flags* flags) {
  flags->Add("listen-clients", &options->listen_clients, "ADDRESS",
             "where clients connect: agents (pathways-agent), which serve jax programs, and C++ programs; HOST:PORT or "
             "unix:PATH; port 0 picks a "
             "free one");
  flags->Add("listen-workers", &options->listen_workers, "ADDRESS", "where workers join: HOST:PORT or unix:PATH");
  flags->Add("expect-hosts", &options->cluster.cluster.expect_hosts, "N",
             "wait until so many hosts have joined, then number them by name; further hosts may join later");
  flags->Add(
      "port-file", &options->port_file, "PATH",
      "written once all addresses are listened on: the clients' address, the workers' address and the process id, a line each");
  pw::DeclareCluster(&options->cluster, flags);
  flags->Add("identity", &options->identity, "DIR",
             "a folder of this cluster alone, for its certificate authority, the hashes of its tokens and the number of its last controller: "
             "a controller that is started with the folder of one that runs takes its place, and that one ends. Made with mode 0700 if it is "
             "not there. Needed where an address is not a Unix socket");
  flags->Add("operator-token-file", &options->operator_token_file, "PATH",
             "with --identity: where to keep a token file for this user, as an operator");
  flags->Add("worker-token-file", &options->worker_token_file, "PATH", "the same, for workers that this user starts");
  flags->Add("agent-token-file", &options->agent_token_file, "PATH",
             "the same, for the agent that serves programs without our package");
  pw::DeclareIssuer(&options->issuer, flags);
  pw::identity::DeclareCredentials(&options->credentials, "an operator's (of questions)", flags);
  pw::DeclareMetrics(&options->metrics, flags);
  pw::DeclarePage(&options->page, flags);
  flags->Add("usage-file", &options->usage_file, "PATH",
             "an SQLite file that keeps what each user has used by day (pathways usage); made if it is not there; default: none");
  flags->Add("on-hang", &options->on_hang, "report|end",
             "what follows when a computation hangs (--hang-limit): report: it is reported; end: its client's session ends too, "
             "and the program gets an exception that says where it hangs. A client may ask for that itself");
  flags->Add(
      "client-grace", &options->client_grace, "DURATION",
      "how long a client whose connection is broken may stay away: its session and arrays wait for so long; 0: they end at once");
  flags->Add("host-grace", &options->host_grace, "DURATION",
             "how long a host whose connection is broken may not be heard of: its arrays wait for so long; 0: they are lost with "
             "the connection");
  flags->Add("controller-grace", &options->controller_grace, "DURATION",
             "how long workers keep their programs and arrays after the end of this controller, and wait for another one at its address; 0: "
             "they free them at once");
  flags->Add("restart", &options->restart,
             "start the controller again, at the same addresses, when its process fails: a small process stays and does it. It gives up after "
             "some failures within a minute");
  flags->Add("own-workers", &options->own_workers, "stop the workers too when this process is stopped");
  flags->Add("exit-with-parent", &options->exit_with_parent, "PID", "stop when this process, which has started this one, ends; 0: no");
  DeclareQuestions(options, flags);
  flags->Add("version", &options->version, "print the version");
}

// Returns the cluster's identity, which admits clients and hosts. Null: admits processes of this user on Unix sockets, and, if
// TLS is off, every client.
absl::StatusOr<std::unique_ptr<pw::identity::ClusterIdentity>> OpenIdentity(const Options& options, pw::Clock* clock) {
  const std::string& tls = options.credentials.tls;
  if (tls != "on" && tls != "off") return absl::InvalidArgumentError("--tls must be on or off");
  for (const std::string& address : {options.listen_clients, options.listen_workers}) {
    if (absl::StartsWith(address, "unix:")) continue;
    if (tls == "off") {
      PW_LOG_WARNING << pw::identity::TlsIsOff(address);
    } else if (options.identity.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(address,
                       " is on a network: name a folder for the cluster's certificates and tokens by --identity DIR. "
                       "--tls off lets in whoever reaches the address, without encryption"));
    }
  }
  const bool has_tokens = tls != "off" && !options.identity.empty();
  if (!options.issuer.issuer.url.empty() && !has_tokens)
    return absl::InvalidArgumentError(
        "--oidc-issuer needs --identity, and TLS: without them this cluster asks nobody for a token");
  if (!has_tokens) return nullptr;
  PW_ASSIGN_OR_RETURN(auto identity, pw::identity::ClusterIdentity::Open(options.identity, clock));
  PW_ASSIGN_OR_RETURN(auto issuer, pw::IssuerOf(options.issuer));
  if (issuer.has_value()) identity->Trust(*std::move(issuer));
  return identity;
}

// A token file that the controller keeps for its own user.
struct KeptToken {
  std::string path;
  std::string token;
};

// Reads the tokens in these files, and makes a new one for each file without a valid token.
absl::StatusOr<std::vector<KeptToken>> KeepTokens(const Options& options, pw::identity::ClusterIdentity* identity) {
  using pw::identity::Role;
  std::vector<KeptToken> kept;
  if (identity == nullptr) return kept;
  const std::tuple<const std::string&, const char*, Role> wanted[] = {
      {options.operator_token_file, pw::identity::kOwnUsers[0], Role::kOperator},
      {options.worker_token_file, pw::identity::kOwnUsers[1], Role::kWorker},
      {options.agent_token_file, pw::identity::kOwnUsers[2], Role::kUser}};
  for (const auto& [path, user, role] : wanted) {
    if (path.empty()) continue;
    const absl::StatusOr<pw::identity::TokenFile> known = pw::identity::ReadTokenFile(path);
    if (known.ok() && identity->AdmitClient(pw::net::PeerProof::kStranger, known->token).ok()) {
      kept.push_back({path, known->token});
      continue;
    }
    PW_ASSIGN_OR_RETURN(std::string token, identity->CreateToken({user, role}));
    kept.push_back({path, std::move(token)});
  }
  return kept;
}

// Renews certificates every day.
void RenewDaily(std::function<absl::Status()> renew, pw::Timers* timers, pw::Executor* strand) {
  timers->After(absl::Hours(24), strand, [=] {
    if (const absl::Status status = renew(); !status.ok()) {
      PW_LOG_ERROR << "a certificate was not renewed: " << status.message();
    }
    RenewDaily(renew, timers, strand);
  });
}

// Returns the contents of the page for operators.
pw::PageContents ContentsOfPage(const std::shared_ptr<pw::controller::ClusterImpl>& cluster,
                                pw::identity::ClusterIdentity* identity) {
  pw::PageContents contents;
  contents.sources["status"] = [cluster](const std::string&, auto done) {
    cluster->Post([cluster, done = std::move(done)]() mutable { cluster->GetPageStatus(std::move(done)); });
  };
  contents.sources["gangs"] = [cluster](const std::string& query, auto done) {
    const uint64_t after = pw::http::NumberIn(query, "after", 0);
    cluster->Post([cluster, after, done = std::move(done)]() mutable { std::move(done)(cluster->GetGangs(after)); });
  };
  contents.sources["programs"] = [cluster](const std::string&, auto done) {
    cluster->Post([cluster, done = std::move(done)]() mutable { std::move(done)(cluster->GetPrograms()); });
  };
  if (identity == nullptr) return contents;
  contents.admit = [cluster, identity](const std::string& token, auto done) {
    cluster->Post([identity, token, done = std::move(done)]() mutable {
      const auto caller = identity->AdmitClient(pw::net::PeerProof::kStranger, token);
      std::move(done)(caller.ok() && caller->is_operator());
    });
  };
  return contents;
}

// Makes status reports describe this machine and the controller's certificates. `of_page`: null: the page has none. `examining` runs
// tasks that may wait; it outlives the cluster.
void DescribeItself(const Options& options, const pw::identity::ClusterIdentity* identity, std::shared_ptr<pw::net::Tls> of_page,
                    pw::Executor* examining, pw::controller::ClusterOptions* cluster) {
  const std::string folder_of_usage = options.usage_file.substr(0, options.usage_file.rfind('/') + 1);
  const auto machine = std::make_shared<const pw::MachineExaminer>(
      pw::MachineExaminer::Environment{{folder_of_usage, options.identity}, examining, nullptr});
  cluster->examine_machine = [machine] { return machine->Examine(); };
  cluster->list_certificates = [identity, of_page = std::move(of_page)] {
    std::map<std::string, absl::Time> ends;
    if (identity != nullptr) ends = {{"authority", identity->authority_ends()}, {"controller", identity->tls()->shown_until()}};
    if (of_page != nullptr) ends["page"] = of_page->shown_until();
    return ends;
  };
}

// Tells the sessions of computations that hang.
void TellOfHangs(pw::controller::ClusterImpl* cluster, const std::shared_ptr<pw::session::SessionService>& service) {
  cluster->Post([cluster, weak = std::weak_ptr(service)] {
    cluster->OnHang([cluster, weak](pw::SessionId session, const std::string& text) {
      // Not inside the call of the part that watches the session, which may end.
      cluster->Post([weak, session, text] {
        if (const auto told = weak.lock()) told->OnHang(session, text);
      });
    });
  });
}

absl::Status CheckGrace(const char* flag, absl::Duration grace) {
  if (grace >= absl::ZeroDuration() && grace <= kLongestGrace) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(flag, " must be from 0 to ", absl::FormatDuration(kLongestGrace)));
}

absl::Status Check(const Options& options) {
  if (options.on_hang != "report" && options.on_hang != "end")
    return absl::InvalidArgumentError("--on-hang must be report or end");
  PW_RETURN_IF_ERROR(CheckGrace("--client-grace", options.client_grace));
  PW_RETURN_IF_ERROR(CheckGrace("--host-grace", options.host_grace));
  PW_RETURN_IF_ERROR(CheckGrace("--controller-grace", options.controller_grace));
  return absl::OkStatus();
}

// `cluster`: as completed by Serve.
pw::session::SessionService::Options SessionsOf(const Options& options, const pw::controller::ClusterOptions& cluster) {
  pw::session::SessionService::Options sessions;
  sessions.grace = options.client_grace;
  sessions.make_key = pw::RandomKey;
  sessions.identity = cluster.identity;
  sessions.end_on_hang = options.on_hang == "end";
  sessions.epoch = cluster.epoch;
  sessions.controller_grace = options.controller_grace;
  if (cluster.identity != nullptr) {
    sessions.session_key = [keys = cluster.identity](uint64_t epoch, uint64_t session, const std::string& user) {
      return keys->SessionKey(epoch, session, user);
    };
  }
  return sessions;
}

// Gives this controller its epoch. `replaced` is set, before a signal wakes main, when a later controller has taken its place.
absl::Status Succeed(const std::string& folder, absl::Time now, pw::controller::ClusterOptions* options, absl::Status* replaced) {
  PW_ASSIGN_OR_RETURN(options->epoch, pw::identity::NextEpoch(folder, now));
  if (!folder.empty()) options->last_epoch = [folder] { return pw::identity::ReadEpoch(folder).value_or(0); };
  options->on_replaced = [replaced](const std::string& why) {
    *replaced = absl::AbortedError(why);
    kill(getpid(), SIGTERM);
  };
  return absl::OkStatus();
}

// Where a controller listens. The next one that the same supervisor starts listens there, too.
struct Addresses {
  std::string clients, workers, metrics, page;  // empty: it does not

  std::string ToText() const { return absl::StrJoin({clients, workers, metrics, page}, "\n"); }
  static void Apply(const std::string& text, Options* options) {
    if (text.empty()) return;
    const std::vector<std::string> lines = absl::StrSplit(text, '\n');
    PW_CHECK(lines.size() == 4);
    options->listen_clients = lines[0];
    options->listen_workers = lines[1];
    options->metrics.listen = lines[2];
    options->page.listen = lines[3];
  }
};

// Returns the address as people write it; empty: there is no such server.
std::string AddressOf(const std::unique_ptr<pw::http::Server>& server) {
  return server == nullptr ? "" : std::string(absl::StripPrefix(server->address(), "tcp:"));
}

// Ends the service of clients, and the cluster. Unless an operator or a program wants the cluster to end, sessions that can go on with another controller
// are left to it.
void StopServing(const std::string& reason, bool for_now, bool stop_workers, pw::session::SessionService* service,
                 pw::controller::ClusterImpl* cluster) {
  const absl::Status ended = absl::UnavailableError(absl::StrCat("the controller ends: ", reason));
  std::promise<void> stopped;
  cluster->Post([=] { for_now ? service->Leave(reason) : service->Stop(ended); });
  cluster->Stop(std::string(ended.message()), stop_workers, [&] {
    service->Stop(ended);
    stopped.set_value();
  });
  stopped.get_future().wait();
}

// Carries out what clients have asked for, while it still can.
void FinishRequests(const std::string& reason, pw::session::SessionService* service, pw::controller::ClusterImpl* cluster) {
  std::promise<void> quiet;
  cluster->Post([&] { service->Pause(reason, [&] { quiet.set_value(); }); });
  quiet.get_future().wait();
}

absl::Status Serve(const Options& options, pw::StopSignal* stop, const std::function<void(const std::string&)>& tell) {
  PW_RETURN_IF_ERROR(Check(options));
  PW_ASSIGN_OR_RETURN(pw::controller::ClusterOptions cluster_options, pw::ClusterOptionsFrom(options.cluster));
  pw::WallClock wall_clock;
  std::unique_ptr<pw::usage::UsageWriter> usage;
  pw::ThreadPool disk("pw-usage", 1), examining("pw-disk", 1);
  if (!options.usage_file.empty()) {
    PW_ASSIGN_OR_RETURN(usage, pw::usage::UsageWriter::Open(options.usage_file, &disk, cluster_options.wall_clock));
    PW_ASSIGN_OR_RETURN(cluster_options.used_today, usage->DeviceSecondsToday());
    cluster_options.store_usage = [&usage](std::vector<pw::usage::Entry> entries) { usage->Write(std::move(entries)); };
  }
  PW_ASSIGN_OR_RETURN(const auto identity, OpenIdentity(options, &wall_clock));
  const std::shared_ptr<pw::net::Tls> tls = identity == nullptr ? nullptr : identity->tls();
  cluster_options.identity = identity.get();
  cluster_options.client_grace = options.client_grace;
  cluster_options.host_grace = options.host_grace;
  cluster_options.controller_grace = options.controller_grace;
  cluster_options.restores_sessions = identity != nullptr;
  const std::string folder = identity == nullptr ? "" : options.identity;
  absl::Status replaced;
  PW_RETURN_IF_ERROR(Succeed(folder, wall_clock.Now(), &cluster_options, &replaced));
  // Called before any client connects: from then on the identity belongs to the cluster's strand.
  PW_ASSIGN_OR_RETURN(const std::vector<KeptToken> kept, KeepTokens(options, identity.get()));
  PW_ASSIGN_OR_RETURN(const pw::PageSecurity security, pw::SecurePage(options.page, identity.get()));
  DescribeItself(options, identity.get(), security.tls, &examining, &cluster_options);
  // Destroyed in the reverse order: clients, timers, connections, the executor and its remaining tasks, then the state.
  pw::SteadyClock clock;
  std::shared_ptr<pw::controller::ClusterImpl> cluster;
  pw::ThreadPool executor("pw-controller", 1);
  pw::net::AsioTransport transport({.tls = tls}), to_clients({.longest_silence = pw::net::kLongestSilence, .tls = tls});
  pw::TimerQueue timers(&clock);
  cluster = pw::controller::ClusterImpl::Create(cluster_options, {&executor, &timers, &clock});
  PW_ASSIGN_OR_RETURN(const std::string workers, cluster->Listen(&transport, options.listen_workers));
  const auto service = pw::session::SessionService::Create(SessionsOf(options, cluster_options), {cluster.get(), &timers});
  TellOfHangs(cluster.get(), service);
  PW_ASSIGN_OR_RETURN(const std::string listening, service->Listen(&to_clients, options.listen_clients));
  PW_ASSIGN_OR_RETURN(auto metrics, pw::ServeMetrics(options.metrics, tls, [cluster](auto done) {
                        cluster->Post([cluster, done = std::move(done)]() mutable { cluster->GetMetrics(std::move(done)); });
                      }));
  PW_ASSIGN_OR_RETURN(auto page,
                      pw::ServePage(options.page, ContentsOfPage(cluster, identity.get()), security, &executor, &clock));
  PW_RETURN_IF_ERROR(pw::identity::TakeEpoch(folder, cluster_options.epoch));
  const std::string clients(absl::StripPrefix(listening, "tcp:"));  // as people write it
  for (const auto& [path, token] : kept)
    PW_RETURN_IF_ERROR(pw::identity::WritePrivateFile(path, pw::identity::ToText({clients, tls->authority(), token})));
  if (identity != nullptr) RenewDaily([renewed = identity.get()] { return renewed->Renew(); }, &timers, cluster.get());
  if (security.reload != nullptr) RenewDaily(security.reload, &timers, cluster.get());
  PW_ASSIGN_OR_RETURN(
      const auto issuer_keys,
      pw::IssuerKeyReader::Start(options.issuer, identity == nullptr ? nullptr : identity->issuer(), &timers, cluster.get()));
  if (!options.port_file.empty())
    PW_RETURN_IF_ERROR(pw::WritePortFile(options.port_file, absl::StrCat(clients, "\n", workers, "\n", getpid())));
  if (tell) tell(Addresses{clients, workers, AddressOf(metrics), AddressOf(page)}.ToText());
  PW_LOG_INFO << "controller: clients connect to " << clients << ", workers to " << workers << "; waiting for "
              << cluster_options.expect_hosts << (cluster_options.expect_hosts == 1 ? " host" : " hosts");

  std::string reason = stop->Wait(options.exit_with_parent);
  if (!replaced.ok()) reason = std::string(replaced.message());
  const bool for_now = service->restores() && !options.own_workers && stop->signal() != SIGINT;
  PW_LOG_INFO << "controller: stopping: " << reason << (for_now ? ". Another controller can go on with its sessions" : "");
  metrics.reset();  // sends the cluster no more requests
  page.reset();
  if (for_now && replaced.ok() && stop->signal() == SIGTERM) FinishRequests(reason, service.get(), cluster.get());
  StopServing(reason, for_now, options.own_workers && replaced.ok(), service.get(), cluster.get());
  return replaced;
}

pw::Asked To(const Options& options, const std::string& address) {
  return {address, options.status_timeout, options.credentials};
}

absl::Status ChangeShare(const Options& options) {
  PW_ASSIGN_OR_RETURN(const pw::gang::ShareChange change,
                      pw::gang::ParseShareChange(options.share_weight, options.share_priority));
  if (change.empty()) return absl::InvalidArgumentError("nothing to change: give --share-weight, --share-priority or both");
  PW_ASSIGN_OR_RETURN(const pw::gang::Share share,
                      pw::SetShare(To(options, options.share), static_cast<uint64_t>(options.share_client), change));
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

absl::StatusOr<std::string> Trace(const Options& options) {
  std::ofstream file(options.trace_output, std::ios::binary | std::ios::trunc);
  if (!file) return absl::InvalidArgumentError(absl::StrCat("cannot write to ", options.trace_output));
  PW_ASSIGN_OR_RETURN(const pw::session::ClusterTrace trace, pw::RecordTrace(To(options, options.trace), options.trace_duration));
  file << trace.perfetto_json;
  if (!file.flush()) return absl::ResourceExhaustedError(absl::StrCat("cannot write all of the trace to ", options.trace_output));
  pw::JsonWriter json;
  json.BeginObject().Key("path").String(options.trace_output).Key("events").Int(trace.events);
  json.Key("events_not_recorded").Int(trace.events_not_recorded).Key("silent_hosts").BeginArray();
  for (const std::string& host : trace.silent_hosts) json.String(host);
  return json.EndArray().EndObject().Take();
}

absl::StatusOr<std::string> Profile(const Options& options) {
  if (options.profile_limit <= 0) return absl::InvalidArgumentError("--profile-limit must be more than 0");
  pw::ProfileFiles files(options.profile_output);
  PW_ASSIGN_OR_RETURN(const pw::session::ClusterProfile profile,
                      pw::RecordProfile(To(options, options.profile),
                                        {options.profile_duration, static_cast<uint64_t>(options.profile_limit)}, &files));
  if (!profile.trace.perfetto_json.empty())
    PW_RETURN_IF_ERROR(files.WriteWhole("pathways_trace.json", profile.trace.perfetto_json));
  pw::JsonWriter json;
  json.BeginObject().Key("path").String(options.profile_output).Key("hosts").BeginArray();
  for (size_t h = 0; h < profile.hosts.size(); ++h) {
    const auto& host = profile.hosts[h];
    const auto file = files.written().find(h);
    json.BeginObject().Key("name").String(host.name).Key("bytes").Int(static_cast<int64_t>(host.bytes));
    if (file != files.written().end()) json.Key("file").String(file->second);
    json.Key("missing").String(host.missing).EndObject();
  }
  return json.EndArray().EndObject().Take();
}

// Returns the exit status.
int ServeAndReport(const Options& options, pw::StopSignal* stop, const std::function<void(const std::string&)>& tell) {
  const absl::Status status = Serve(options, stop, tell);
  if (status.ok()) return 0;
  std::fprintf(stderr, "pathways-controller: %s\n", std::string(status.message()).c_str());
  return absl::IsAborted(status) ? kReplaced : 2;  // 2: bad flags, an address in use: nothing was served
}

int ServeRestarted(const Options& options, pw::StopSignal* stop) {
  const pw::Restarts restarts{.name = "the controller", .final = {kReplaced}, .parent = options.exit_with_parent};
  return pw::RunRestarted(restarts, stop, [&, supervisor = getpid()](const std::string& told, const auto& tell) {
    Options again = options;
    Addresses::Apply(told, &again);
    again.exit_with_parent = supervisor;
    return ServeAndReport(again, stop, tell);
  });
}

}  // namespace

int main(int argc, char** argv) {
  pw::StopSignal stop;
  pw::RaiseOpenFilesLimit();
  Options options;
  pw::Flags flags(
      "pathways-controller",
      "Drives the accelerators of a cluster: takes the workers of its hosts, serves the agents of jax programs, and sends every "
      "host what it has to do.");
  Declare(&options, &flags);
  if (const auto code = flags.ParseMain(argc, argv)) return *code;
  if (options.version) {
    std::puts(options.cluster.cluster.version.c_str());
    return 0;
  }
  if (!options.status_at_workers.empty()) return PrintAnswer(pw::AskForStatusAsWorker(To(options, options.status_at_workers)));
  if (!options.status.empty()) return PrintAnswer(pw::AskForStatus(To(options, options.status)));
  const auto client = static_cast<uint64_t>(options.suspend_client);
  if (!options.suspend.empty()) return PrintAnswer(pw::Suspend(To(options, options.suspend), client, false));
  if (!options.resume.empty()) return PrintAnswer(pw::Suspend(To(options, options.resume), client, true));
  if (!options.drain.empty()) return PrintAnswer(pw::Drain(To(options, options.drain), options.drain_host, options.drain_undo));
  if (!options.trace.empty()) return PrintAnswer(Trace(options));
  if (!options.profile.empty()) return PrintAnswer(Profile(options));
  if (!options.token_create.empty()) return PrintAnswer(pw::CreateToken(To(options, options.token_create), options.new_token));
  if (!options.token_list.empty()) return PrintAnswer(pw::ListTokens(To(options, options.token_list)));
  if (!options.token_revoke.empty()) return PrintAnswer(pw::RevokeToken(To(options, options.token_revoke), options.token_id));
  if (!options.quota.empty()) return PrintAnswer(pw::Quotas(To(options, options.quota), options.new_quota));
  if (options.share.empty()) return options.restart ? ServeRestarted(options, &stop) : ServeAndReport(options, &stop, nullptr);
  const absl::Status status = ChangeShare(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "pathways-controller: %s\n", std::string(status.message()).c_str());
  return 2;
}
