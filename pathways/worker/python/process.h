// PythonProcess: a Python interpreter beside the worker that runs the functions of one session
// (python/pathways/_colocated/host.py). The constructor begins to start it. The destructor kills it, if it still runs, and all
// processes that it has started.
//
// The worker has two connections to it. The process's standard input and output are one socket (base/process/child_process.h): it
// reads its greeting there, prints there, and notices there that the worker has ended. Messages and the bytes of arrays travel on
// a FileSocket (message.h), to which the process connects with the key in its greeting.
//
// Invariants:
//   PP-1  messages arrive in the order of Send, also those sent before the process has connected
//   PP-2  OnEnded is called once, after all other calls, and says how the process ended; never after the destructor
// Lives on the worker's strand, on which it calls its owner. One thread of `threads` waits for the process.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "pathways/base/process/child_process.h"
#include "pathways/base/threads/executor.h"
#include "pathways/net/sockets/file_socket.h"
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
    std::shared_ptr<Executor> threads;  // starts each task at once (base/threads/growing_pool.h)
    net::FileListener* files;
  };

  // `temporary`: a folder that is removed once the process has ended. `greeting`: fields of the JSON object that the process reads first.
  PythonProcess(std::vector<std::string> command, std::unique_ptr<PrivateFolder> temporary, const std::string& greeting,
                const Environment& environment, Owner* owner);  // `owner` must outlive this
  ~PythonProcess();

  void Send(OutgoingMessage message);  // queues the message, also before the process has connected
  // Returns 0 until the process has started.
  int pid() const;

 private:
  struct Shared;   // used by its threads; outlives this
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
