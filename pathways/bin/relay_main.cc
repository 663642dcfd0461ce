// pathways-relay: the endpoint on the client's machine. Wiring only; relay/ has the substance.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/flags.h"
#include "pathways/base/log.h"
#include "pathways/base/port_file.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/stop_signal.h"
#include "pathways/relay/callback_bridge.h"
#include "pathways/relay/relay.h"

namespace {

struct Options {
  std::string target;
  std::string listen = "127.0.0.1:0";
  std::string port_file;
  std::string callback_socket;
  std::string files;
  bool exit_with_parent = false;
};

// The host part of HOST:PORT.
std::string Host(const std::string& address) { return address.substr(0, address.rfind(':')); }

absl::Status Run(const Options& options, pw::StopSignal* stop) {
  if (!absl::StrContains(options.target, ':')) {
    return absl::InvalidArgumentError("--target must be the controller's HOST:PORT (pathways status shows it)");
  }
  pw::relay::ControllerLine line;
  PW_ASSIGN_OR_RETURN(auto relay, pw::relay::Relay::Start(options.listen, options.target, options.files, &line));
  std::unique_ptr<pw::relay::CallbackBridge> bridge;
  if (!options.callback_socket.empty()) {
    PW_ASSIGN_OR_RETURN(
        bridge, pw::relay::CallbackBridge::Start(options.callback_socket, {pw::relay::ControllerChannel(options.target), &line}));
  }
  const std::string address = absl::StrCat(Host(options.listen), ":", relay->port());
  if (!options.port_file.empty()) PW_RETURN_IF_ERROR(pw::WritePortFile(options.port_file, address));
  PW_LOG_INFO << "relay: " << address << " stands for the controller at " << options.target;
  PW_LOG_INFO << "relay: stopping: " << stop->Wait(options.exit_with_parent);
  line.Close();  // nobody waits for what it has under way
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  pw::StopSignal stop;
  setenv("GRPC_VERBOSITY", "NONE", 0);  // its complaints repeat, less clearly, what our errors say
  Options options;
  pw::Flags flags(
      "pathways-relay",
      "The endpoint on the client's machine: passes jax's requests to the controller, and answers in its place when the "
      "controller has gone, so that the user's process gets an error instead of ending.");
  flags.Add("target", &options.target, "HOST:PORT", "the controller");
  flags.Add("listen", &options.listen, "HOST:PORT", "where jax's client connects; port 0 picks a free one");
  flags.Add("port-file", &options.port_file, "PATH", "where to write the address that is listened on");
  flags.Add("callback-socket", &options.callback_socket, "PATH",
            "a Unix socket through which computations call Python functions here");
  flags.Add("files", &options.files, "DIR", "where clients have folders for large arrays that they leave to be sent");
  flags.Add("exit-with-parent", &options.exit_with_parent, "stop when the process that started this one ends");
  if (const auto code = flags.ParseMain(argc, argv)) return *code;
  const absl::Status status = Run(options, &stop);
  if (!status.ok()) std::fprintf(stderr, "pathways-relay: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
