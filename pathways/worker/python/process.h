// PythonProcess: a Python interpreter beside the worker, which runs the functions of one session (python/pathways/_colocated/host.py). It begins to
// start when it is made, and is killed at the latest when this is destroyed, with all that it has started.
//
// It is connected in two ways. Its standard input and output are one socket (base/child_process.h). It gets its greeting there and notices the end of
// the worker there; its prints come from there. Messages and the bytes of arrays travel on a FileSocket (message.h), to which it connects with
// the key in its greeting.
//
// Invariants:
//   PP-1  messages arrive there in the order of Send, those sent before it has connected included
//   PP-2  OnEnded is called once, after everything else, and says how the process ended; not after the destructor
// Lives on the worker's strand, on which it calls its owner. One thread of `threads` waits for the process.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "pathways/base/child_process.h"
#include "pathways/base/executor.h"
#include "pathways/net/file_socket.h"
#include "pathways/worker/python/message.h"
#include "pathways/worker/python/rights.h"

namespace pw::worker {

class PythonProcess {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnMessage(PythonMessage message) = 0;
    virtual void OnOutput(absl::string_view text) = 0;
    virtual void OnEnded(const std::string& how) = 0;
  };

  struct Environment {
    Executor* strand;
    std::shared_ptr<Executor> threads;  // starts each task at once (base/growing_pool.h)
    net::FileListener* files;
  };

  // `temporary`: removed once the process has ended. `greeting`: fields of the JSON object that the process reads first. `owner` outlives this.
  PythonProcess(std::vector<std::string> command, std::unique_ptr<PrivateFolder> temporary, const std::string& greeting,
                const Environment& environment, Owner* owner);
  ~PythonProcess();

  void Send(OutgoingMessage message);
  // 0 until it has started.
  int pid() const;

 private:
  struct Shared;   // what its threads use; outlives this
  class Incoming;  // takes the packets

  void OnConnected(std::unique_ptr<net::FileSocket> socket);

  const Environment environment_;
  const std::shared_ptr<Shared> shared_;
  std::string key_;
  std::unique_ptr<Incoming> incoming_;
  std::unique_ptr<net::FileSocket> socket_;
  std::deque<OutgoingMessage> early_;  // until it has connected
};

}  // namespace pw::worker
