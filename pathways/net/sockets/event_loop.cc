#include "pathways/net/sockets/event_loop.h"

#include <future>

#include "pathways/base/log.h"
#include "pathways/base/threads/thread_name.h"

namespace pw::net {
namespace {
thread_local const EventLoop* current_loop = nullptr;
}  // namespace

EventLoop::EventLoop(std::string name) : io_(1), work_(io_.get_executor()) {
  thread_ = std::thread([this, name = std::move(name)] { Run(name); });
}

EventLoop::~EventLoop() { PW_CHECK(!thread_.joinable()); }

void EventLoop::Run(const std::string& name) {
  NameThisThread(name);
  current_loop = this;
  io_.run();
  current_loop = nullptr;
}

bool EventLoop::RunsHere() const { return current_loop == this; }

uint64_t EventLoop::AddShutdownHook(std::function<void()> hook) {
  const uint64_t id = next_hook_++;
  hooks_.emplace(id, std::move(hook));
  if (shutting_down_) Post([this] { RunHooks(); });
  return id;
}

void EventLoop::RunHooks() {
  while (!hooks_.empty()) {
    std::function<void()> hook = std::move(hooks_.begin()->second);
    hooks_.erase(hooks_.begin());
    hook();
  }
}

void EventLoop::BeginShutdown() {
  PW_CHECK(!RunsHere());  // a handler must not destroy the transport that calls it
  std::promise<void> done;
  Post([this, &done] {
    shutting_down_ = true;
    RunHooks();
    done.set_value();
  });
  done.get_future().wait();
}

void EventLoop::Join() {
  work_.reset();
  if (thread_.joinable()) thread_.join();
}

}  // namespace pw::net
