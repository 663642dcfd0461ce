// floor_server: a front end without a cluster (session.h). Wiring only.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "bench/floor/service.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "pathways/base/process/flags.h"
#include "pathways/base/process/port_file.h"
#include "pathways/base/process/stop_signal.h"

int main(int argc, char** argv) {
  const pid_t parent = getppid();
  pw::StopSignal stop;
  std::string port_file;
  int devices = 8;
  bool answer_all = false;
  pw::Flags flags("floor_server", "A front door that reads and discards: what is left is the client's own cost.");
  flags.Add("port-file", &port_file, "PATH", "where to write the address");
  flags.Add("devices", &devices, "N", "devices to announce");
  flags.Add("answer-all", &answer_all, "answer also what the client does not wait for");
  if (const auto code = flags.ParseMain(argc, argv)) return *code;

  pw::bench::FloorService service(devices, answer_all);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  if (server == nullptr) {
    std::fprintf(stderr, "floor_server: cannot listen on 127.0.0.1\n");
    return 1;
  }
  const std::string address = absl::StrCat("127.0.0.1:", port);
  const absl::Status written = port_file.empty() ? absl::OkStatus() : pw::WritePortFile(port_file, address);
  std::fprintf(stderr, "floor_server: %s\n", written.ok() ? address.c_str() : std::string(written.message()).c_str());
  if (!written.ok()) return 1;
  stop.Wait(parent);
  server->Shutdown(std::chrono::system_clock::now());
  return 0;
}
