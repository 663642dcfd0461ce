// pathways-agent: the front door beside the client. Wiring only; frontend/ serves jax's clients, client/ speaks to the controller.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "pathways/base/clock.h"
#include "pathways/base/flags.h"
#include "pathways/base/log.h"
#include "pathways/base/open_files.h"
#include "pathways/base/port_file.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/stop_signal.h"
#include "pathways/base/strand.h"
#include "pathways/base/thread_pool.h"
#include "pathways/base/timer_queue.h"
#include "pathways/client/remote_cluster.h"
#include "pathways/frontend/server.h"
#include "pathways/net/asio_transport.h"
#include "pathways/relay/callback_bridge.h"
#include "pathways/relay/relay.h"

namespace {

constexpr char kRemedy[] =
    "Arrays that lived there are lost. Start the program again, or in the same process: jax.clear_caches(); "
    "jax.extend.backend.clear_backends(), which connects anew once a controller runs there.";

struct Options {
  pw::client::RemoteCluster::Options cluster;
  std::string listen = "127.0.0.1:0";
  std::string port_file;
  std::string callback_socket;
  std::string translator_python;
  pw::frontend::ServerOptions server;
  bool exit_with_parent = false;
};

void Declare(Options* options, pw::Flags* flags) {
  flags->Add("cluster", &options->cluster.controller, "ADDRESS", "where the controller serves sessions: HOST:PORT or unix:PATH");
  flags->Add("listen", &options->listen, "HOST:PORT", "where jax programs connect; port 0 picks a free one");
  flags->Add("patience", &options->cluster.patience, "DURATION", "how long the controller may be out of reach before a session ends");
  flags->Add("callback-socket", &options->callback_socket, "PATH",
             "a Unix socket through which computations call Python functions of clients with our package");
  flags->Add("shared-directory", &options->server.shared_directory, "DIR",
             "a folder in memory through which clients on this machine hand over large arrays; default: none");
  flags->Add("persistence-directory", &options->server.persistence_directory, "DIR",
             "clients may have arrays and profiles written below this folder and read from it; default: none");
  flags->Add("object-directory", &options->server.object_directory, "DIR",
             "where what clients write to gs://BUCKET/OBJECT is kept, as DIR/gs/BUCKET/OBJECT; default: nowhere");
  flags->Add("translator-python", &options->translator_python, "PATH",
             "the Python, with this package and jaxlib, that translates programs which are newer than the devices' runtime, for "
             "clients without this package; default: they are refused");
  flags->Add("port-file", &options->port_file, "PATH", "where to write the address that is listened on");
  flags->Add("exit-with-parent", &options->exit_with_parent, "stop when the process that started this one ends");
}

absl::Status Serve(Options options, pw::StopSignal* stop) {
  if (options.cluster.controller.empty()) {
    return absl::InvalidArgumentError("--cluster must name the address where the controller serves sessions (its --listen-sessions)");
  }
  PW_RETURN_IF_ERROR(pw::frontend::ParseListenAddress(options.listen, "--listen", &options.server));
  if (!options.translator_python.empty()) options.server.translator = pw::frontend::TranslatorCommand(options.translator_python);

  // Destroyed in the reverse order: clients, timers, connections, the executor with what it still runs, then the state.
  pw::SteadyClock clock;
  std::unique_ptr<pw::client::RemoteCluster> cluster;
  pw::ThreadPool executor("pw-agent", 1);
  pw::Strand strand(&executor);
  pw::net::AsioTransport transport;
  pw::TimerQueue timers(&clock);
  options.cluster.remedy = kRemedy;
  cluster = std::make_unique<pw::client::RemoteCluster>(options.cluster, pw::client::Link::Environment{&transport, &strand, &timers, &clock});
  PW_ASSIGN_OR_RETURN(auto server, pw::frontend::Server::Start(options.server, cluster.get()));
  const std::string address = absl::StrCat(options.server.host, ":", server->port());
  std::unique_ptr<pw::relay::CallbackBridge> bridge;
  if (!options.callback_socket.empty()) {
    PW_ASSIGN_OR_RETURN(bridge, pw::relay::CallbackBridge::Start(options.callback_socket, {pw::relay::ControllerChannel(address), nullptr}));
  }
  if (!options.port_file.empty()) PW_RETURN_IF_ERROR(pw::WritePortFile(options.port_file, absl::StrCat(address, "\n", getpid())));
  PW_LOG_INFO << "agent: jax programs connect to " << address << "; the controller is at " << options.cluster.controller;
  PW_LOG_INFO << "agent: stopping: " << stop->Wait(options.exit_with_parent);
  bridge = nullptr;
  server->Shutdown();
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  pw::StopSignal stop;
  pw::RaiseOpenFilesLimit();
  setenv("GRPC_VERBOSITY", "NONE", 0);  // its complaints repeat, less clearly, what our errors say
  Options options;
  pw::Flags flags("pathways-agent",
                  "The front door of a cluster, beside its clients: serves jax programs (JAX_PLATFORMS=proxy, or our package), and speaks "
                  "to the controller for them.");
  Declare(&options, &flags);
  if (const auto code = flags.ParseMain(argc, argv)) return *code;
  const absl::Status status = Serve(options, &stop);
  if (status.ok()) return 0;
  std::fprintf(stderr, "pathways-agent: %s\n", std::string(status.message()).c_str());
  return 2;  // bad flags, an address in use: nothing was served
}
