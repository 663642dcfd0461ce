// EventLoop: one asio io_context and the one thread that runs it. All state of a connection that is not behind a lock lives on
// the thread of its loop; that thread delivers its handler's calls.
//
// Life: objects on a loop register what to do at shutdown. BeginShutdown runs these on the loop; Join lets the loop run dry and
// joins the thread. The io_context lives until the last object that shares it has gone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "pathways/net/asio.h"

namespace pw::net {

class EventLoop {
 public:
  explicit EventLoop(std::string name);  // the name shows in `top -H`
  ~EventLoop();

  asio::io_context& io() { return io_; }
  bool RunsHere() const;

  // Runs `f` on the loop later, never inside this call. What one thread posts runs in order; what the loop's own thread posts may
  // be overtaken by what others post afterwards.
  template <class F>
  void Post(F&& f) {
    asio::post(io_, std::forward<F>(f));
  }

  // On the loop. Once shutdown has begun a new hook is called soon after it was added.
  uint64_t AddShutdownHook(std::function<void()> hook);
  void RemoveShutdownHook(uint64_t id) { hooks_.erase(id); }
  bool shutting_down() const { return shutting_down_; }

  // From outside the loop: returns when every hook has run.
  void BeginShutdown();
  void Join();

 private:
  void Run(const std::string& name);
  void RunHooks();

  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  // Of the loop's thread.
  std::map<uint64_t, std::function<void()>> hooks_;
  uint64_t next_hook_ = 1;
  bool shutting_down_ = false;

  std::thread thread_;
};

}  // namespace pw::net
