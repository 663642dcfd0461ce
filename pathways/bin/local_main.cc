// pathways-local: a cluster of one host in one process, for the jax program that starts it. Front door, controller and host exchange
// messages in memory, on one thread. Wiring only.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "pathways/base/log.h"
#include "pathways/base/process/flags.h"
#include "pathways/base/process/open_files.h"
#include "pathways/base/process/stop_signal.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/threads/await.h"
#include "pathways/bin/front_door.h"
#include "pathways/bin/local_cluster.h"

namespace {

struct Options {
  pw::LocalClusterOptions local;
  pw::FrontDoorOptions door;
  int exit_with_parent = 0;  // a process id
};

void Declare(Options* options, pw::Flags* flags) {
  pw::DeclareFrontDoor(&options->door, flags);
  pw::DeclareLocalCluster(&options->local, flags);
  pw::DeclareObjects(&options->local.host.objects, flags);
  flags->Add("exit-with-parent", &options->exit_with_parent, "PID",
             "stop when this process, which has started this one, ends; 0: no");
}

absl::Status Serve(Options options, pw::StopSignal* stop) {
  // The host saves arrays where the front door writes profiles.
  options.local.host.persistence_directory = options.door.server.server.persistence_directory;
  options.local.host.object_directory = options.door.server.server.object_directory;
  absl::Status outcome;
  PW_ASSIGN_OR_RETURN(std::unique_ptr<pw::LocalCluster> local,
                      pw::LocalCluster::Start(std::move(options.local), pw::StopProcess(&outcome)));
  // Whoever reads the door's port file may connect by either door at once, and a cluster without its host lets nobody in.
  PW_RETURN_IF_ERROR(pw::Await(local->formed()).status());
  PW_ASSIGN_OR_RETURN(auto door, pw::FrontDoor::Open(options.door, local->cluster()));
  PW_LOG_INFO << "local cluster: jax programs connect to " << door->address();

  const std::string reason = stop->Wait(options.exit_with_parent);
  PW_LOG_INFO << "local cluster: stopping: " << reason;
  door = nullptr;
  local->Stop(reason, absl::Seconds(2));
  pw::EndProcess("pathways-local", outcome);
}

}  // namespace

int main(int argc, char** argv) {
  pw::StopSignal stop;
  pw::RaiseOpenFilesLimit();
  setenv("GRPC_VERBOSITY", "NONE", 0);     // gRPC's log lines repeat our errors, less clearly
  setenv("TF_CPP_MIN_LOG_LEVEL", "3", 0);  // hides XLA's log lines; its errors come as statuses
  Options options;
  pw::Flags flags("pathways-local",
                  "A cluster of one host in one process: the accelerators of this machine, for jax programs of this machine. The "
                  "package starts one "
                  "for a program that names no cluster.");
  Declare(&options, &flags);
  if (const auto code = flags.ParseMain(argc, argv)) return *code;
  const absl::Status status = Serve(options, &stop);
  std::fprintf(stderr, "pathways-local: %s\n", std::string(status.message()).c_str());
  return 2;  // bad flags, an address in use, a device plugin that cannot be loaded: nothing was served
}
