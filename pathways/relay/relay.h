// Relay: the endpoint on the client's machine. The stock client connects here, on loopback, and the relay passes everything on to
// the controller; when the controller goes, the relay answers in its place (traffic.h), so that the user's process gets an error
// where it would have aborted.
//
// Owns one thread, which drains one completion queue: that is where all calls live (call.h). Destruction cancels what is under
// way.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/alarm.h"
#include "grpcpp/channel.h"
#include "grpcpp/server.h"
#include "pathways/base/thread_pool.h"
#include "pathways/relay/call.h"

namespace pw::relay {

// A channel to a controller: no limit on message sizes, quick to connect anew, and with pings, so that a machine that vanished
// without a word is noticed within half a minute.
std::shared_ptr<grpc::Channel> ControllerChannel(const std::string& address);

class Relay {
 public:
  // Listens on `listen` ("127.0.0.1:0" picks a free port). The controller need not be there yet.
  // `files`: the directory in which clients have folders for files that they leave here (file_upload.h); empty: none.
  // UNAVAILABLE: the address cannot be listened on. INVALID_ARGUMENT: there is no such directory.
  // `line`: for these files, null or open until the relay has gone.
  static absl::StatusOr<std::unique_ptr<Relay>> Start(const std::string& listen, const std::string& controller,
                                                      const std::string& files, ControllerLine* line = nullptr);
  ~Relay();

  int port() const { return port_; }

 private:
  Relay() : thread_("relay", 1) {}
  void Drain();

  Hub hub_;
  std::unique_ptr<grpc::Server> server_;
  grpc::Alarm stop_;
  int port_ = 0;
  ThreadPool thread_;  // last: joined before what it uses goes
};

}  // namespace pw::relay
