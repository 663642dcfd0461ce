// RuntimeWorld: a few hosts with a runtime each, on one thread, over memory transports. A seed decides the order of tasks of
// different hosts and of the two lanes of a connection.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "pathways/base/testing/manual_world.h"
#include "pathways/base/threads/strand.h"
#include "pathways/dataflow/runtime.h"
#include "pathways/dataflow/testing/transport_links.h"
#include "pathways/net/in_memory/memory_transport.h"

namespace pw::dataflow {

// Links over other links, whose ways can break. A frame carries the number of breaks that its sender knew of.
class BreakableLinks : public Links, private Links::Handler {
 public:
  explicit BreakableLinks(Links* under) : under_(under) {}

  void Start(Links::Handler* handler) override {
    handler_ = handler;
    under_->Start(this);
  }
  void Send(HostId to, std::string header, std::vector<Bytes> payload, net::Lane lane) override {
    under_->Send(to, static_cast<char>(breaks_[to]) + header, std::move(payload), lane);
  }
  void Disconnect(HostId host, const absl::Status& why) override { under_->Disconnect(host, why); }
  // The way has broken this often; frames sent before the last time do not arrive any more.
  void Broke(HostId host, uint8_t times) {
    if (breaks_[host] >= times) return;
    breaks_[host] = times;
    handler_->OnPeerBroken(host, absl::UnavailableError("cable"));
  }

 private:
  void OnFrame(HostId from, net::Frame frame) override {
    const auto known = static_cast<uint8_t>(frame.header[0]);
    if (known < breaks_[from]) return;
    Broke(from, known);
    handler_->OnFrame(from, {frame.header.substr(1), std::move(frame.payload)});
  }
  void OnPeerLost(HostId host, const absl::Status& reason) override { handler_->OnPeerLost(host, reason); }
  void OnPeerBroken(HostId host, const absl::Status& reason) override { handler_->OnPeerBroken(host, reason); }

  Links* const under_;
  Links::Handler* handler_ = nullptr;
  std::map<HostId, uint8_t> breaks_;
};

class RuntimeWorld {
 public:
  RuntimeWorld(uint32_t hosts, uint64_t seed, const Operators& operators, const RuntimeKnobs& knobs = {})
      : executor_(seed), timers_(&clock_, &executor_), operators_(operators) {
    for (uint32_t h = 0; h < hosts; ++h) hosts_.push_back(std::make_unique<Host>(this, HostId(h), knobs));
    for (auto& host : hosts_) {
      for (uint32_t h = 0; h < hosts; ++h) host->links.SetPeer(HostId(h), Address(h));
    }
  }
  ~RuntimeWorld() {
    hosts_.clear();
    executor_.RunUntilIdle();
  }

  Runtime& at(uint32_t host) { return *hosts_[host]->runtime; }
  TransportLinks& links(uint32_t host) { return hosts_[host]->links; }
  // Runs all tasks, and moves the clock on, until no task and no timer is left.
  void Settle() {
    do {
      executor_.RunUntilIdle();
    } while (timers_.Step());
  }
  // Runs all tasks without moving the clock.
  void SettleNow() { executor_.RunUntilIdle(); }
  bool RunOne() { return executor_.RunOne(); }
  // Kills the host's process: its connections break.
  void Kill(uint32_t host) { hosts_[host] = nullptr; }
  // Breaks the way between two hosts. Each learns it in its own time. At most 255 times.
  void Break(uint32_t a, uint32_t b) {
    const uint8_t times = ++breaks_[{std::min(a, b), std::max(a, b)}];
    for (auto [host, other] : {std::pair(a, b), std::pair(b, a)}) {
      if (hosts_[host] == nullptr) continue;
      hosts_[host]->strand.Post([this, host = host, other = other, times] {
        if (hosts_[host] != nullptr) hosts_[host]->breakable.Broke(HostId(other), times);
      });
    }
  }
  // Tells all other hosts that this host has left the cluster.
  void TellLost(uint32_t host) {
    for (auto& other : hosts_) {
      if (other != nullptr) other->links.RemovePeer(HostId(host), absl::UnavailableError("it has left"));
    }
  }
  void ExpectNothingLeft() {
    for (auto& host : hosts_) {
      if (host == nullptr) continue;
      EXPECT_EQ(host->runtime->live_runs(), 0u) << ToString(host->id);
    }
  }
  ManualClock& clock() { return clock_; }
  net::Counters totals() const { return network_.totals(); }

 private:
  struct Host {
    Host(RuntimeWorld* world, HostId id, const RuntimeKnobs& knobs)
        : id(id),
          strand(*world->strands_.emplace_back(std::make_unique<Strand>(&world->executor_))),
          transport(&world->network_, &world->executor_),
          links(&transport, &strand, {.self = id, .incarnation = 7}),
          breakable(&links) {
      auto listening =
          transport.Listen(Address(id.v), [this](std::unique_ptr<net::Connection> c) { links.Accept(std::move(c)); });
      EXPECT_TRUE(listening.ok()) << listening.status();
      listener = *std::move(listening);
      runtime = std::make_unique<Runtime>(
          Runtime::Environment{id, &strand, &world->clock_, &world->timers_, &breakable, &world->operators_}, knobs);
    }
    const HostId id;
    Strand& strand;
    net::MemoryTransport transport;
    TransportLinks links;
    BreakableLinks breakable;
    std::unique_ptr<net::Listener> listener;
    std::unique_ptr<Runtime> runtime;
  };
  static std::string Address(uint32_t host) { return absl::StrCat("tcp:host", host, ":1"); }

  ManualExecutor executor_;
  ManualClock clock_;
  ManualTimers timers_;
  const Operators operators_;
  net::MemoryNetwork network_;
  std::map<std::pair<uint32_t, uint32_t>, uint8_t> breaks_;
  std::vector<std::unique_ptr<Strand>> strands_;  // outlive killed hosts: a Connect may still be pending
  std::vector<std::unique_ptr<Host>> hosts_;
};

// An operator made of functions. Empty functions fall back to Operator's defaults.
struct FunctionOperator : Operator {
  std::function<void(Shard&)> on_start, on_inputs_closed, on_writable;
  std::function<void(Shard&, EdgeId, Tuple)> on_tuple;
  std::function<void()> on_destroy;

  ~FunctionOperator() override {
    if (on_destroy) on_destroy();
  }
  void OnStart(Shard& shard) override {
    if (on_start) on_start(shard);
  }
  void OnTuple(Shard& shard, EdgeId edge, Tuple tuple) override {
    if (on_tuple) on_tuple(shard, edge, std::move(tuple));
  }
  void OnInputsClosed(Shard& shard) override { on_inputs_closed ? on_inputs_closed(shard) : Operator::OnInputsClosed(shard); }
  void OnWritable(Shard& shard) override {
    if (on_writable) on_writable(shard);
  }
};

inline Operators::Factory MakeOf(std::function<std::unique_ptr<FunctionOperator>()> make) {
  return [make = std::move(make)](const OperatorContext&) -> absl::StatusOr<std::unique_ptr<Operator>> { return make(); };
}

inline Tuple TupleOf(std::string text) { return {Bytes::FromString(std::move(text)), {}}; }

}  // namespace pw::dataflow
