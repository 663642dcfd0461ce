// Ports: programs of many nodes (@pw.program) behind the C API.
//
// An executable of the C API takes and returns arrays on one list of devices. A program of many nodes has arguments and results
// on several lists. So the package compiles a *port* of the program for each list: an executable whose arguments and results are
// the program's on these devices. A call of the program executes each of its ports once, in any order, by one thread at a time.
// The last one sends the call.
//
// A port's compile options have two entries that XLA does not know:
//   pathways_program  the program (proto/pathways/v1/program.proto) in base64. Only the first port of a program has it
//   pathways_port     KEY:PORTS:NUMBER:PARAMETERS:RESULTS. KEY names the program; PARAMETERS and RESULTS are positions, such as 0,2,3
//
// Invariants:
//  1. Results have names before the call is sent, so a port can return them before other ports have taken their arguments. The
//     cluster knows them only once the call is sent: no request may name them earlier.
//  2. If a port is executed again before all ports of a call were, that call is given up.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/base/threads/future.h"
#include "pathways/client/client.h"
#include "plugins/pathways_pjrt/shared_array.h"
#include "xla/compile_options.pb.h"

namespace pw::pathways_pjrt {

// The part of compile options that describes a port.
struct PortOptions {
  std::string key;
  std::string program;  // empty: another port carries it
  int ports = 0;
  int number = 0;
  std::vector<int32_t> parameters;
  std::vector<int32_t> results;
};
// Returns nullopt for the options of an ordinary program.
absl::StatusOr<std::optional<PortOptions>> ReadPortOptions(const xla::CompileOptionsProto& options);

// The results of executing a port.
struct PortResults {
  std::vector<client::Array> arrays;
  Future<Unit> sent;  // set when the call is sent or given up
};

// A compiled program of many nodes. Any thread.
class ManyNodes {
 public:
  ManyNodes(client::Client* session, client::Executable executable, int ports)
      : session_(session), info_(std::move(executable)), ports_(ports) {}
  ~ManyNodes() { session_->Drop(info_); }
  ManyNodes(const ManyNodes&) = delete;
  ManyNodes& operator=(const ManyNodes&) = delete;

  // Describes the port's part of the program. INVALID_ARGUMENT if the program has no such part, or another port has it.
  absl::StatusOr<client::Executable> AddPort(const PortOptions& port, std::vector<DeviceId> devices);
  // Takes the port's arguments, and returns its results. `kept`: the arguments that must not be donated.
  absl::StatusOr<PortResults> Execute(const PortOptions& port, const std::vector<std::shared_ptr<SharedArray>>& arguments,
                                      const std::vector<int32_t>& kept);

 private:
  void Begin();
  absl::Status Send();

  client::Client* const session_;
  const client::Executable info_;
  const int ports_;
  std::mutex mu_;
  std::set<int32_t> parameters_, results_;  // of the ports so far; guarded by mu_, as all below
  // The call under way.
  std::set<int> executed_;  // ports
  std::vector<std::shared_ptr<SharedArray>> arguments_;
  std::vector<client::Array> arrays_;  // results that no port has returned yet
  client::RunOptions run_;
  Promise<Unit> sent_;
};

}  // namespace pw::pathways_pjrt
