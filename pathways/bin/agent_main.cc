// pathways-agent: the front door beside the client. Wiring only; frontend/ serves jax's clients, client/ speaks to the controller.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "pathways/base/log.h"
#include "pathways/base/process/flags.h"
#include "pathways/base/process/notice.h"
#include "pathways/base/process/open_files.h"
#include "pathways/base/process/stop_signal.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/strand.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/bin/front_door.h"
#include "pathways/bin/metrics_flags.h"
#include "pathways/client/remote_cluster.h"
#include "pathways/identity/credentials.h"
#include "pathways/net/asio/asio_transport.h"
#include "pathways/net/sockets/longest_silence.h"

namespace {

constexpr char kRemedy[] =
    "Arrays that lived there are lost. Start the program again, or in the same process: jax.clear_caches(); "
    "jax.extend.backend.clear_backends(), which connects anew once a controller runs there.";

struct Options {
  pw::client::RemoteCluster::Options cluster;
  pw::identity::CredentialOptions credentials;
  pw::FrontDoorOptions door;
  pw::MetricsFlags metrics;
  int notices = -1;
  int exit_with_parent = 0;  // a process id
};

std::string NetworkName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

void Declare(Options* options, pw::Flags* flags) {
  flags->Add("cluster", &options->cluster.controller, "ADDRESS",
             "the controller: where its clients connect, HOST:PORT or unix:PATH");
  flags->Add("patience", &options->cluster.patience, "DURATION",
             "how long the controller may be out of reach while a session is opened");
  pw::identity::DeclareCredentials(&options->credentials, "a user's", flags);
  pw::DeclareFrontDoor(&options->door, flags);
  pw::DeclareMetrics(&options->metrics, flags);
  flags->Add("notices", &options->notices, "FD",
             "an open file, the program's standard error: gets a line when the connection to the controller is lost");
  flags->Add("exit-with-parent", &options->exit_with_parent, "PID", "stop when this process, which has started this one, ends; 0: no");
}

absl::Status Serve(Options options, pw::StopSignal* stop) {
  if (options.cluster.controller.empty()) {
    return absl::InvalidArgumentError(
        "--cluster must name the address where the controller's clients connect (its --listen-clients)");
  }
  PW_ASSIGN_OR_RETURN(const pw::identity::Credentials credentials,
                      pw::identity::CredentialsFor(options.cluster.controller, options.credentials));
  options.cluster.token = credentials.token;
  // Destroyed in the reverse order: clients, timers, connections, the executor and its remaining tasks, then the state.
  pw::SteadyClock clock;
  std::unique_ptr<pw::client::RemoteCluster> cluster;
  pw::ThreadPool executor("pw-agent", 1);
  pw::Strand strand(&executor);
  pw::net::AsioTransport transport({.longest_silence = pw::net::kLongestSilence, .tls = credentials.tls});
  pw::TimerQueue timers(&clock);
  options.cluster.remedy = kRemedy;
  options.cluster.machine = NetworkName();
  options.cluster.say_refusals = true;
  if (options.notices >= 0 && fcntl(options.notices, F_SETFD, FD_CLOEXEC) != 0) {
    return absl::InvalidArgumentError("--notices must be the number of an open file");
  }
  options.cluster.say = [fd = options.notices](const std::string& line) {
    PW_LOG_WARNING << line;
    if (fd >= 0) pw::PrintNotice(fd, line);
  };
  cluster = std::make_unique<pw::client::RemoteCluster>(options.cluster,
                                                        pw::client::Link::Environment{&transport, &strand, &timers, &clock});
  const auto at_end = absl::MakeCleanup([&cluster] { cluster->EndSessions(); });  // after the door, before the rest
  PW_ASSIGN_OR_RETURN(const auto door, pw::FrontDoor::Open(options.door, cluster.get()));
  PW_ASSIGN_OR_RETURN(const auto metrics,
                      pw::ServeMetrics(options.metrics, nullptr, [&door](auto done) { door->GetMetrics(std::move(done)); }));
  PW_LOG_INFO << "agent: jax programs connect to " << door->address() << "; the controller is at " << options.cluster.controller;
  PW_LOG_INFO << "agent: stopping: " << stop->Wait(options.exit_with_parent);
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  pw::StopSignal stop;
  pw::RaiseOpenFilesLimit();
  signal(SIGPIPE, SIG_IGN);             // the reader of its output may be gone
  setenv("GRPC_VERBOSITY", "NONE", 0);  // gRPC's log lines repeat our errors, less clearly
  Options options;
  pw::Flags flags(
      "pathways-agent",
      "The front door of a cluster, beside its clients: serves jax programs (JAX_PLATFORMS=proxy, or our package), and speaks "
      "to the controller for them.");
  Declare(&options, &flags);
  if (const auto code = flags.ParseMain(argc, argv)) return *code;
  const absl::Status status = Serve(options, &stop);
  if (status.ok()) return 0;
  std::fprintf(stderr, "pathways-agent: %s\n", std::string(status.message()).c_str());
  return 2;  // bad flags, an address in use: nothing was served
}
