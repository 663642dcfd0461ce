// EventLoop: one asio io_context and the single thread that runs it. Connection state that no lock guards is used only on the
// thread of the connection's loop; that thread also calls the handler.
//
// Shutdown: objects on a loop register hooks. BeginShutdown runs the hooks on the loop. Join waits until the loop has no more work
// and joins the thread. The io_context lives until the last object that shares the loop is destroyed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "pathways/net/sockets/asio.h"

namespace pw::net {

class EventLoop {
 public:
  explicit EventLoop(std::string name);  // `top -H` shows the name
  ~EventLoop();

  asio::io_context& io() { return io_; }
  bool RunsHere() const;

  // Runs `f` on the loop later, never inside this call. Tasks that one thread posts run in order. Tasks that the loop's own thread
  // posts may be overtaken by tasks that other threads post later.
  template <class F>
  void Post(F&& f) {
    asio::post(io_, std::forward<F>(f));
  }

  // Adds a hook that runs at shutdown. Call it on the loop. A hook added after shutdown began runs soon.
  uint64_t AddShutdownHook(std::function<void()> hook);
  void RemoveShutdownHook(uint64_t id) { hooks_.erase(id); }
  bool shutting_down() const { return shutting_down_; }

  // Runs all hooks and returns when they have run. Must not be called on the loop.
  void BeginShutdown();
  void Join();

 private:
  void Run(const std::string& name);
  void RunHooks();

  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  // Used on the loop's thread only.
  std::map<uint64_t, std::function<void()>> hooks_;
  uint64_t next_hook_ = 1;
  bool shutting_down_ = false;

  std::thread thread_;
};

}  // namespace pw::net
